"""What a follower makes of a stretch before it touches its log: whose orders count, and where logs agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.log.epoch_history import History, epoch_at, last_common
from tank_node.replication.append_check import (
    TAKE,
    Condition,
    Order,
    Standing,
    goes_on,
    judge,
    kept_through,
    mark_of,
)
from tank_protos.error_codes import PushError

HISTORY = ((1, 1), (3, 11), (4, 21))
"""Numbers 1-10 are of epoch 1, 11-20 of epoch 3, and so on."""


def standing(
    *,
    leader_epoch: int = 5,
    leads: bool = False,
    condition: Condition = Condition.GOOD,
    in_sync: bool = False,
    log_end: int = 30,
    history: History = HISTORY,
    outdated: bool = False,
    compacted_through: int = 0,
    log_start: int = 1,
) -> Standing:
    return Standing(
        leader_epoch, leads, condition, in_sync, log_end, history, outdated, compacted_through, log_start
    )


def order(start: int, previous_epoch: int, *, leader_epoch: int = 5, log_start: int = 1) -> Order:
    return Order(start, leader_epoch, previous_epoch, log_start)


@pytest.mark.parametrize(
    ("leader_epoch", "leads", "error"),
    [
        (4, False, PushError.STALE_LEADER),
        (5, False, PushError.NONE),
        (6, False, PushError.NONE),
        (5, True, PushError.STALE_LEADER),
        (6, True, PushError.NONE),
    ],
)
def test_orders_of_the_highest_known_epoch_count_and_a_higher_one_is_believed(
    leader_epoch: int, leads: bool, error: PushError
) -> None:
    verdict = judge(order(31, 4, leader_epoch=leader_epoch), standing(leads=leads))
    assert verdict.error is error


@pytest.mark.parametrize(("start", "epoch"), [(31, 4), (26, 4), (21, 3), (11, 1), (1, 0)])
def test_it_agrees_where_the_number_before_is_of_the_same_epoch(start: int, epoch: int) -> None:
    verdict = judge(order(start, epoch), standing())
    assert (verdict.error, verdict.anew) == (PushError.NONE, False)


@pytest.mark.parametrize(
    ("start", "epoch", "agreed"),
    [
        (32, 4, (30, 4)),
        (31, 5, (30, 4)),
        (31, 3, (20, 3)),
        (26, 2, (10, 1)),
        (15, 2, (10, 1)),
        (15, 1, (10, 1)),
        (11, 3, (10, 1)),
    ],
)
def test_where_it_disagrees_it_says_where_it_may_agree(
    start: int, epoch: int, agreed: tuple[int, int]
) -> None:
    verdict = judge(order(start, epoch), standing())
    assert verdict.error is PushError.DISAGREES
    assert (verdict.agreed_at, verdict.agreed_epoch) == agreed


def test_a_hole_belongs_to_the_epoch_that_left_it() -> None:
    history = ((1, 1), (2, 6))  # epoch 2 began behind 5, with a batch at 9
    assert judge(order(9, 1), standing(history=history, log_end=9)).error is PushError.DISAGREES
    assert judge(order(9, 2), standing(history=history, log_end=9)).error is PushError.NONE


def test_an_end_before_the_leaders_start_is_dropped_and_a_later_one_agrees_there() -> None:
    assert judge(order(41, 4, log_start=41), standing()).anew
    verdict = judge(order(31, 0, log_start=31), standing())
    assert (verdict.error, verdict.anew) == (PushError.NONE, False), "which epoch it was is not known there"
    assert judge(order(31, 5, log_start=31), standing()).anew, "what is below was never committed"
    assert judge(order(41, 4, log_start=40), standing()).error is PushError.DISAGREES
    verdict = judge(order(31, 4, log_start=40), standing())
    assert verdict.error is PushError.DISAGREES, "it agrees, but what comes next is gone: from 40 on, then"
    verdict = judge(order(31, 4, log_start=31), standing())
    assert (verdict.error, verdict.anew) == (PushError.NONE, False), "what is below is gone at the leader"


@pytest.mark.parametrize(("start", "log_start"), [(0, 1), (1, 0), (2**63, 1), (2**64 - 1, 2**64 - 1)])
def test_numbers_that_no_log_has_are_refused(start: int, log_start: int) -> None:
    assert judge(order(start, 0, log_start=log_start), standing()).error is PushError.BAD_BATCH


def test_a_damaged_log_is_dropped_only_out_of_sync_and_for_a_stretch_from_the_leaders_start() -> None:
    damaged = standing(condition=Condition.DAMAGED)
    assert judge(order(1, 0), damaged).anew
    verdict = judge(order(31, 4), damaged)
    assert (verdict.error, verdict.agreed_at, verdict.agreed_epoch) == (PushError.DISAGREES, 0, 0)
    in_sync = standing(condition=Condition.DAMAGED, in_sync=True)
    assert judge(order(1, 0), in_sync).error is PushError.DAMAGED
    assert judge(order(31, 4), in_sync).error is PushError.DAMAGED


def test_a_failed_log_takes_nothing() -> None:
    assert judge(order(31, 4), standing(condition=Condition.FAILED)).error is PushError.STORAGE


def test_the_mark_follows_the_leaders_as_far_as_it_matches_and_never_goes_back() -> None:
    assert mark_of(5, 9, 7) == 7
    assert mark_of(5, 6, 7) == 6
    assert mark_of(5, 9, 3) == 5
    assert mark_of(5, 0, 7) == 5


def test_only_a_lossy_election_lets_go_of_what_was_committed() -> None:
    assert kept_through(25, 0, HISTORY) == 25
    assert kept_through(25, 3, HISTORY) == 25
    assert kept_through(25, 4, HISTORY) == 25, "it has batches of that epoch: they are committed anew"
    assert kept_through(25, 5, HISTORY) == 0


def test_after_a_lossy_election_a_log_ends_where_its_leaders_does() -> None:
    assert judge(order(26, 4), standing(outdated=True)).ends
    assert judge(order(26, 4), standing()) == TAKE, "else a longer log is as good, until it differs"
    assert judge(order(26, 4), standing(outdated=True, in_sync=True)) == TAKE, "it is counted on"
    assert judge(order(32, 4), standing(outdated=True)).error is PushError.DISAGREES


def test_what_was_compacted_for_the_sake_of_lost_batches_is_copied_anew() -> None:
    compacted = standing(outdated=True, compacted_through=20)
    verdict = judge(order(20, 3), compacted)
    assert (verdict.error, verdict.agreed_at) == (PushError.DISAGREES, 0)
    assert judge(order(1, 0), compacted).anew
    assert judge(order(21, 3), compacted).ends, "what took their place is there too"
    assert judge(order(20, 3), standing(outdated=True, compacted_through=20, in_sync=True)) == TAKE


def test_what_retention_took_because_of_lost_batches_is_copied_anew() -> None:
    assert judge(order(26, 4), standing(outdated=True, log_start=11)).error is PushError.DISAGREES
    assert judge(order(1, 0), standing(outdated=True, log_start=11)).anew
    assert judge(order(26, 4, log_start=11), standing(outdated=True, log_start=11)).ends
    assert judge(order(26, 4), standing(log_start=11)) == TAKE, "its leaders' retention did that"


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[tuple[int, int], ...], int]:
    """(history, log end) of a log that never had more than some epochs."""
    epochs = sorted(draw(st.sets(st.integers(1, 6), max_size=4)))
    first, found = 1, []
    for epoch in epochs:
        found.append((epoch, first))
        first += draw(st.integers(1, 5))
    return tuple(found), first - 1


@given(histories(), histories(), st.data())
def test_leader_and_follower_come_to_the_last_point_that_both_have(
    leader: tuple[History, int], follower: tuple[History, int], data: st.DataObject
) -> None:
    """They share a beginning, as Raft's logs do, and part somewhere."""
    (ours, end), (theirs, their_end) = leader, follower
    shared = data.draw(st.integers(0, 8))
    ours_kept = [(e, f) for e, f in ours if f > shared]
    theirs_kept = [(e + 10 if e % 2 else e + 11, f) for e, f in theirs if f > shared]
    common = ((1, 1),) if shared else ()
    ours = (*common, *((2 * e + 20, f) for e, f in ours_kept))
    theirs = (*common, *((2 * e + 21, f) for e, f in theirs_kept))
    end, their_end = max(end, shared), max(their_end, shared)
    sent = end
    for _ in range(20):
        verdict = judge(
            Order(sent + 1, 99, epoch_at(ours, sent), 1),
            standing(log_end=their_end, history=theirs),
        )
        if not verdict.error:
            break
        point, _ = last_common(ours, end, verdict.agreed_at, verdict.agreed_epoch)
        assert point < sent
        sent = point
    else:
        raise AssertionError("they never agreed")
    assert sent == 0 or (sent <= their_end and epoch_at(ours, sent) == epoch_at(theirs, sent))
    assert sent >= min(shared, end, their_end)


@pytest.mark.parametrize(
    ("start", "epoch", "log_start", "goes"),
    [
        (31, 4, 1, True),
        (31, 4, 31, True),
        (31, 4, 32, False),
        (31, 4, 0, False),
        (31, 3, 1, False),
        (30, 4, 1, False),
        (32, 4, 1, False),
    ],
)
def test_most_stretches_go_on_where_the_log_ends(start: int, epoch: int, log_start: int, goes: bool) -> None:
    assert goes_on(order(start, epoch, log_start=log_start), 30, HISTORY) is goes


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=3),
    st.integers(0, 8),
    st.integers(-1, 9),
    st.integers(0, 6),
    st.integers(-1, 9),
)
def test_one_that_goes_on_is_one_that_is_taken(
    steps: list[tuple[int, int]], log_end: int, start: int, epoch: int, log_start: int
) -> None:
    history, newest, first = [], 0, 0
    for above, behind in steps:
        newest, first = newest + 1 + above, first + 1 + behind
        history.append((newest, first))
    wanted = order(start, epoch, log_start=log_start)
    if goes_on(wanted, log_end, history):
        assert judge(wanted, standing(log_end=log_end, history=tuple(history))) == TAKE
