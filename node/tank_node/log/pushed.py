"""A follower's end of a log: batches that its leader pushed, stored byte for byte as they came.

Whether what comes before a stretch agrees is judged before (`replication.follow`); here the stretch is
checked, compared with what the log has, and written.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tank_node.log.epoch_history import epoch_at
from tank_node.log.errors import DiskFull, LogDiverged, StorageError, TooManyOpenFiles
from tank_node.log.record import CHECKED_HEAD, RECORD_BYTES, REWRITTEN, Record, names_producers, read_record
from tank_node.log.settings import MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS
from tank_protos.storage.record_run import placed
from tank_protos.wire.buffer import Buffer

if TYPE_CHECKING:
    from tank_node.log.replica import ReplicaLog


class Pushed(NamedTuple):
    """A stretch of the leader's log."""

    start: int
    """The end of the leader's log before it + 1, whatever its first batch's number."""
    previous_epoch: int
    """Of the number before it, in the leader's log; 0: there is none."""
    leader_epoch: int
    """The leader's: no record has a higher one."""
    records: Buffer
    """Packed, with the leader's positions."""
    batches: Buffer
    """Valid until the call ends: they are written in it."""


def last_of(pushed: Pushed) -> int:
    """The last number of a stretch; start - 1 when it is empty."""
    size = len(pushed.records)
    if not size:
        return pushed.start - 1
    first, span, _, _, _ = CHECKED_HEAD.unpack_from(pushed.records, size - RECORD_BYTES)
    return int(first + span)


def append_stretch(log: "ReplicaLog", pushed: Pushed, keep_through: int) -> None:
    """See `PartitionLog.append_stretch`."""
    records, batches = memoryview(pushed.records), memoryview(pushed.batches)
    last, epoch, differs_at = pushed.start - 1, pushed.previous_epoch, 0
    if len(records) and pushed.start <= log.last:
        had, differs_at = _compare(log, pushed, keep_through)
        for record in _each(records[: had * RECORD_BYTES]):
            batches = batches[record.length :]
            last, epoch = record.last, record.leader_epoch
        records = records[had * RECORD_BYTES :]
    if not len(records):
        return
    position = log.segments[-1].size_bytes if log.segments and not differs_at else 0
    if position + len(batches) > MAX_SEGMENT_BYTES:
        position = 0
    # Before anything is cut: bytes that were spoiled on their way are no reason for it.
    stored = placed(records, batches, position, last, epoch, pushed.leader_epoch, log.settings.format)
    if differs_at:
        _cut(log, differs_at, pushed.leader_epoch, keep_through)
    _leave_hole(log, last, keep_through)
    apart = _stands_apart(log, read_record(records, 0))
    while stored:
        stored, batches = _append(log, stored, batches, last, apart=apart)
        apart = False


def _each(packed: Buffer) -> Iterator[Record]:
    for at in range(0, len(packed), RECORD_BYTES):
        yield read_record(packed, at)


# --- what the log has already ----------------------------------------------------------------------


def _compare(log: "ReplicaLog", pushed: Pushed, keep_through: int) -> tuple[int, int]:
    """How many of the pushed records the log has, and the number at which it differs from the next one; 0: it
    has none there."""
    own, begins = _own_records(log, pushed.start), log.first_available
    mine = next(own, None)
    compacted_through = cache(log.may_be_compacted_through)  # it looks into every segment: seldom asked
    had = 0
    for record in _each(pushed.records):
        while mine is not None and _was_compacted_away(mine, record, keep_through, is_first=not had):
            mine = next(own, None)
        if mine is None:
            if record.last > min(keep_through, log.last):
                return had, 0
            # Committed, and gone here: this log goes on behind it.
        elif _is_same(mine, record):
            mine = next(own, None)
        elif record.last < min(mine.first, begins) and record.last <= keep_through:
            pass  # Committed: retention took it here, and not yet at the leader.
        elif record.last >= mine.first or record.last > compacted_through():
            return had, mine.first
        elif epoch_at(log.epochs, record.last) not in (0, record.leader_epoch):
            return had, record.first  # what compaction took here was not this
        had += 1
    return had, 0


def _own_records(log: "ReplicaLog", start: int) -> Iterator[Record]:
    for segment in log.segments:
        if segment.count and segment.last >= start:
            yield from segment.index.records(segment.index.containing(start))


def _is_same(mine: Record, pushed: Record) -> bool:
    """Whether two records are of one batch. What one side has compacted has other bytes; but in one epoch a
    number was given once."""
    if (mine.first, mine.span, mine.leader_epoch) != (pushed.first, pushed.span, pushed.leader_epoch):
        return False
    return mine.crc == pushed.crc or bool((mine.flags | pushed.flags) & REWRITTEN)


def _was_compacted_away(mine: Record, pushed: Record, keep_through: int, *, is_first: bool) -> bool:
    """Whether the leader had this batch before the one that it pushed, and compacted it away: it did when
    they are of one epoch, and when the batch is committed.

    is_first: of its stretch. A segment that lost all its batches leaves no flag: the next one's first batch
    begins a stretch.
    """
    gone = mine.last < pushed.first and (is_first or bool(pushed.flags & REWRITTEN))
    return gone and (mine.leader_epoch == pushed.leader_epoch or mine.last <= keep_through)


def _cut(log: "ReplicaLog", differs_at: int, leader_epoch: int, keep_through: int) -> None:
    """Truncates where the log differs; at or below the high-water mark that must never be."""
    if differs_at <= keep_through:
        raise LogDiverged(
            f"the batch at {differs_at} is not the leader's of epoch {leader_epoch}, though both must be the "
            f"same up to the high-water mark {keep_through}"
        )
    log.truncate_to(differs_at - 1)


def _leave_hole(log: "ReplicaLog", last: int, keep_through: int) -> None:
    """Goes back to where the log's own batches end, or `last`, the number before the next batch.

    A log may end in numbers that another leader left out, and its newest segment is named by such an end.
    Lower numbers must not go there: they would count as synced, and the next recovery would cut them.
    """
    end = max(last, log.held, keep_through)
    if log.last > end:
        log.truncate_to(end)


# --- what is new -----------------------------------------------------------------------------------


def _stands_apart(log: "ReplicaLog", first: Record) -> bool:
    """Whether this batch must begin a segment here, as it may at the leader (position 0).

    Readers count the messages of dense batches on from those before. Where something is missing between two,
    compacted away or lost, the second is marked (BREAK), unless it is its segment's first. They look for that
    mark behind batches that are REWRITTEN alone: in a segment none of these follows one that isn't. And
    followers of this log take a hole before the first batch of a stretch for compacted away, flagged or not.
    """
    if not log.segments or not log.segments[-1].count:
        return False
    newest = log.segments[-1].index.record(log.segments[-1].count - 1)
    if first.position:
        return bool(first.flags & ~newest.flags & REWRITTEN)
    return first.first != newest.last + 1 or bool((newest.flags | first.flags) & REWRITTEN)


def _append(
    log: "ReplicaLog", stored: bytes, batches: memoryview, last: int, *, apart: bool
) -> tuple[bytes, memoryview]:
    """Writes as much as one segment takes, a new one when the first batch stands `apart`, and takes over what
    the records say; returns the rest.

    last: up to there the logs agree. A cut may end below, where compaction had taken what was there.
    """
    first, size = read_record(stored, 0), len(stored)
    newest = first if size == RECORD_BYTES else read_record(stored, size - RECORD_BYTES)
    count, fresh = _fitting(log, stored, first, newest, apart=apart)
    records, rest = stored, b""
    if count * RECORD_BYTES < size:
        records, rest = stored[: count * RECORD_BYTES], stored[count * RECORD_BYTES :]
        newest = read_record(records, len(records) - RECORD_BYTES)
    size = newest.end - first.position
    position = 0 if fresh else log.segments[-1].size_bytes
    if position != first.position:
        moved = position - first.position
        records = b"".join(r._replace(position=r.position + moved).pack() for r in _each(records))
    named = names_producers(records)
    try:
        # Before anything changes: it may fail.
        producers = log.load_producers() if named or fresh else log.producers_if_loaded
        if fresh:
            snapshot = producers.snapshot() if producers is not None and log.segments else b""
            log.begin_segment(log.last + 1, snapshot)
        log.segments[-1].append((batches[:size],), size, records)
    except StorageError as error:
        if not isinstance(error, DiskFull | TooManyOpenFiles):
            log.fail(str(error))
        raise
    log.size_bytes += size
    if not log.epochs or log.epochs[-1][0] != newest.leader_epoch:  # they never fall
        before = max(log.last, last)
        for record in _each(records):
            if not log.epochs or log.epochs[-1][0] != record.leader_epoch:
                log.epochs.append((record.leader_epoch, before + 1))
            before = record.last
    if producers is not None:
        if named:
            producers.replay(_each(records))
        producers.pass_over(newest.append_ms)
    if not log.written:
        log.log_start = max(log.log_start, last + 1)  # the leader's, though its first batches may be gone
    log.took_over(newest)
    assert log.synced <= log.written, "it would be acknowledged without an fsync"
    return rest, batches[size:]


def _fitting(
    log: "ReplicaLog", stored: bytes, first: Record, newest: Record, *, apart: bool
) -> tuple[int, bool]:
    """How many of these records, from the first to the newest, go into one segment, at least one, and whether
    that is a new one."""
    settings = log.settings
    active = log.segments[-1] if log.segments else None
    position, held, ends_ms = 0, 0, first.append_ms + log.roll_ms()
    fresh = active is None
    if active is not None and active.count:
        position, held, ends_ms = active.size_bytes, active.count, active.first_append_ms + log.roll_ms()
        full = position + first.length > settings.segment_bytes or held >= MAX_SEGMENT_RECORDS
        if apart or full or first.append_ms >= ends_ms:
            position, held, ends_ms, fresh = 0, 0, first.append_ms + log.roll_ms(), True
    count = len(stored) // RECORD_BYTES
    room = settings.segment_bytes - position
    if (
        newest.end - first.position <= room
        and held + count <= MAX_SEGMENT_RECORDS
        and newest.append_ms < ends_ms
    ):
        return count, fresh
    for at, record in enumerate(_each(stored)):
        full = record.end - first.position > room or held + at >= MAX_SEGMENT_RECORDS
        if at and (full or record.append_ms >= ends_ms):
            return at, fresh
    return count, fresh
