"""A member's place in its group: what it holds, what its heartbeats name, what the program hears."""

from math import inf

from tank_client import errors
from tank_client.consuming.held_partitions import PartitionChange, PartitionEvent
from tank_client.consuming.membership import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    MemberHeartbeat,
    Membership,
    MemberState,
    MemberTimes,
)

A, B, C = ("t", 0), ("t", 1), ("t", 2)
TIMES = MemberTimes(session_ms=1000, max_poll_ms=5000, give_up_ms=3000)
BEAT_MS = 100
BUSY = errors.GroupBusy("no coordinator")


def new(*, is_static: bool = False) -> Membership:
    member = Membership(TIMES, 0, is_static=is_static)
    member.reads()
    return member


def where(member: Membership) -> MemberState:
    """Its state, anew each time."""
    return member.state


def begins(member: Membership, *partitions: tuple[str, int]) -> tuple[tuple[str, int], ...]:
    """The program gets these now. Returns those that it gets."""
    return member.partitions.begin(partitions, member.partitions.assignments)


def told(member: Membership, *assignment: tuple[str, int], epoch: int = 1, now_ms: float = 0) -> None:
    """A heartbeat that is due is answered."""
    assert member.heartbeat(now_ms) is not None
    member.answered(epoch, BEAT_MS, assignment, now_ms)


def reading(*partitions: tuple[str, int]) -> Membership:
    """A member whose program reads these."""
    member = new()
    told(member, *partitions)
    assert begins(member, *partitions) == partitions
    return member


def test_it_joins_and_hands_out_what_it_was_assigned() -> None:
    member = new()
    assert where(member) is MemberState.JOINING
    assert member.heartbeat(0) == MemberHeartbeat(JOINS, ())
    assert member.heartbeat(0) is None, "one at a time"
    member.answered(1, BEAT_MS, {B, A}, 0)
    assert where(member) is MemberState.STABLE
    assert member.epoch == 1
    change = member.partitions.change()
    assert change == PartitionChange(PartitionEvent.ASSIGNED, (A, B))
    assert member.partitions.readable == frozenset(), "the program has not heard of them"
    assert begins(member, *change.partitions) == (A, B)
    assert member.partitions.readable == {A, B}
    assert member.partitions.change() is None


def test_heartbeats_name_what_was_assigned_also_before_the_program_has_it() -> None:
    member = new()
    told(member, A, B)
    assert member.heartbeat(BEAT_MS - 1) is None
    assert member.heartbeat(BEAT_MS) == MemberHeartbeat(1, (A, B))


def test_what_is_revoked_is_named_until_it_is_given_up() -> None:
    member = reading(A, B)
    told(member, A, now_ms=BEAT_MS)
    assert where(member) is MemberState.REVOKING
    assert member.partitions.readable == {A}
    assert member.partitions.change() == PartitionChange(PartitionEvent.REVOKED, (B,))
    assert member.heartbeat(2 * BEAT_MS) == MemberHeartbeat(1, (A, B)), "it is not given up"
    member.answered(1, BEAT_MS, {A}, 2 * BEAT_MS)
    member.release((B,), 2 * BEAT_MS + 1)
    assert where(member) is MemberState.STABLE
    assert member.heartbeat(2 * BEAT_MS + 1) == MemberHeartbeat(1, (A,)), "others wait for it"


def test_partitions_that_are_given_up_while_a_heartbeat_is_under_way_go_with_the_next_one() -> None:
    member = reading(A, B)
    told(member, A, now_ms=BEAT_MS)
    assert member.heartbeat(2 * BEAT_MS) is not None
    member.release((B,), 2 * BEAT_MS)
    member.answered(1, BEAT_MS, {A}, 2 * BEAT_MS)
    assert member.heartbeat(2 * BEAT_MS) == MemberHeartbeat(1, (A,))


def test_what_comes_back_while_it_is_revoked_is_begun_anew() -> None:
    member = reading(A, B)
    told(member, A, now_ms=BEAT_MS)
    told(member, A, B, now_ms=2 * BEAT_MS)
    assert member.partitions.readable == {A}
    assert member.partitions.change() == PartitionChange(PartitionEvent.REVOKED, (B,))
    member.release((B,), 2 * BEAT_MS)
    assert member.partitions.change() == PartitionChange(PartitionEvent.ASSIGNED, (B,))


def test_what_is_taken_back_before_the_program_had_it_is_given_up_at_once() -> None:
    member = new()
    told(member, A, B)
    told(member, A, now_ms=BEAT_MS)
    assert begins(member, A, B) == (A,)
    assert member.heartbeat(BEAT_MS) == MemberHeartbeat(1, (A,))


def test_a_fenced_member_has_lost_everything_and_joins_again() -> None:
    member = reading(A, B)
    assert member.heartbeat(BEAT_MS) is not None
    member.fenced(BEAT_MS)
    assert where(member) is MemberState.FENCED
    assert member.partitions.readable == frozenset()
    assert member.partitions.change() == PartitionChange(PartitionEvent.LOST, (A, B))
    assert member.heartbeat(BEAT_MS) == MemberHeartbeat(JOINS, ())
    member.answered(7, BEAT_MS, {B}, BEAT_MS)
    assert member.partitions.change() == PartitionChange(PartitionEvent.LOST, (A, B)), "first of all"
    member.partitions.heard_of_loss((A, B))
    assert member.partitions.change() == PartitionChange(PartitionEvent.ASSIGNED, (B,))


def test_what_was_lost_and_is_assigned_again_is_the_programs_only_once_it_has_heard_of_the_loss() -> None:
    member = reading(A, B)
    member.fenced(BEAT_MS)
    told(member, A, epoch=7, now_ms=BEAT_MS)
    assert member.partitions.begun == frozenset()
    assert begins(member, A) == ()
    assert member.heartbeat(2 * BEAT_MS) == MemberHeartbeat(7, (A,)), "the group counts it as held"
    member.partitions.heard_of_loss((A, B))
    assert begins(member, A) == (A,)
    assert member.partitions.begun == {A}


def test_what_comes_back_before_it_is_begun_is_a_new_assignment() -> None:
    member = new()
    told(member, A, B)
    first = member.partitions.assignments
    told(member, A, now_ms=BEAT_MS)
    told(member, A, B, now_ms=2 * BEAT_MS)
    assert member.partitions.begin((A, B), first) == (A,), "B may have been read by another member"
    assert member.partitions.change() == PartitionChange(PartitionEvent.ASSIGNED, (B,))
    assert begins(member, B) == (B,)


def test_a_member_that_was_let_in_again_has_new_assignments() -> None:
    member = new()
    told(member, A)
    first = member.partitions.assignments
    member.fenced(BEAT_MS)
    told(member, A, epoch=7, now_ms=BEAT_MS)
    assert member.partitions.begin((A,), first) == ()


def test_an_answer_from_before_it_was_fenced_is_ignored() -> None:
    member = reading(A)
    assert member.heartbeat(BEAT_MS) is not None
    member.fenced(BEAT_MS)
    member.answered(2, BEAT_MS, {A}, BEAT_MS)
    assert member.epoch == JOINS
    assert member.partitions.held == frozenset()


def test_a_member_without_an_answer_for_its_session_counts_itself_out() -> None:
    member = reading(A)
    at = 0.0
    while where(member) is MemberState.STABLE:
        at = member.next_ms()
        member.passed(at)
        if member.heartbeat(at) is not None:
            member.failed(BUSY, at, 100)
    assert at == TIMES.session_ms
    assert member.partitions.change() == PartitionChange(PartitionEvent.LOST, (A,))
    assert member.heartbeat(at + 100) == MemberHeartbeat(JOINS, ())


def test_failures_to_join_are_raised_in_the_end_and_tried_again() -> None:
    member = new()
    for at in range(0, int(TIMES.give_up_ms), 500):
        assert member.heartbeat(at) is not None
        member.failed(BUSY, at, 500)
        assert member.take_error(at) is None
    assert member.heartbeat(TIMES.give_up_ms) is not None
    member.failed(BUSY, TIMES.give_up_ms, 500)
    assert member.take_error(TIMES.give_up_ms) is BUSY
    assert member.take_error(TIMES.give_up_ms) is None
    assert member.heartbeat(TIMES.give_up_ms + 500) == MemberHeartbeat(JOINS, ())


def test_a_refusal_stays() -> None:
    member = new()
    assert member.heartbeat(0) is not None
    refusal = errors.GroupRefused("full")
    member.refused(refusal)
    assert [member.take_error(0), member.take_error(0)] == [refusal, refusal]
    assert member.heartbeat(10**9) is None
    assert member.next_ms() == inf


def test_a_program_that_does_not_read_leaves_its_group_and_hears_why() -> None:
    member = reading(A)
    member.works(0)
    told(member, A, now_ms=TIMES.max_poll_ms - 1)
    member.passed(TIMES.max_poll_ms)
    assert member.heartbeat(TIMES.max_poll_ms) == MemberHeartbeat(LEAVES)
    member.answered(-1, 0, (), TIMES.max_poll_ms)
    assert member.heartbeat(10**6) is None
    assert member.partitions.change() == PartitionChange(PartitionEvent.LOST, (A,))
    member.reads()
    assert isinstance(member.take_error(10**6), errors.PollTooLate)
    assert member.heartbeat(10**6) == MemberHeartbeat(JOINS, ()), "the next read joins again"


def test_a_program_that_gets_further_in_a_batch_stays() -> None:
    member = reading(A)
    member.works(0)
    member.progressed(3000)
    told(member, A, now_ms=TIMES.max_poll_ms)
    member.passed(TIMES.max_poll_ms)
    assert where(member) is MemberState.STABLE
    member.passed(3000 + TIMES.max_poll_ms)
    assert where(member) is MemberState.FENCED


def test_the_end_takes_everything_back_and_leaves() -> None:
    member = reading(A, B)
    member.close()
    assert member.partitions.change() == PartitionChange(PartitionEvent.REVOKED, (A, B))
    told(member, A, B, now_ms=BEAT_MS)
    assert member.partitions.change() == PartitionChange(PartitionEvent.REVOKED, (A, B)), (
        "nothing comes any more"
    )
    member.release((A, B), BEAT_MS)
    assert member.partitions.change() is None
    assert member.leave() == MemberHeartbeat(LEAVES)
    assert where(member) is MemberState.LEFT
    assert member.heartbeat(10**6) is None


def test_a_static_member_leaves_for_a_while() -> None:
    member = new(is_static=True)
    told(member, A)
    assert member.leave() == MemberHeartbeat(LEAVES_FOR_A_WHILE)


def test_a_member_that_the_group_does_not_know_need_not_leave() -> None:
    assert new().leave() is None
    member = reading(A)
    member.fenced(BEAT_MS)
    assert member.leave() is None


def test_answers_without_partitions_are_counted() -> None:
    member = new()
    told(member)
    told(member, now_ms=BEAT_MS)
    assert member.answers_without_partitions == 2
    told(member, A, now_ms=2 * BEAT_MS)
    assert member.answers_without_partitions == 0
