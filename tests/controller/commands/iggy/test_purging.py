"""Topics whose messages are taken away: all, or some partitions."""

import pytest

from tank_controller import limits
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands.iggy.iggy_cluster import IggyCluster
from tests.controller.commands_for_tests import alter


def test_a_purge_gives_another_topic_id_and_leaves_everything_else() -> None:
    cluster = IggyCluster()
    stream = cluster.stream()
    before = cluster.topic_in(stream, partitions=3, values=pb.IggyValues(expiry_us=9_000_000, compression=2))
    group = cluster.group(before)
    was, part, born = cluster.of(before), cluster.part(before), cluster.state.iggy.groups[before][group].born
    outcome = cluster.do(cluster.purge(before))
    after = outcome.topic_id
    assert after == cluster.state.index != before
    assert outcome.number == part.number
    topic = cluster.of(after)
    assert (topic.name, topic.settings, topic.replication_factor) == (was.name, was.settings, 3)
    assert [each.replicas for each in topic.partitions] == [each.replicas for each in was.partitions]
    now = cluster.part(after)
    assert (now.number, now.name, now.born, now.expiry_us) == (part.number, part.name, part.born, 9_000_000)
    assert now.purged == (before,)
    assert cluster.view.topic_by_id(before) is None
    assert cluster.view.was_deleted(before)
    assert cluster.view.iggy.topic(0, 0) is cluster.view.topic_by_id(after)
    seen = cluster.view.iggy.group_by_name(after, "readers")
    assert seen is not None
    assert (seen.number, seen.born, seen.topic_id) == (group, born, after)
    assert cluster.view.iggy.group_born(born) == seen
    assert cluster.view.iggy.groups(before) == []
    assert cluster.error(cluster.purge(before)) is ErrorCode.UNKNOWN_TOPIC, "a repeat changes nothing"


def test_a_purge_ends_moves_at_their_target_and_leaves_fenced_brokers_out_of_sync() -> None:
    cluster = IggyCluster(1, 2, 3, 4)
    topic = cluster.topic_in(cluster.stream())
    old = cluster.partition(topic).replicas
    target = (*old[1:], next(each for each in (1, 2, 3, 4) if each not in old))
    cluster.do(cluster.reassign(topic, *target))
    cluster.fence(target[0])
    topic = cluster.do(cluster.purge(topic)).topic_id
    partition = cluster.partition(topic)
    assert (partition.replicas, partition.in_sync, partition.leader) == (target, target[1:], target[1])
    assert not partition.moves


def test_a_bounded_number_of_earlier_ids_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PURGED_IDS", 2)
    cluster = IggyCluster()
    ids = [cluster.topic_in(cluster.stream())]
    for _ in range(3):
        ids.append(cluster.do(cluster.purge(ids[-1])).topic_id)
    assert cluster.part(ids[-1]).purged == tuple(ids[1:3])


def test_topics_of_other_protocols_are_not_purged_unless_they_are_exposed() -> None:
    cluster = IggyCluster()
    theirs = cluster.topic("theirs")
    assert cluster.error(cluster.purge(theirs)) is ErrorCode.UNKNOWN_TOPIC
    assert cluster.error(cluster.shrink(theirs, 0)) is ErrorCode.UNKNOWN_TOPIC
    cluster.do(cluster.expose(theirs, cluster.stream(), "t"))
    assert cluster.of(cluster.do(cluster.purge(theirs)).topic_id).name == "theirs"


def test_the_highest_partitions_go() -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream(), partitions=4, values=pb.IggyValues(max_bytes=1000))
    kept = cluster.of(topic).partitions[:1]
    held = sum(len(cluster.state.held_by(each)) for each in (1, 2, 3))
    cluster.do(cluster.shrink(topic, 1))
    assert cluster.of(topic).partitions == kept
    assert sum(len(cluster.state.held_by(each)) for each in (1, 2, 3)) == held - 9
    assert cluster.state.partition_count == 1
    assert cluster.settings(topic)["log.retention.bytes"] == "1000", "one has the share of four"
    assert len(cluster.seen(topic).partitions) == 1
    assert cluster.seen(topic).epoch_floor == cluster.of(topic).epoch_floor > 0
    assert not cluster.do(cluster.shrink(topic, 1)).delta.topics, "a repeat changes nothing"
    assert cluster.error(cluster.shrink(topic, 2)) is ErrorCode.INVALID_PARTITIONS
    cluster.do(cluster.shrink(topic, 0))
    assert cluster.seen(topic).partitions == []


def test_a_shrink_that_is_repeated_or_was_meant_for_other_partitions_removes_none() -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream(), partitions=5)
    first, others = cluster.shrink(topic, 3), cluster.shrink(topic, 2)
    cluster.do(first)
    assert not cluster.do(first).delta.topics, "done already"
    assert cluster.error(others) is ErrorCode.INVALID_PARTITIONS, "another client removed some"
    cluster.do(alter(topic, 4))
    assert cluster.error(first) is ErrorCode.INVALID_PARTITIONS
    cluster.do(alter(topic, 5))
    assert cluster.error(first) is ErrorCode.INVALID_PARTITIONS, "there are as many again, but others"
    for count in (4, 3):  # each removes partitions of low epochs
        late = cluster.shrink(topic, 2)
        cluster.do(cluster.shrink(topic, count))
        cluster.do(alter(topic, count + 1))
        assert cluster.error(late) is ErrorCode.INVALID_PARTITIONS
    assert len(cluster.of(topic).partitions) == 4


def test_a_number_that_is_used_again_begins_with_higher_epochs() -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream(), partitions=2)
    leader = cluster.partition(topic, 1).leader
    cluster.fence(leader)
    cluster.unfence(leader)
    old = cluster.partition(topic, 1)
    epochs = old.leader_epoch, old.partition_epoch
    late = cluster.in_sync_change(topic, *old.in_sync, number=1)
    cluster.do(cluster.shrink(topic, 1))
    cluster.do(alter(topic, 2))
    new = cluster.partition(topic, 1)
    assert new.leader_epoch == new.partition_epoch == new.first_epoch > max(epochs)
    assert cluster.seen(topic).partitions[1].first_epoch == new.first_epoch
    assert cluster.partition(topic, 0).first_epoch == 0
    assert cluster.error(late) in (ErrorCode.STALE_EPOCH, ErrorCode.OTHER_LEADER)


def test_an_image_in_the_making_has_the_partitions_as_they_were() -> None:
    cluster = IggyCluster()
    topic = cluster.topic_in(cluster.stream(), partitions=5)
    cluster.group(topic)
    expected = cluster.state.snapshot()
    pieces = cluster.state.snapshot_pieces(1)
    parts = [next(pieces)]
    cluster.do(cluster.shrink(topic, 2))
    cluster.do(alter(topic, 5))
    leader = cluster.partition(topic, 4).leader
    cluster.fence(leader)
    cluster.do(cluster.purge(topic))
    parts += pieces
    assert b"".join(parts) == expected
    assert ClusterState.load(expected).topics[topic].iggy is not None
