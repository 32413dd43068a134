"""A follower's log: it holds what its leader pushed, byte for byte, and nothing else."""

import random

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome
from tank_node.log.pushed import Pushed, append_stretch, last_of
from tank_node.log.refill import begin_anew
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import DiskFailed, DiskFull, LogDiverged
from tank_node.segment.record import RECORD_BYTES, REWRITTEN, read_record, sealed
from tank_protos.storage.record_run import BadRecord
from tests.support.nodes.replicas import assert_copies, bytes_of, push, records_of, stretch_of
from tests.support.storage.fault_disk import PowerLoss
from tests.support.storage.logs import Folder, append, append_sparse, read_all

SMALL = LogSettings(segment_bytes=100, replication_factor=3)
LARGE = LogSettings(segment_bytes=170, replication_factor=3)


def pair(leader: LogSettings = SMALL, follower: LogSettings = LARGE) -> tuple[Folder, Folder]:
    return Folder(settings=leader), Folder(settings=follower)


def filled(log: PartitionLog, count: int, *, epoch: int = 1, size: int = 10) -> PartitionLog:
    for number in range(count):
        append(log, b"%05d" % (log.last + 1) * size, epoch=epoch, now_ms=1000 + number)
    return log


@pytest.mark.parametrize("max_bytes", [1, 150, 1 << 20])
def test_a_follower_holds_the_same_bytes_and_records_in_segments_of_its_own(max_bytes: int) -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 20), theirs.log()
    append_sparse(leader, [30, 35], b"a", b"b")
    push(leader, follower, max_bytes=max_bytes)
    assert_copies(leader, follower)
    assert len(follower.segments) != len(leader.segments)
    assert (follower.last, follower.written, follower.synced) == (35, 35, 0)
    follower.flush()
    assert follower.synced == 35
    assert read_all(follower) == read_all(leader)
    assert_copies(leader, theirs.reopen())


def test_a_follower_that_was_killed_finds_what_it_took() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 20), theirs.log()
    filled(leader, 3, epoch=4)
    push(leader, follower)
    assert_copies(leader, theirs.kill())


def test_what_it_has_is_skipped() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 10), theirs.log()
    push(leader, follower)
    filled(leader, 5)
    changes = theirs.fault.changes
    append_stretch(follower, stretch_of(leader, 3, 1), 0)
    assert theirs.fault.changes == changes
    push(leader, follower, start=4)
    assert_copies(leader, follower)


def test_only_where_its_own_next_batch_differs_it_is_cut() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 5), theirs.log()
    push(leader, follower)
    filled(follower, 4, epoch=2, size=3)  # it led, and nobody took these
    filled(leader, 2, epoch=3)
    push(leader, follower, start=4)
    assert_copies(leader, follower)
    assert follower.epochs == [(1, 1), (3, 6)]


def test_the_same_number_and_epoch_with_other_bytes_is_not_what_it_has() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 5), theirs.log()
    push(leader, follower)
    append(leader, b"this")
    append(follower, b"that")
    push(leader, follower, start=5, keep=5)
    assert_copies(leader, follower)


def test_the_same_number_in_another_epoch_is_another_batch_though_compaction_has_changed_its_bytes() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 1, epoch=2), filled(theirs.log(), 1, epoch=1)
    pushed = stretch_of(leader, 1)
    record = read_record(pushed.records, 0)
    compacted = sealed(pushed.batches, record._replace(flags=record.flags | REWRITTEN))
    append_stretch(follower, pushed._replace(records=compacted.pack()), 0)
    assert [record.leader_epoch for record in records_of(follower)] == [2]


def test_an_empty_stretch_and_one_that_ends_before_cut_nothing() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 5), theirs.log()
    push(leader, follower)
    filled(follower, 4, epoch=2)
    before = records_of(follower)
    empty = stretch_of(leader, 6, epoch=3)
    assert last_of(empty) == 5
    append_stretch(follower, empty, 0)
    append_stretch(follower, stretch_of(leader, 3, 1, epoch=3), 0)
    assert records_of(follower) == before


def test_at_or_below_the_high_water_mark_nothing_is_cut() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 5), theirs.log()
    push(leader, follower)
    filled(follower, 4, epoch=2, size=3)
    filled(leader, 4, epoch=3)
    before = records_of(follower)
    with pytest.raises(LogDiverged, match="batch at 6 is not the leader's of epoch 3"):
        push(leader, follower, start=6, keep=6)
    assert records_of(follower) == before
    push(leader, follower, start=6, keep=5)
    assert_copies(leader, follower)


def test_what_retention_took_here_and_not_at_the_leader_is_passed_over() -> None:
    """Another leader had told this follower where the log begins, and the one of now did not hear of it."""
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 9), theirs.log()
    push(leader, follower)
    follower.retain_from(5)
    begins = follower.first_available
    assert begins > 1
    before = records_of(follower)
    for start in range(1, 9):
        append_stretch(follower, stretch_of(leader, start), 9)
        append_stretch(follower, stretch_of(leader, start, 1), 9)
    assert (records_of(follower), follower.first_available) == (before, begins)
    filled(leader, 3, epoch=2)
    push(leader, follower, start=1, keep=9)
    assert records_of(follower) == records_of(leader)[-len(before) - 3 :]


def test_the_memory_of_producers_goes_back_with_a_cut_and_on_with_what_comes() -> None:
    ours, theirs = pair()
    leader, follower = ours.log(), theirs.log()
    append(leader, b"a", producer=(5, 0, 0))
    push(leader, follower)
    append(follower, b"lost", producer=(5, 0, 1), epoch=2)
    append(leader, b"b", b"c", producer=(5, 0, 1), epoch=3)
    push(leader, follower, start=2)
    verdict = follower.tail.check_producer(5, 0, 1, 2)
    assert (verdict.outcome, verdict.first, verdict.last) == (Outcome.REPEAT, 2, 3)
    assert follower.tail.check_producer(5, 0, 3, 1).outcome is Outcome.APPEND
    assert theirs.kill().tail.check_producer(5, 0, 3, 1).outcome is Outcome.APPEND


def with_bytes(stretch: Pushed, where: str, content: bytes) -> Pushed:
    return stretch._replace(records=content) if where == "records" else stretch._replace(batches=content)


@pytest.mark.parametrize("where", ["records", "batches"])
def test_one_flipped_bit_anywhere_is_refused_with_nothing_changed(where: str) -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 2, size=1), theirs.log()
    good = stretch_of(leader, 1)
    content = bytes(getattr(good, where))
    for at in range(len(content)):
        if where == "records" and 12 <= at % RECORD_BYTES < 16:
            continue  # the position is the leader's, and not looked at
        broken = bytearray(content)
        broken[at] ^= 1 << at % 8
        with pytest.raises(BadRecord):
            append_stretch(follower, with_bytes(good, where, bytes(broken)), 0)
    assert (follower.last, follower.segments.list) == (0, [])
    append_stretch(follower, good, 0)
    assert_copies(leader, follower)


@pytest.mark.parametrize(
    "change",
    [
        lambda good: good._replace(batches=good.batches + b"x"),
        lambda good: good._replace(batches=good.batches[:-1]),
        lambda good: good._replace(start=2),
        lambda good: good._replace(leader_epoch=1),
        lambda good: good._replace(previous_epoch=3),
        lambda good: good._replace(records=good.records[RECORD_BYTES:] + good.records[:RECORD_BYTES]),
    ],
    ids=["more bytes", "fewer bytes", "numbers", "epoch above the leader's", "epoch falls", "order"],
)
def test_what_does_not_follow_on_is_refused(change: object) -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 2, epoch=2, size=1), theirs.log()
    good = stretch_of(leader, 1)
    assert len(good.records) == 2 * RECORD_BYTES
    assert callable(change)
    bad: Pushed = change(good)
    with pytest.raises(BadRecord):
        append_stretch(follower, bad, 0)
    assert follower.last == 0


def test_a_spoiled_stretch_cuts_nothing() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 5), theirs.log()
    push(leader, follower)
    filled(follower, 4, epoch=2)
    filled(leader, 2, epoch=3)
    before = records_of(follower)
    good = stretch_of(leader, 6)
    with pytest.raises(BadRecord):
        append_stretch(follower, good._replace(batches=bytes(len(good.batches))), 0)
    assert records_of(follower) == before


def test_a_full_disk_leaves_a_beginning_of_the_stretch_and_goes_on() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 20), theirs.log()
    push(leader, follower, max_bytes=1)
    filled(leader, 20)
    theirs.fault.capacity_bytes = theirs.fault.used_bytes + 600
    with pytest.raises(DiskFull):
        push(leader, follower)
    assert follower.state is LogState.ACTIVE
    assert 20 < follower.last < 40
    assert bytes_of(leader).startswith(bytes_of(follower))
    theirs.fault.capacity_bytes = None
    push(leader, follower)
    assert_copies(leader, follower)


def test_a_write_that_fails_makes_the_replica_fail() -> None:
    ours, theirs = pair()
    leader, follower = filled(ours.log(), 3), theirs.log()
    push(leader, follower)
    filled(leader, 1)
    theirs.fault.fail_write = lambda path: path.endswith(".index")
    with pytest.raises(DiskFailed):
        push(leader, follower)
    assert follower.state is LogState.FAILED
    assert follower.last == 3


def test_both_compact_by_themselves_and_still_take_what_is_pushed_again() -> None:
    settings = LogSettings(segment_bytes=60, compact=True, min_cleanable_ratio=0.0, replication_factor=3)
    ours, theirs = pair(settings, settings)
    leader, follower = ours.log(), theirs.log()
    for number in range(12):
        append(leader, b"v%d" % number, keys=[b"k%d" % (number % 2)])
    push(leader, follower, max_bytes=1)
    leader.flush()
    maintain(leader, 10_000, leader.last)
    assert len(records_of(leader)) < len(records_of(follower))
    push(leader, follower, start=1, keep=follower.last)  # the leader's compacted batches again
    follower.flush()
    maintain(follower, 10_000, follower.last, retain=False)
    push(leader, follower, start=1, keep=follower.last)
    assert read_all(follower) == read_all(leader)
    assert theirs.kill().last == leader.last


@pytest.mark.parametrize("segment_bytes", [60, 150, 1000])
def test_readers_count_the_same_numbers_over_holes_whatever_the_segments(segment_bytes: int) -> None:
    settings = LogSettings(segment_bytes=30, compact=True, min_cleanable_ratio=0.0, replication_factor=3)
    ours, theirs = pair(settings, LogSettings(segment_bytes=segment_bytes, replication_factor=3))
    leader, follower = ours.log(), theirs.log()
    for number in range(20):
        append(leader, b"a%d" % number, b"b%d" % number, keys=[b"m%d" % (number % 7), b"k%d" % (number % 3)])
    leader.flush()
    maintain(leader, 10_000, leader.last)
    append(leader, b"c")
    assert len(read_all(leader)) < 20, "most of it was compacted away"
    push(leader, follower)
    assert read_all(follower) == read_all(leader)
    assert_copies(leader, follower)


def test_the_power_may_go_at_every_change() -> None:
    ours, _ = pair()
    leader = filled(ours.log(), 8)
    filled(leader, 4, epoch=3)
    for stop_at in range(1000):
        theirs = Folder(settings=LARGE)
        chance = random.Random(stop_at)
        follower = theirs.log()
        push(leader, follower, max_bytes=150)
        follower.truncate_to(5)
        filled(follower, 3, epoch=2, size=3)
        follower.flush()
        theirs.data.write_checkpoint()
        theirs.fault.stop_at = theirs.fault.changes + stop_at
        synced = 0
        try:
            push(leader, follower, start=4, max_bytes=150, keep=5)
            follower.flush()
            synced = follower.synced
        except PowerLoss:
            theirs.fault.lose_power(chance)
        else:
            theirs.fault.kill_process()
        after = theirs.reopen_after_power_loss()
        if after.state is LogState.DAMAGED:  # of what was not synced, a later part has survived
            assert not synced
            begin_anew(after, 1, 0)
            push(leader, after)
            assert_copies(leader, after)
            continue
        assert after.last >= max(5, synced)
        assert records_of(after)[:5] == records_of(leader)[:5]
        push(leader, after, start=6, keep=5)
        assert_copies(leader, after)
        if synced:
            return
    raise AssertionError("it never got through")
