"""The groups of a partition that this broker leads: members, times, restarts, and the end of the
leadership."""

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.view import ChangeKind
from tank_node.coordinators.groups import random_member_id
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import CommittedOffset, MemberName
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.records.group_records import batch_of, offset_record
from tank_node.disk import OsDisk
from tank_node.limits import Limits
from tank_node.partition.refusal import Refusal
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.names import GROUPS_TOPIC
from tests.support.groups.coordinating import GROUP, Coordinating, Ignored, coordinating

PLACE = ("orders", 0)


class FullDisk(OsDisk):
    """A disk that can be full."""

    full = False

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write_at(fd, buffers, position)


class Refused:
    """A completion that keeps why appends were refused."""

    def __init__(self) -> None:
        self.reasons: list[Refusal] = []

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        self.reasons.append(refusal)


def ready(at: Coordinating) -> Coordinating:
    """The internal topic is there, and its groups are read."""
    at.found()
    at.load()
    return at


# --- members ---


def test_a_member_gets_its_assignment_when_that_is_stored(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        joined = at.join()
        at.node.pass_ms(1)
        assert not joined, "the generation is not stored"
        at.settle()
        (answer,) = joined
        assert (answer.error, answer.generation, answer.leader_id) == (GroupError.NONE, 1, answer.member_id)
        synced = at.sync(answer.member_id, 1, {answer.member_id: b"work"})
        assert not synced, "the assignment is not stored"
        at.settle()
        assert [each.assignment for each in synced] == [b"work"]
        assert at.groups.describe(GROUP).state is GroupState.STABLE


def test_a_silent_member_is_out_after_its_session(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        member = ready(at).stable_member()
        name = MemberName(GROUP, member)
        for _ in range(3):
            at.node.pass_ms(9_000)
            at.settle()
            assert at.groups.heartbeat(name, 1) is GroupError.NONE
        at.node.pass_ms(10_001)
        at.settle()
        assert at.groups.heartbeat(name, 1) is GroupError.UNKNOWN_MEMBER
        assert at.groups.describe(GROUP).state is GroupState.EMPTY


def test_a_group_that_has_members_is_no_request_that_waits(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        at.join()
        at.settle()
        assert at.node.broker.deadlines.next_deadline_ms() is not None, "the member's session has an end"
        assert at.node.metrics.waiting == 0


def test_a_members_id_fits_into_its_fields_whatever_its_client_is_called() -> None:
    assert len(random_member_id("c" * 32_767)) < 300
    assert random_member_id("billing").startswith("billing-")


def test_members_go_on_after_a_restart_with_one_full_session(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        member = ready(at).stable_member()
        at.commit(7, member_id=member, generation=1)
        controller, clock = at.node.controller, at.node.clock
        clock.pass_ms(9_000)
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        name = MemberName(GROUP, member)
        at.node.pass_ms(9_000)
        assert at.groups.heartbeat(name, 1) is GroupError.NONE
        synced = at.sync(member, 1)
        assert [each.assignment for each in synced] == [b"work"]
        assert at.offsets() == {PLACE: 7}
        described = at.groups.describe(GROUP)
        assert (described.state, described.generation) == (GroupState.STABLE, 1)
        (shown,) = described.members
        assert (shown.member_id, shown.client_host, shown.assignment) == (member, "/10.0.0.7", b"work")
        at.node.pass_ms(10_001)
        at.settle()
        assert at.groups.heartbeat(name, 1) is GroupError.UNKNOWN_MEMBER


def test_a_group_without_members_is_so_after_a_restart(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        member = ready(at).stable_member()
        errors: list[GroupError] = []
        at.groups.leave(GROUP, [(member, None), ("stranger", None)], lambda _, found: errors.extend(found))
        at.settle()
        assert errors == [GroupError.NONE, GroupError.UNKNOWN_MEMBER]
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.groups.describe(GROUP).state is GroupState.EMPTY
        again = at.stable_member()
        assert at.groups.heartbeat(MemberName(GROUP, again), 3) is GroupError.NONE, "generations go on"


def test_a_group_that_never_was_is_not_kept(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        (answer,) = at.join("stranger-1")
        assert answer.error is GroupError.UNKNOWN_MEMBER
        assert at.sync("stranger-1", 1)[0].error is GroupError.UNKNOWN_MEMBER
        assert at.groups.heartbeat(MemberName(GROUP, "stranger-1"), 1) is GroupError.UNKNOWN_MEMBER
        assert at.commit(member_id="stranger-1", generation=4) == [GroupError.ILLEGAL_GENERATION]
        assert at.groups.listed() == (GroupError.NONE, [])


@pytest.mark.parametrize("group_id", ["", "other"])
def test_a_group_needs_a_name_for_its_members_and_not_for_its_offsets(tmp_path: Path, group_id: str) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        (joined,) = at.join("x", group_id)
        assert joined.error is (GroupError.UNKNOWN_MEMBER if group_id else GroupError.INVALID_GROUP_ID)
        assert at.commit(5, group_id) == [GroupError.NONE]
        assert at.offsets(group_id) == {PLACE: 5}


# --- loading ---


def test_the_event_loop_is_not_held_up_by_a_load(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        for number in range(40):
            at.begin_commit(number, f"group-{number}", [("orders", each) for each in range(10)])
        at.settle()
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller, limits=Limits(group_slice_ms=0)) as at:
        slices = 0
        while at.groups.listed()[0] is GroupError.LOADING:
            at.node.pass_ms(1)
            slices += 1
            assert slices == 1 or at.node.broker.deadlines.next_deadline_ms() is not None
        assert slices >= 400 // 128
        assert len(at.groups.listed()[1]) == 40


def test_partitions_are_read_in_turn(tmp_path: Path) -> None:
    settings = GroupSettings(topic_partitions=8, initial_delay_ms=0)
    with coordinating(tmp_path, settings=settings) as at:
        ready(at)
        for number in range(60):
            at.begin_commit(number, f"group-{number}", [("orders", each) for each in range(10)])
        at.settle()
        controller = at.node.controller
    limits = Limits(group_slice_ms=0)
    with coordinating(tmp_path, controller=controller, settings=settings, limits=limits) as at:
        at.node.pass_ms(1)
        assert at.groups.committed("group-1", None) == (GroupError.LOADING, {})
        at.load()
        assert {at.offsets(f"group-{number}")[PLACE] for number in range(60)} == set(range(60))


def test_records_that_cannot_be_read_are_counted_and_skipped(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        stored = [(b"", b""), (b"\0\x63later", b"x"), (b"\0\1\0", b"\0\3"), (b"\0\2\0\1g", b"\0\3x")]
        good = offset_record(GROUP, *PLACE, CommittedOffset(9))
        at.node.broker.begin_tick()
        at.partition().append(memoryview(bytearray(batch_of([*stored, good], 5))), Ignored(), 0)
        at.settle()
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.offsets() == {PLACE: 9}
        assert at.node.metrics.refused["group_record"] == 4


def test_a_load_does_not_wait_for_what_the_disk_refused_as_it_began(tmp_path: Path) -> None:
    disk = FullDisk()
    with coordinating(tmp_path, disk=disk) as at:
        ready(at).commit(1)
        record = offset_record(GROUP, *PLACE, CommittedOffset(2))
        refused = Refused()
        at.node.broker.begin_tick()
        at.partition().append(memoryview(bytearray(batch_of([record], 5))), refused, 0)
        at.lead(1, 2)
        disk.full = True
        at.settle()
        assert refused.reasons == [Refusal.STORAGE]
        disk.full = False
        at.load()
        assert at.offsets() == {PLACE: 1}


# --- the end of the leadership ---


def test_everybody_who_waits_hears_that_another_broker_coordinates(tmp_path: Path) -> None:
    with coordinating(tmp_path, settings=GroupSettings(topic_partitions=1, initial_delay_ms=3_000)) as at:
        ready(at)
        joined = at.join()
        committed = at.begin_commit(group_id="other")
        at.node.tick()
        unwritten = at.begin_commit(group_id="third")
        at.lead(2, 2)
        assert [answer.error for answer in joined] == [GroupError.NOT_COORDINATOR]
        for answers in (committed, unwritten):
            assert [dict(each) for each in answers] == [{PLACE: GroupError.NOT_COORDINATOR}]
        at.settle()
        assert at.found() == [(GroupError.NONE, 2)]
        assert at.commit() == [GroupError.NOT_COORDINATOR]
        assert at.groups.heartbeat(MemberName(GROUP, "x"), 1) is GroupError.NOT_COORDINATOR
        assert at.groups.listed() == (GroupError.NONE, [])


def test_a_broker_that_leads_again_reads_the_groups_anew(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        member = ready(at).stable_member()
        at.commit(7)
        at.lead(2, 2)
        at.lead(1, 3)
        assert at.groups.committed(GROUP, None)[0] is GroupError.LOADING
        assert at.groups.heartbeat(MemberName(GROUP, member), 1) is GroupError.LOADING


def test_what_is_on_its_way_when_a_leader_epoch_begins_is_read_too(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        answers = at.begin_commit(7)
        at.node.tick()
        topic = at.node.controller.view.topic(GROUPS_TOPIC)
        assert topic is not None
        placed = [replace(each, leader_epoch=2) for each in topic.partitions]
        at.node.controller.publish(ChangeKind.ALTERED, replace(topic, partitions=placed))
        assert [dict(each) for each in answers] == [{PLACE: GroupError.NOT_COORDINATOR}]
        for _ in range(3):
            at.node.pass_ms(1)
            assert at.groups.committed(GROUP, None)[0] is GroupError.LOADING
        at.settle()
        at.load()
        assert at.offsets() == {PLACE: 7}


def test_a_broker_that_stops_answers_those_who_wait(tmp_path: Path) -> None:
    with coordinating(tmp_path, settings=GroupSettings(topic_partitions=1, initial_delay_ms=3_000)) as at:
        joined = ready(at).join()
        at.node.broker.begin_tick()
        at.node.broker.deadlines.end_waits()
        assert [answer.error for answer in joined] == [GroupError.NOT_COORDINATOR]


# --- appends that fail ---


def test_a_commit_that_the_disk_refuses_is_not_there(tmp_path: Path) -> None:
    disk = FullDisk()
    with coordinating(tmp_path, disk=disk) as at:
        ready(at)
        assert at.commit(1) == [GroupError.NONE]
        disk.full = True
        assert at.commit(2) == [GroupError.NOT_AVAILABLE]
        assert at.offsets() == {PLACE: 1}
        disk.full = False
        assert at.commit(3) == [GroupError.NONE]
        assert at.offsets() == {PLACE: 3}


def test_too_few_replicas_are_said_to_be_a_matter_of_time(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        at.partition().set_in_sync(1, 2)
        assert at.commit() == [GroupError.NOT_AVAILABLE]
        at.partition().set_in_sync(2, 2)
        assert at.commit() == [GroupError.NONE]


def test_a_late_commit_is_answered_in_time_and_shown_when_the_mark_has_passed_it(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        answers = at.begin_commit(7)
        at.node.tick()
        at.node.pass_ms(5_001)
        at.node.broker.give_up_late()
        assert [dict(each) for each in answers] == [{PLACE: GroupError.NOT_AVAILABLE}]
        assert at.offsets() == {}
        at.node.sync()
        assert at.offsets() == {PLACE: 7}
        assert len(answers) == 1


def test_a_change_above_the_bound_is_too_large(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=Limits(group_change_bytes=100)) as at:
        ready(at)
        places = [("orders", number) for number in range(10)]
        assert at.commit(places=places) == [GroupError.TOO_LARGE] * 10
        assert at.commit() == [GroupError.NONE]


def test_many_changes_of_a_tick_are_batches_of_a_bounded_size(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=Limits(group_batch_bytes=1_000)) as at:
        ready(at)
        answers = [at.begin_commit(number, f"group-{number}") for number in range(50)]
        at.settle()
        assert all(answers)
        assert 3 <= at.node.metrics.produced_batches <= 10


# --- administration ---


def test_a_deleted_group_is_gone_after_a_restart_too(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        member = ready(at).stable_member()
        at.commit(7, member_id=member, generation=1)
        at.commit(8, "simple")
        found: list[dict[str, GroupError]] = []
        at.groups.delete([GROUP, "simple", "none"], lambda results: found.append(dict(results)))
        at.settle()
        assert found == [
            {GROUP: GroupError.NOT_EMPTY, "simple": GroupError.NONE, "none": GroupError.UNKNOWN_GROUP}
        ]
        at.groups.leave(GROUP, [(member, None)], lambda *_: None)
        at.settle()
        at.groups.delete([GROUP], lambda results: found.append(dict(results)))
        at.settle()
        assert found[1:] == [{GROUP: GroupError.NONE}]
        assert at.groups.listed() == (GroupError.NONE, [])
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.groups.listed() == (GroupError.NONE, [])
        assert at.offsets() == at.offsets("simple") == {}


def test_a_commit_behind_a_deletion_makes_the_group_anew(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7)
        at.begin_commit(8, places=[("orders", 1)])
        at.groups.delete([GROUP], lambda _: None)
        at.begin_commit(9, places=[("orders", 2)])
        at.settle()
        assert at.offsets() == {("orders", 2): 9}
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.offsets() == {("orders", 2): 9}


def test_offsets_of_topics_that_nobody_reads_are_deleted(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7, places=[("orders", 0), ("orders", 1)])
        found: list[object] = []
        places = [("orders", 1), ("orders", 2)]
        at.groups.delete_offsets(GROUP, places, lambda *result: found.append(result))
        at.settle()
        assert found == [(GroupError.NONE, dict.fromkeys(places, GroupError.NONE))]
        assert at.offsets() == {PLACE: 7}
        at.groups.delete_offsets("none", places, lambda *result: found.append(result))
        assert found[1:] == [(GroupError.UNKNOWN_GROUP, {})]


def test_offsets_of_what_is_not_there_are_not_deleted(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7)
        found: list[object] = []
        places = [PLACE, ("orders", 99), ("none", 0)]
        at.groups.delete_offsets(GROUP, places, lambda *result: found.append(result))
        at.settle()
        unknown = GroupError.UNKNOWN_TOPIC
        assert found == [
            (GroupError.NONE, {PLACE: GroupError.NONE, ("orders", 99): unknown, ("none", 0): unknown})
        ]
        assert at.offsets() == {}


def test_no_offsets_are_deleted_of_a_group_of_no_consumers_with_members_or_of_one_without_a_name(
    tmp_path: Path,
) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7)
        at.join(protocol_type="connect")
        found: list[object] = []
        for group_id in (GROUP, ""):
            at.groups.delete_offsets(group_id, [PLACE], lambda *result: found.append(result))
        assert found == [(GroupError.NOT_EMPTY, {}), (GroupError.INVALID_GROUP_ID, {})]
        assert at.offsets() == {PLACE: 7}


# --- what expires ---


def swept(at: Coordinating, milliseconds: int) -> None:
    """Time passes, and the looks at all offsets that are due are done."""
    at.node.pass_ms(milliseconds)
    for _ in range(5):
        at.settle()
        at.node.pass_ms(1)
    at.settle()


def test_offsets_go_that_nobody_has_used_for_long(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7)
        swept(at, 601_000)
        assert at.offsets() == {PLACE: 7}
        swept(at, 7 * 86_400_000)
        assert at.offsets() == {}
        assert at.groups.listed() == (GroupError.NONE, [])


def test_an_offset_that_is_just_being_committed_stays(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7)
        at.node.clock.pass_ms(8 * 86_400_000)
        at.begin_commit(9)
        at.node.tick()
        at.node.pass_ms(1)
        swept(at, 1)
        assert at.offsets() == {PLACE: 9}


def test_a_group_goes_of_which_nothing_is_left(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        member = ready(at).stable_member()
        at.groups.leave(GROUP, [(member, None)], lambda *_: None)
        at.settle()
        assert len(at.groups.listed()[1]) == 1
        swept(at, 601_000)
        assert at.groups.listed() == (GroupError.NONE, [])


# --- which broker ---


def test_a_topic_that_the_controllers_refuse_is_asked_for_anew(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        at.node.controller.refuses_topics = True
        assert at.found() == [(GroupError.NOT_AVAILABLE, -1)]
        at.node.controller.refuses_topics = False
        assert at.found() == [(GroupError.NONE, 1)]


def test_a_partition_without_a_leader_is_waited_for(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        at.lead(0, 2)
        answers: list[tuple[GroupError, int]] = []
        at.groups.coordinator_of(GROUP, lambda *found: answers.append(found))
        assert not answers
        at.lead(2, 3)
        assert answers == [(GroupError.NONE, 2)]
        at.lead(0, 4)
        at.groups.coordinator_of(GROUP, lambda *found: answers.append(found))
        at.node.pass_ms(2_001)
        assert answers[1:] == [(GroupError.NOT_AVAILABLE, -1)]
