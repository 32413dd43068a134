"""What an operator is shown: who holds what, and which partitions are in which trouble."""

import pytest

from tank_controller.leader.reports import overview
from tank_controller.leader.reports.overview import Displaced
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.governed import Governed

UNDER, BELOW, LEADERLESS = pb.UNDER_REPLICATED, pb.BELOW_MIN_INSYNC, pb.LEADERLESS


def seen(cluster: Cluster, connected: tuple[int, ...] = (), *, balanced: bool = False) -> pb.OverviewAnswer:
    displaced = Displaced()
    for _ in displaced.count(cluster.state):
        pass
    return overview.overview(cluster.state, displaced.found, connected, balanced=balanced)


def counts(answer: pb.OverviewAnswer) -> tuple[int, int, int]:
    return answer.under_replicated, answer.below_min_insync, answer.leaderless


def listed(
    cluster: Cluster,
    *names: str,
    only: pb.PartitionTrouble = pb.NO_TROUBLE,
    limit: int = 0,
    after: tuple[str, int] = ("", 0),
) -> list[tuple[str, int, list[pb.PartitionTrouble]]]:
    names_by_id: dict[int, str] = {}
    rows = []
    request = pb.PartitionsRequest(
        topics=names, only=only, limit=limit, after_topic=after[0], after_partition=after[1]
    )
    for part in overview.partition_parts(cluster.state, request):
        names_by_id.update({summary.topic.topic_id: summary.topic.name for summary in part.topics})
        assert all(not summary.topic.partitions for summary in part.topics)
        rows += [
            (names_by_id[row.topic_id], row.partition.partition, list(row.troubles))
            for row in part.partitions
        ]
    return rows


def test_brokers_are_shown_with_what_they_hold() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.topic("a", 3, 2)
    cluster.topic("b", 2, 3)
    cluster.set_broker(2, draining=True)
    answer = seen(cluster, (1, 2), balanced=True)
    assert (answer.topics, answer.partitions, answer.balanced) == (2, 5, True)
    assert [load.broker.broker_id for load in answer.brokers] == [1, 2, 3]
    assert [load.connected for load in answer.brokers] == [True, True, False]
    assert [load.broker.draining for load in answer.brokers] == [False, True, False]
    assert sum(load.replicas for load in answer.brokers) == 3 * 2 + 2 * 3
    assert sum(load.leads for load in answer.brokers) == 5
    assert (answer.widest, answer.feature_level) == (3, 1)
    assert counts(answer) == (0, 0, 0)


def test_a_partition_is_in_each_trouble_that_it_is_in() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic("t", 1, 3)
    cluster.fence(3)
    assert listed(cluster) == [("t", 0, [UNDER])]
    cluster.fence(2)
    assert listed(cluster) == [("t", 0, [UNDER, BELOW])]
    cluster.fence(1)
    assert listed(cluster) == [("t", 0, [UNDER, BELOW, LEADERLESS])]
    assert counts(seen(cluster)) == (1, 1, 1)
    cluster.up(3)
    cluster.do(cluster.elect(t, unclean=True))
    first = cluster.partition(t).replicas[0]
    cluster.up(1)
    cluster.up(2)
    cluster.set_in_sync(t, 1, 2, 3)
    expected = [pb.LOSSY] if first == 3 else [pb.DISPLACED, pb.LOSSY]
    assert listed(cluster) == [("t", 0, expected)]
    answer = seen(cluster)
    assert (counts(answer), answer.lossy_elections) == ((0, 0, 0), 1)
    assert answer.displaced == len(expected) - 1


def test_a_leaderless_partition_names_who_cannot_read_it() -> None:
    cluster = Cluster(1, 2)
    led = cluster.topic("a", 1, 2)
    cluster.topic("b", 1, 1)
    (holder,) = cluster.partition(cluster.state.topic_ids["b"]).replicas
    cluster.fence(holder)
    (part,) = overview.partition_parts(cluster.state, pb.PartitionsRequest())
    overview.add_unreadable(part, lambda topic_id, number: [holder])
    assert [list(report.unreadable) for report in part.partitions] == [[], [holder]]
    assert part.partitions[0].topic_id == led


def test_a_replica_that_is_being_added_is_no_trouble_of_its_own() -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic("t", 1, 3)
    new = next(each for each in (1, 2, 3, 4) if each not in cluster.partition(t).replicas)
    kept = cluster.partition(t).replicas[:2]
    cluster.do(cluster.reassign(t, *kept, new))
    assert listed(cluster) == [("t", 0, [pb.MOVING])]
    answer = seen(cluster)
    assert (answer.moving, answer.under_replicated) == (1, 0)
    load = {load.broker.broker_id: load for load in answer.brokers}
    assert (load[new].arriving, load[new].replicas) == (1, 1)


def test_partitions_are_chosen_by_topic_and_trouble_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "PORTION", 2)
    cluster = Cluster(1, 2)
    cluster.topic("a", 3, 1)
    cluster.topic("b", 3, 2)
    assert [row[:2] for row in listed(cluster)] == [(name, n) for name in "ab" for n in range(3)]
    cluster.fence(2)
    assert [row[0] for row in listed(cluster, only=UNDER)].count("b") == 3
    led_by_2 = len(listed(cluster, "a", only=LEADERLESS))
    assert led_by_2 in (1, 2)
    assert seen(cluster).leaderless == led_by_2
    assert listed(cluster, "b", limit=2) == listed(cluster, "b")[:2]
    parts = list(overview.partition_parts(cluster.state, pb.PartitionsRequest(topics=["a", "no"])))
    assert parts[0].unknown_topics == ["no"]
    assert [len(part.partitions) for part in parts] == [2, 1]


def test_a_list_goes_on_behind_any_partition_until_it_has_them_all() -> None:
    cluster = Cluster(1, 2)
    for name, partitions in (("b", 2), ("a", 3), ("a-b", 1)):
        cluster.topic(name, partitions, 2)
    cluster.fence(2)
    for only in (pb.NO_TROUBLE, UNDER):
        everything = [row[:2] for row in listed(cluster, only=only)]
        assert everything == [("a", 0), ("a", 1), ("a", 2), ("a-b", 0), ("b", 0), ("b", 1)]
        for number, place in enumerate(everything, 1):
            assert [row[:2] for row in listed(cluster, only=only, after=place)] == everything[number:]
            first = listed(cluster, only=only, after=place, limit=1)
            assert [row[:2] for row in first] == everything[number : number + 1]
    assert [row[:2] for row in listed(cluster, after=("a", 9))] == [("a-b", 0), ("b", 0), ("b", 1)]
    assert [row[:2] for row in listed(cluster, after=("aa", 0))] == [("b", 0), ("b", 1)]
    cluster.fence(1)
    waiting = [row[:2] for row in listed(cluster, only=LEADERLESS)]
    assert len(waiting) == 6
    for number, place in enumerate(waiting, 1):
        assert [row[:2] for row in listed(cluster, only=LEADERLESS, after=place)] == waiting[number:]


def test_loads_are_even_until_something_moves_and_looked_at_again_when_asked() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.topic(partitions=6)
    governed = Governed(cluster)
    told: list[bool] = []

    def after(seconds: int) -> None:
        governed.run(seconds)
        told.append(governed.tasks.balanced)

    after(30)
    cluster.up(4)
    after(1)
    after(60)
    governed.tasks.balance()
    after(0)
    after(2)
    assert told == [True, False, True, False, True]
