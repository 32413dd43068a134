"""What a running process believes of a wall clock that jumps."""

import logging

import pytest

from tank_node.clock import NOTICED_MS, SteadyClock

DAY_MS = 86_400_000


class Machine:
    """A wall clock and a monotonic one, each moved by itself."""

    def __init__(self) -> None:
        self.wall_ms, self.steady_ms = 1_700_000_000_000, 5_000

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.steady_ms

    def monotonic_us(self) -> int:
        return self.steady_ms * 1000

    def pass_ms(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds
        self.steady_ms += milliseconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def clock(machine: Machine) -> SteadyClock:
    return SteadyClock(machine)


def test_a_clock_that_goes_right_is_believed(machine: Machine, clock: SteadyClock) -> None:
    for _ in range(5):
        machine.pass_ms(DAY_MS)
        assert clock.now_ms() == machine.wall_ms
    assert (clock.ahead_ms, clock.problem) == (0, "")


def test_a_small_step_forward_is_caught_up_within_as_much_time(machine: Machine, clock: SteadyClock) -> None:
    machine.wall_ms += 300
    machine.pass_ms(100)
    assert clock.now_ms() == machine.wall_ms - 200
    machine.pass_ms(200)
    assert clock.now_ms() == machine.wall_ms
    assert clock.problem == ""


def test_a_jump_forward_is_not_believed_and_is_said_once(
    machine: Machine, clock: SteadyClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    began_ms = clock.now_ms()
    machine.wall_ms += 365 * DAY_MS
    for _ in range(60):
        machine.pass_ms(60_000)
        clock.now_ms()
    assert clock.now_ms() == began_ms + 2 * 3_600_000, "an hour passed, and it goes twice as fast at most"
    assert "restart the broker" in clock.problem
    assert caplog.text.count("has jumped forward") == 1
    machine.wall_ms -= 365 * DAY_MS
    machine.pass_ms(1000)
    assert clock.now_ms() == machine.wall_ms, "set right: believed at once, though an hour goes back"
    assert (clock.ahead_ms, clock.problem) == (0, "")
    assert "agrees again" in caplog.text


def test_a_clock_that_is_set_back_is_believed_at_once(machine: Machine, clock: SteadyClock) -> None:
    machine.wall_ms -= DAY_MS
    assert clock.now_ms() == machine.wall_ms
    machine.wall_ms += DAY_MS
    machine.pass_ms(NOTICED_MS // 2)
    assert clock.now_ms() == machine.wall_ms - DAY_MS + NOTICED_MS // 2
    assert clock.problem


def test_the_other_clock_is_the_machines(machine: Machine, clock: SteadyClock) -> None:
    assert (clock.monotonic_ms(), clock.monotonic_us()) == (5_000, 5_000_000)
