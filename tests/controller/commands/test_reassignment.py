"""Replicas are moved: added, caught up, the others taken away; or the move is cancelled."""

import pytest

from tank_controller import limits
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster


def test_a_replica_is_added_catches_up_and_then_another_goes() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.up(4)
    cluster.do(cluster.reassign(t, 4, 2, 3))
    partition = cluster.partition(t)
    assert partition.replicas == (4, 2, 3, 1)
    assert (partition.adding, partition.removing) == ((4,), (1,))
    assert (partition.leader, partition.leader_epoch) == (1, 1), "nothing changes for clients yet"
    assert cluster.seen(t).partitions[0].adding == (4,)
    assert cluster.error(cluster.finish(t)) is ErrorCode.NOT_ENOUGH_REPLICAS, "it has not caught up"
    cluster.set_in_sync(t, 1, 2, 3, 4)
    cluster.do(cluster.finish(t))
    assert cluster.partition(t).replicas == cluster.partition(t).in_sync == (4, 2, 3)
    assert (partition.leader, partition.leader_epoch) == (4, 2), "the old leader is no replica any more"
    assert len(cluster.state.held_by(1)) == 0
    cluster.do(cluster.finish(t))
    assert partition.leader_epoch == 2


def test_a_move_is_not_through_while_too_few_are_in_sync_without_those_that_go() -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic()
    cluster.do(cluster.reassign(t, 1, 2, 4))
    cluster.set_in_sync(t, 1, 3, 4)
    cluster.do(cluster.finish(t))
    assert cluster.partition(t).in_sync == (1, 4)
    cluster.do(cluster.reassign(t, 1, 3, 2))
    cluster.set_in_sync(t, 1, 3)
    cluster.set_in_sync(t, 1, 3, 4)
    cluster.do(cluster.finish(t))
    assert cluster.partition(t).replicas == (1, 3, 2)


def test_members_that_go_do_not_count_for_a_move_to_be_through() -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic()
    cluster.do(cluster.reassign(t, 1, 2, 4))
    cluster.set_in_sync(t, 1, 3)
    cluster.fence(1)
    cluster.up(1)
    cluster.set_in_sync(t, 3, 4)
    assert cluster.partition(t).in_sync == (4, 3)
    assert cluster.error(cluster.finish(t)) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_cancelled_move_leaves_what_was() -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic()
    cluster.do(cluster.reassign(t, 2, 3, 4))
    cluster.set_in_sync(t, 1, 2, 3, 4)
    cluster.do(cluster.cancel(t))
    partition = cluster.partition(t)
    assert set(partition.replicas) == set(partition.in_sync) == {1, 2, 3}
    assert (partition.leader, partition.leader_epoch) == (1, 1)
    assert not partition.moves
    cluster.do(cluster.cancel(t))


def test_a_move_is_not_cancelled_when_the_added_replicas_alone_have_everything() -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic(factor=1)
    holder = cluster.partition(t).leader
    other = holder % 4 + 1
    cluster.do(cluster.reassign(t, other))
    cluster.set_in_sync(t, holder, other)
    cluster.fence(holder)
    assert cluster.partition(t).leader == other
    assert cluster.error(cluster.cancel(t)) is ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.do(cluster.finish(t))
    assert cluster.partition(t).replicas == (other,)


def test_another_order_of_the_same_replicas_is_a_move_that_is_through_at_once() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.do(cluster.reassign(t, 3, 1, 2))
    assert (cluster.partition(t).replicas, cluster.partition(t).leader) == ((3, 1, 2), 1)
    assert cluster.partition(t).in_sync == (3, 1, 2)
    cluster.do(cluster.elect(t))
    assert cluster.partition(t).leader == 3
    epoch = cluster.partition(t).partition_epoch
    cluster.do(cluster.reassign(t, 3, 1, 2))
    assert cluster.partition(t).partition_epoch == epoch


def test_one_move_at_a_time() -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic()
    cluster.do(cluster.reassign(t, 1, 2, 4))
    cluster.do(cluster.reassign(t, 1, 2, 4))
    assert cluster.error(cluster.reassign(t, 1, 3, 4)) is ErrorCode.IN_USE
    assert cluster.error(cluster.reassign(t, 1, 2, 3)) is ErrorCode.IN_USE, "cancel it"


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        ((1, 2, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        ((1, 2, 9), ErrorCode.UNKNOWN_BROKER),
        ((1, 2, 4), ErrorCode.INELIGIBLE_REPLICA),
        ((1, 2, 5), ErrorCode.OVERLOADED),
    ],
)
def test_a_move_to_where_it_can_not_be_is_refused(
    replicas: tuple[int, ...], error: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.up(4)
    cluster.up(5)
    cluster.set_broker(4, draining=True)
    monkeypatch.setattr(limits, "MAX_REPLICAS_PER_BROKER", 0)
    assert cluster.error(cluster.reassign(t, *replicas)) is error


def test_moves_are_judged_one_by_one() -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic()
    command = cluster.reassign(t, 1, 2, 4)
    command.reassign.partitions.add(topic_id=99)
    command.reassign.partitions.add(topic_id=t, partition=3)
    assert cluster.apply(command).results == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.UNKNOWN_PARTITION,
    ]


@pytest.mark.parametrize("kind", ["reassign", "finish_reassign", "cancel_reassign", "elect_leader"])
def test_so_many_moves_at_once_and_no_more(kind: str) -> None:
    cluster = Cluster(1)
    command = pb.Command()
    for _ in range(limits.MAX_PARTITIONS_PER_COMMAND + 1):
        getattr(command, kind).partitions.add()
    assert cluster.error(command) is ErrorCode.TOO_LARGE


def test_a_partition_that_is_added_while_others_move_has_its_own_replicas() -> None:
    cluster = Cluster(1, 2, 3, 4)
    t = cluster.topic()
    cluster.do(cluster.reassign(t, 1, 2, 4))
    cluster.do(pb.Command(alter_topic=pb.AlterTopic(topic_id=t, partitions=2)))
    assert len(cluster.partition(t, 1).replicas) == 3
    cluster.do(pb.Command(delete_topic=pb.DeleteTopic(topic_id=t)))
    assert not cluster.state.derived.moving
    assert not cluster.state.derived.held
