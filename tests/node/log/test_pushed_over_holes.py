"""What a leader pushes where it, or its follower, has compacted batches away."""

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import PartitionLog
from tank_node.log.pushed import append_stretch
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import LogDiverged
from tank_node.segment.record import REWRITTEN
from tests.support.nodes.replicas import assert_copies, push, records_of, stretch_of
from tests.support.storage.logs import Folder, append, append_sparse, read_all, read_chunk

SHORT = LogSettings(segment_bytes=30, compact=True, min_cleanable_ratio=0.0, replication_factor=3)
"""One batch or two in a segment: compaction empties segments, and leaves the next ones as they are."""
LONG = LogSettings(segment_bytes=10_000, compact=True, min_cleanable_ratio=0.0, replication_factor=3)


def new_log(settings: LogSettings) -> PartitionLog:
    return Folder(settings=settings).log()


def compact(log: PartitionLog) -> None:
    log.roll()
    log.flush()
    maintain(log, 10_000, log.last)


def leader_and_copy(epochs: dict[int, int]) -> tuple[PartitionLog, PartitionLog]:
    """A leader that compacted 1 to 4 away, and one that holds them; 5 and 6 are as they were."""
    leader, follower = new_log(SHORT), new_log(LONG)
    for number in range(1, 7):
        append(leader, b"%d" % number, keys=[b"other" if number == 5 else b"k"], epoch=epochs[number])
    push(leader, follower)
    compact(leader)
    assert [(r.first, r.flags & REWRITTEN) for r in records_of(leader)] == [(5, 0), (6, 0)]
    return leader, follower


@pytest.mark.parametrize("mark", [0, 3, 6])
def test_what_the_leader_has_compacted_away_in_its_epoch_is_kept_though_the_next_batch_has_no_flag(
    mark: int,
) -> None:
    leader, follower = leader_and_copy(dict.fromkeys(range(1, 7), 1))
    follower.flush()
    held = records_of(follower)
    push(leader, follower, start=1, keep=mark)
    assert (records_of(follower), follower.synced) == (held, 6)


def test_of_an_older_epoch_it_is_kept_up_to_the_mark() -> None:
    leader, follower = leader_and_copy({n: 1 if n < 5 else 2 for n in range(1, 7)})
    held = records_of(follower)
    push(leader, follower, start=1, keep=4)
    assert records_of(follower) == held
    push(leader, follower, start=1, keep=3)
    assert read_all(follower).keys() == {1, 2, 3, 5, 6}, "nobody knows whether 4 was the leader's"


def test_of_an_epoch_that_the_leader_does_not_have_nothing_stays() -> None:
    leader, _ = leader_and_copy(dict.fromkeys(range(1, 7), 2))
    follower = new_log(LONG)
    for _ in range(4):
        append(follower, b"nobody's", epoch=1)
    push(leader, follower, start=1)
    assert_copies(leader, follower)


def test_a_hole_in_the_middle_of_a_stretch_without_a_flag_is_none_that_compaction_made() -> None:
    leader, follower = new_log(LONG), new_log(LONG)
    append(leader, b"1")
    push(leader, follower)
    append(follower, b"2")
    append_sparse(leader, [10], b"10")
    with pytest.raises(LogDiverged, match="batch at 2"):
        push(leader, follower, start=1, keep=2)


def test_who_copied_a_compacted_log_leaves_its_holes_at_the_begin_of_segments_too() -> None:
    """Or its own followers would meet one in the middle of a stretch, behind batches with the flag."""
    leader, behind, old = new_log(SHORT), new_log(LONG), new_log(LONG)
    append(leader, b"1", b"old", keys=[None, b"k"])  # rewritten
    append(leader, b"3", keys=[b"k"])  # gone
    append_sparse(leader, [4], b"4")  # with numbers of its own
    append(leader, b"5", keys=[b"k"])
    push(leader, old)
    held = read_all(old)
    compact(leader)
    push(leader, behind)
    assert [bool(r.flags & REWRITTEN) for r in records_of(behind)] == [True, False, False]
    push(behind, old, start=1, keep=0)
    assert read_all(old) == held


def compacted_follower(epoch: int) -> PartitionLog:
    """Its batches 1 to 9 are gone, 10 is left."""
    follower = new_log(SHORT)
    for number in range(1, 11):
        append(follower, b"%d" % number, keys=[b"k"], epoch=epoch)
    compact(follower)
    assert (list(read_all(follower)), follower.segments.compacted_through) == ([10], 10)
    return follower


def test_the_records_know_how_far_compaction_was() -> None:
    follower = compacted_follower(epoch=1)
    assert follower.segments.may_be_compacted_through() == 10
    follower.segments.compacted_through = 0  # as after a crash
    assert follower.segments.may_be_compacted_through() == 9, "the last that is gone"
    plain, copy = new_log(SHORT), new_log(LONG)
    for number in range(1, 11):
        append(plain, b"%d" % number, keys=[b"%d" % number])
    assert len(plain.segments) > 2
    assert plain.segments.may_be_compacted_through() == 0, "it was never compacted, though its topic is"
    compacted = new_log(SHORT)
    for number in range(1, 11):
        append(compacted, b"%d" % number, b"more", keys=[b"%d" % (number % 3), b"%d" % number])
    compact(compacted)
    push(compacted, copy)
    assert copy.segments.compacted_through == 0
    gone = set(range(1, copy.last + 1)) - set(read_all(copy))
    assert copy.segments.may_be_compacted_through() >= max(gone) > 0, "a copy of what was compacted"


def test_what_compaction_took_here_is_not_taken_again() -> None:
    leader, follower = new_log(LONG), compacted_follower(epoch=1)
    for number in range(1, 11):
        append(leader, b"%d" % number, keys=[b"k"])
    push(leader, follower, start=1, keep=10)
    assert list(read_all(follower)) == [10]


def test_after_a_lossy_election_other_batches_take_the_place_of_what_was_compacted_here() -> None:
    leader, follower = new_log(LONG), compacted_follower(epoch=1)
    for number in range(1, 6):
        append(leader, b"%d" % number, keys=[b"k"])
    for number in range(6, 9):
        append(leader, b"new %d" % number, epoch=5)
    push(leader, follower, start=6, keep=0)
    assert (follower.last, follower.epochs) == (8, [(1, 1), (5, 6)])
    assert read_all(follower) == {6: b"new 6", 7: b"new 7", 8: b"new 8"}


def test_without_one_that_is_a_difference_below_the_mark() -> None:
    leader, follower = new_log(LONG), compacted_follower(epoch=1)
    for number in range(1, 11):
        append(leader, b"%d" % number, epoch=1 if number < 6 else 5)
    with pytest.raises(LogDiverged, match="batch at 6 is not the leader's of epoch 5"):
        append_stretch(follower, stretch_of(leader, 6), 10)
    assert list(read_all(follower)) == [10]


@pytest.mark.parametrize("taken", ["batches", "messages"])
def test_what_takes_the_place_of_compacted_numbers_is_read_under_its_own(taken: str) -> None:
    """In the middle of the leader's segment, so nothing marks it: a chunk must not go on into it."""
    leader, follower = new_log(LONG), new_log(LONG)
    append(follower, b"1", keys=[b"1"])
    if taken == "batches":
        for _ in range(4):
            append(follower, b"old", keys=[b"k"])
    else:
        append(follower, b"2", b"old", b"old", b"old", keys=[b"2", b"k", b"k", b"k"])
    append(follower, b"newest", keys=[b"k"])
    compact(follower)
    append(follower, b"7", keys=[b"k"])
    for number in range(1, 6):
        append(leader, b"%d" % number)
    append(leader, b"new 6", epoch=5)
    append(leader, b"new 7", epoch=5)
    push(leader, follower, start=6, keep=0)
    kept = {1: b"1"} if taken == "batches" else {1: b"1", 2: b"2"}
    assert read_all(follower) == {**kept, 6: b"new 6", 7: b"new 7"}
    chunk = read_chunk(follower, 1)
    assert chunk is not None
    assert chunk.messages() == kept


def test_a_leader_that_was_cut_back_to_what_was_compacted_begins_a_segment() -> None:
    log = new_log(LONG)
    append(log, b"1", b"old", keys=[b"1", b"k"])
    append(log, b"newest", keys=[b"k"])
    compact(log)
    log.truncate_to(2)
    assert append(log, b"new 3") == (3, 3)
    assert read_all(log) == {1: b"1", 3: b"new 3"}


def test_what_a_leader_compacted_before_it_came_is_not_read_on_from_what_was_there_before() -> None:
    """The mark of the hole is looked for behind rewritten batches alone."""
    leader, follower = new_log(LONG), new_log(LONG)
    for number in range(1, 4):
        append(leader, b"%d" % number, keys=[b"%d" % number])
    push(leader, follower)
    append(leader, b"old", keys=[b"k"])
    append(leader, b"5", keys=[b"k"])
    compact(leader)
    append(leader, b"6", keys=[b"k"])
    push(leader, follower)
    assert read_all(follower) == read_all(leader) == {1: b"1", 2: b"2", 3: b"3", 5: b"5", 6: b"6"}
