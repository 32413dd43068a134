"""Whose clock is off: brokers' wall clocks, as the leading controller compares them."""

import pytest

from tank_controller.leader.brokers.clocks import Bounds, BrokerClocks, majorities
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster

TIMEOUT_MS = 6000
SKEW_MS = 10_000
STARTED_MS = 5_000_000
WALL_MS = 1_800_000_000_000


class Compared:
    """Brokers with clocks, and a leading controller that hears of them each second."""

    def __init__(self, *brokers: int) -> None:
        self.cluster = Cluster(*brokers)
        self.clocks = BrokerClocks(SKEW_MS, TIMEOUT_MS)
        self.clocks.begin_term()
        self.now_ms = STARTED_MS
        self.ahead_ms = dict.fromkeys(brokers, 0)
        self.own_ahead_ms = 0
        self.under_way_ms = 10
        self.silent: set[int] = set()

    def go_on(self, seconds: int = 10) -> None:
        """Heartbeats come, each of which was under way for so long, and the state does what is proposed."""
        for _ in range(seconds):
            self.now_ms += 1000
            right_ms = WALL_MS + self.now_ms - STARTED_MS
            for broker_id in self.ahead_ms.keys() - self.silent:
                sent_ms = right_ms - self.under_way_ms
                heartbeat = pb.BrokerHeartbeat(
                    wall_ms=sent_ms + self.ahead_ms[broker_id],
                    answers_ms=self.now_ms - 500 - self.under_way_ms,
                    held_ms=500,
                )
                self.clocks.heard(broker_id, heartbeat, self.now_ms)
            for command in self.clocks.tick(self.cluster.state, self.now_ms, right_ms + self.own_ahead_ms):
                self.cluster.do(command)

    @property
    def off(self) -> list[int]:
        return [each.broker_id for each in self.cluster.state.brokers.values() if each.clock_off]


def test_clocks_that_differ_by_less_are_right() -> None:
    compared = Compared(1, 2, 3)
    compared.ahead_ms.update({1: 4000, 2: -4000})
    compared.go_on(30)
    assert not compared.off
    assert not compared.clocks.disagree


@pytest.mark.parametrize("ahead_ms", [15_000, -15_000, 365 * 86_400_000])
def test_one_of_three_that_is_further_off_is_kept_from_leading_until_it_is_right(ahead_ms: int) -> None:
    compared = Compared(1, 2, 3)
    compared.ahead_ms[2] = ahead_ms
    compared.go_on(5)
    assert not compared.off  # it has to last
    compared.go_on(5)
    assert compared.off == [2]
    assert abs(compared.clocks.ahead_ms[2] - ahead_ms) < 100
    compared.ahead_ms[2] = 0
    compared.go_on(10)
    assert not compared.off


def test_who_was_off_has_to_come_closer_than_the_others_have_to_stay() -> None:
    compared = Compared(1, 2, 3)
    compared.ahead_ms[2] = SKEW_MS + 1000
    compared.go_on()
    compared.ahead_ms[2] = SKEW_MS - 1000
    compared.go_on(20)
    assert compared.off == [2]
    compared.ahead_ms[2] = SKEW_MS // 2 - 1000
    compared.go_on()
    assert not compared.off


def test_of_two_that_differ_the_controllers_own_clock_decides() -> None:
    compared = Compared(1, 2)
    compared.ahead_ms[1] = 60_000
    compared.go_on()
    assert compared.off == [1]


def test_the_controllers_own_clock_decides_nothing_where_a_majority_of_brokers_agrees(
    caplog: pytest.LogCaptureFixture,
) -> None:
    compared = Compared(1, 2, 3)
    compared.own_ahead_ms = 3_600_000
    compared.go_on()
    assert not compared.off
    assert compared.clocks.own_ahead_ms == pytest.approx(3_600_000, abs=100)
    assert "this controller's clock is off by +3600.0 s" in caplog.text


def test_where_no_majority_agrees_all_may_lead_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    compared = Compared(1, 2, 3)
    compared.ahead_ms.update({1: 60_000, 2: 120_000})
    compared.own_ahead_ms = -60_000
    compared.go_on(20)
    assert not compared.off
    assert compared.clocks.disagree
    assert "no majority agrees" in caplog.text
    answer = pb.OverviewAnswer()
    compared.clocks.report(answer)
    assert answer.clocks_disagree


def test_one_broker_alone_is_not_judged_by_a_clock_that_is_one_too() -> None:
    compared = Compared(1)
    compared.ahead_ms[1] = 60_000
    compared.go_on()
    assert not compared.off
    assert compared.clocks.disagree


def test_a_heartbeat_that_was_long_under_way_says_nothing_of_the_clock() -> None:
    compared = Compared(1, 2, 3)
    compared.under_way_ms = 2 * SKEW_MS
    compared.ahead_ms[2] = 60_000
    compared.go_on(20)
    assert not compared.off
    assert not compared.clocks.ahead_ms


def test_a_slow_network_convicts_no_clock() -> None:
    """Under way for less than the bound: the reading may be wrong by that, and not by more."""
    compared = Compared(1, 2, 3)
    compared.under_way_ms = SKEW_MS - 100
    compared.ahead_ms[2] = SKEW_MS
    compared.go_on(20)
    assert not compared.off


def test_a_broker_that_is_silent_is_not_counted() -> None:
    compared = Compared(1, 2, 3)
    compared.go_on()
    compared.silent.add(3)
    compared.go_on(10)
    assert set(compared.clocks.ahead_ms) == {1, 2}


@pytest.mark.parametrize(
    ("clocks", "agreed"),
    [
        ([], []),
        ([(0, 1)], [(0, 1)]),
        ([(0, 1), (2, 3)], []),
        ([(0, 5), (4, 9), (20, 21)], [(4, 5)]),
        ([(0, 2), (2, 4), (4, 6)], [(2, 2), (4, 4)]),
        ([(0, 9), (1, 8), (2, 7)], [(1, 8)]),
    ],
)
def test_where_most_meet(clocks: list[tuple[int, int]], agreed: list[tuple[int, int]]) -> None:
    assert majorities([Bounds(*each) for each in clocks]) == [Bounds(*each) for each in agreed]
