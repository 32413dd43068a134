"""What counts as a pause, as a gap and as lost, when a cluster is hurt, and beside others."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from benchmarks.failover import CASES, Case, Totals, kill_leader
from benchmarks.harness.failover_scene import PATIENCE_S, TOPIC, Kept, Scene, Writes, kept, value_of
from benchmarks.harness.local_cluster import ClusterFailed, LocalCluster, Process
from benchmarks.harness.peers import Peers
from benchmarks.harness.servers import Kernel
from benchmarks.harness.table import Reached
from tank_client import Client, PartitionDescription, TopicDescription


class Leaders:
    """A client and its admin, who tells one leader after the other, the last one for ever."""

    def __init__(self, *leaders: int | None) -> None:
        self.admin = self
        self._leaders = list(leaders)

    async def describe_topics(self, names: Sequence[str]) -> list[TopicDescription]:
        leader = self._leaders.pop(0) if len(self._leaders) > 1 else self._leaders[0]
        return [TopicDescription(names[0], (PartitionDescription(0, leader),))]


def scene_of(*leaders: int | None) -> Scene:
    """A cluster of three brokers, and who leads when it is asked."""
    cluster = ThreeBrokers(Path(), 3, 3, 0, Kernel.PURE)
    return Scene(cluster, cast(Client, Leaders(*leaders)), Writes())


class ThreeBrokers(LocalCluster):
    def processes(self, role: str = "") -> list[Process]:
        return [Process("broker", number, 0, "127.0.0.1:1", "") for number in (1, 2, 3)]


def test_while_nobody_leads_a_case_fails_and_says_so() -> None:
    assert asyncio.run(scene_of(2).leader()).number == 2
    for nobody in (None, 9):
        with pytest.raises(ClusterFailed, match=f"no broker leads {TOPIC}/0"):
            asyncio.run(scene_of(nobody).leader())


def test_another_leader_is_awaited_while_nobody_leads() -> None:
    scene = scene_of(1, None, 1, None, 2)
    asyncio.run(scene.await_other_leader(1, time.monotonic()))
    assert asyncio.run(scene.leader()).number == 2


@pytest.mark.parametrize(("leading", "told"), [(1, "broker 1 still leads"), (None, "no broker leads")])
def test_no_other_leader_is_awaited_for_ever(leading: int | None, told: str) -> None:
    with pytest.raises(ClusterFailed, match=told):
        asyncio.run(scene_of(leading).await_other_leader(1, time.monotonic() - PATIENCE_S - 1))


def acknowledged(*times: float) -> Writes:
    return Writes([(each - 0.002, each) for each in times])


def test_the_gap_that_begins_with_the_fault_counts() -> None:
    assert acknowledged(1.0, 1.005, 3.0, 3.005).longest_gap_s(1.006, 3.1) == pytest.approx(1.994)


def test_a_gap_that_has_not_ended_counts() -> None:
    assert acknowledged(1.0, 1.005, 1.01).longest_gap_s(1.001, 4.01) == pytest.approx(3.0)


def test_without_any_acknowledgement_the_gap_is_all_the_time() -> None:
    assert acknowledged(1.0).longest_gap_s(2.0, 5.0) == pytest.approx(3.0)


def test_a_pause_ends_with_a_value_that_was_sent_after_the_fault() -> None:
    since = time.monotonic()
    writes = Writes()

    async def pause() -> float:
        asked = asyncio.create_task(writes.pause_s(since))
        await asyncio.sleep(0)
        writes.acknowledged += [(since - 1, since + 0.1), (since + 0.1, since + 0.3)]
        return await asked

    assert asyncio.run(pause()) == pytest.approx(0.3)


def test_what_became_of_the_values() -> None:
    assert kept([0, 1, 2], [0, 1, 2, 3]) == Kept(0, 0, 0)
    assert kept([0, 1, 2], [0, 2]) == Kept(lost=1, repeated=0, out_of_order=0)
    assert kept([0, 1], [0, 1, 1]) == Kept(lost=0, repeated=1, out_of_order=0)
    assert kept([0, 1, 2], [0, 2, 1]) == Kept(lost=0, repeated=0, out_of_order=1)
    assert Kept(1, 2, 3) + Kept(1, 1, 1) == Kept(2, 3, 4)


def test_a_value_says_which_one_it_is() -> None:
    assert (len(value_of(17)), int(value_of(17))) == (100, 17)


@pytest.mark.parametrize(
    ("pauses", "reached"),
    [
        ([0.1, 0.2, 0.9], Reached.YES),
        ([0.1, 0.2, 1.1], Reached.NO),
        ([0.1, 0.6, 0.9], Reached.NO),
        ([], Reached.NO),
    ],
)
def test_a_kill_has_a_bar_for_the_median_and_one_for_the_worst(pauses: list[float], reached: Reached) -> None:
    case = Case("kill", kill_leader, 3, 0.5, 1.0)
    row = case.row(pauses, Kernel.PURE)
    assert (row.bar, row.reached) == ("median < 500 ms, worst < 1,000", reached)


def test_a_leader_is_killed_twenty_times_and_frozen_three_times() -> None:
    assert [case.runs for case in CASES[:2]] == [20, 3]


def test_what_must_be_none_has_a_row_and_what_is_not_known_is_not_reached() -> None:
    totals = Totals(acknowledged=1_000, kept=Kept(1, 0, 0), thawed_asked=20)
    found = {row.name: (row.figure, row.reached) for row in totals.rows(Kernel.PURE)}
    assert found["values acknowledged and lost"] == ("1 of 1,000", Reached.NO)
    assert found["values stored twice"] == ("0 of 1,000", Reached.YES)
    assert found["writes that thawed leaders acknowledged"] == ("0 of 20", Reached.YES)
    totals.unread = 1
    found = {row.name: (row.figure, row.reached) for row in totals.rows(Kernel.PURE)}
    assert found["values acknowledged and lost"] == ("failed", Reached.NO)


def test_the_best_of_the_others_comes_first_and_ours_is_held_against_it() -> None:
    assert (
        Peers({"NATS": 11.0, "Kafka": 3.2}, "µs", 1).beside(0.5)
        == "Kafka 3.2, NATS 11.0 µs; ours is 6.4 × better"
    )
    assert Peers({"Kafka": 4.0}, "ms", 1).beside(6.0) == "Kafka 4.0 ms; Kafka is 1.5 × better"
    rates = Peers({"NATS": 0.1, "Kafka": 0.4}, "M/s", 1, most_is_best=True)
    assert rates.beside(1.2) == "Kafka 0.4, NATS 0.1 M/s; ours is 3.0 × better"
    assert Peers({"Kafka": 0}, "", 0).beside(0) == "Kafka 0"
