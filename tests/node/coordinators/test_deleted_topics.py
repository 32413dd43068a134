"""Offsets of topics that were deleted go, whatever time they have, and those of a new topic stay."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tank_node.cluster.view import ChangeKind
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    CommittedOffset,
    MemberName,
    TopicPartition,
)
from tests.support.groups.coordinating import GROUP, Coordinating, coordinating

PLACE = ("orders", 0)


def ready(at: Coordinating) -> Coordinating:
    """The internal topic is there, and its groups are read."""
    at.found()
    at.load()
    return at


def swept(at: Coordinating, milliseconds: int) -> None:
    """Time passes, and the looks at all offsets that are due are done."""
    at.node.pass_ms(milliseconds)
    for _ in range(5):
        at.settle()
        at.node.pass_ms(1)
    at.settle()


def test_the_offsets_of_a_deleted_topic_go(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        at.node.controller.add("short")
        at.commit(7, places=[("short", 0), PLACE])
        at.node.controller.delete_topic("short", lambda _: None)
        at.node.controller.add("short")
        at.node.pass_ms(1)
        at.commit(1, "other", places=[("short", 0)])
        swept(at, 1)
        assert at.offsets() == {PLACE: 7}
        assert at.offsets("other") == {("short", 0): 1}, "it is of the new topic"


def test_the_offsets_of_a_topic_go_that_was_deleted_while_nobody_coordinated(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        at.node.controller.add("short", 2)
        at.commit(7, places=[("short", 0), ("short", 1), PLACE])
        controller = at.node.controller
    controller.part()
    controller.delete_topic("short", lambda _: None)
    controller.add("short", 2)
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.offsets() == {PLACE: 7}, "they are hidden at once"
        assert at.commit(1, places=[("short", 1)]) == [GroupError.NONE]
        swept(at, 1)
        assert at.groups.room.memory.offsets == 2
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.offsets() == {PLACE: 7, ("short", 1): 1}


def test_a_commit_with_an_old_time_outlives_the_deletion_of_an_older_topic(tmp_path: Path) -> None:
    """Clients of 2014 say the time themselves."""
    with coordinating(tmp_path) as at:
        ready(at)
        at.node.controller.add("short")
        at.commit(7, "other", places=[("short", 0)])
        at.node.controller.delete_topic("short", lambda _: None)
        at.node.controller.add("short")
        found: list[Mapping[TopicPartition, GroupError]] = []
        old = CommittedOffset(9, commit_ms=at.node.clock.now_ms() - 60_000)
        at.node.broker.begin_tick()
        at.groups.commit(CommitRequest(MemberName(GROUP, ""), -1, {("short", 0): old}), found.append)
        swept(at, 1)
        assert [dict(each) for each in found] == [{("short", 0): GroupError.NONE}]
        assert at.offsets() == {("short", 0): 9}
        assert at.offsets("other") == {}


def test_an_offset_of_a_removed_partition_is_not_the_next_ones(tmp_path: Path) -> None:
    """One change takes a partition away and adds another one of its number."""
    with coordinating(tmp_path) as at:
        ready(at)
        topic = at.node.controller.add("short", 2)
        at.commit(7, places=[("short", 0), ("short", 1), PLACE])
        anew = replace(topic.partitions[1], leader_epoch=4, first_epoch=4)
        shown = replace(topic, partitions=[topic.partitions[0], anew], epoch_floor=3)
        at.node.controller.publish(ChangeKind.ALTERED, shown)
        assert at.offsets() == {("short", 0): 7, PLACE: 7}, "it is hidden at once"
        swept(at, 1)
        assert at.groups.room.memory.offsets == 2


def test_an_offset_of_the_present_partition_stays(tmp_path: Path) -> None:
    """Also one that has no epoch, of which nobody knows."""
    with coordinating(tmp_path) as at:
        ready(at)
        topic = at.node.controller.add("short", 3)
        at.commit(7, places=[("short", 0), ("short", 1)])
        found: list[Mapping[TopicPartition, GroupError]] = []
        unsaid = CommittedOffset(9, commit_ms=at.node.clock.now_ms())
        at.node.broker.begin_tick()
        at.groups.commit(CommitRequest(MemberName(GROUP, ""), -1, {("short", 2): unsaid}), found.append)
        at.settle()
        anew = [replace(each, leader_epoch=5, first_epoch=3) for each in topic.partitions]
        at.node.controller.publish(ChangeKind.ALTERED, replace(topic, partitions=anew, epoch_floor=2))
        swept(at, 1)
        assert at.offsets() == {("short", 0): 7, ("short", 1): 7, ("short", 2): 9}
