"""What a running process believes of a wall clock that jumps, and when its timers fire."""

import logging

import pytest

from tank_node.clock import NOTICED_MS, SteadyClock, next_beat_s

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


@pytest.mark.parametrize("period_s", [0.05, 0.5, 1.0])
def test_a_timer_that_fires_in_time_keeps_its_period(period_s: float) -> None:
    at_s = next_beat_s(34_567.8, period_s)
    for _ in range(100):
        later_s = next_beat_s(at_s, period_s)
        assert later_s - at_s == pytest.approx(period_s)
        at_s = later_s


def test_timers_of_one_period_fire_together_whenever_they_began() -> None:
    first_s, *others_s = (next_beat_s(now_s, 0.05) for now_s in (100.0, 100.013, 100.024, 100.04))
    for other_s in others_s:
        apart = (other_s - first_s) / 0.05
        assert apart == pytest.approx(round(apart), abs=1e-6)


def test_a_timer_of_a_multiple_of_the_period_fires_with_the_others() -> None:
    at_s = next_beat_s(100.0, 0.5)
    assert next_beat_s(at_s - 0.05, 0.05) == pytest.approx(at_s)


@pytest.mark.parametrize("late_s", [0.0, 0.01, 0.03, 0.049, 0.3])
def test_a_timer_that_was_held_up_waits_for_half_a_period_at_least(late_s: float) -> None:
    now_s = next_beat_s(100.0, 0.05) + late_s
    assert 0.025 <= next_beat_s(now_s, 0.05) - now_s + 1e-9 <= 0.075 + 2e-9
