"""Storing the batches of a push in a follower's log, byte for byte.

`replication.append_check` has found that both logs agree before the stretch. Here the stretch is checked,
compared with the log, and written.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tank_node.log.epoch_history import epoch_at
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS
from tank_node.segment.errors import DiskFull, LogDiverged, StorageError, TooManyOpenFiles
from tank_node.segment.record import (
    CHECKED_HEAD,
    RECORD_BYTES,
    REWRITTEN,
    Record,
    names_producers,
    read_record,
)
from tank_protos.storage.record_run import placed
from tank_protos.wire.buffer import Buffer


class Pushed(NamedTuple):
    """A stretch of the leader's log."""

    start: int
    """The first number that the stretch covers; its first batch may begin at a higher one."""
    previous_epoch: int
    """The epoch of number start - 1 in the leader's log; 0: none is known."""
    leader_epoch: int
    """The leader's epoch: no record has a higher one."""
    records: Buffer
    """The packed records, with the leader's positions."""
    batches: Buffer
    """The batches, valid until the call ends."""


def last_of(pushed: Pushed) -> int:
    """The last number of a stretch; start - 1 when it is empty."""
    size = len(pushed.records)
    if not size:
        return pushed.start - 1
    first, span, _, _, _ = CHECKED_HEAD.unpack_from(pushed.records, size - RECORD_BYTES)
    return int(first + span)


def append_stretch(log: PartitionLog, pushed: Pushed, keep_through: int) -> None:
    """Stores the batches of a stretch that this log lacks; both logs must agree before the stretch.
    Afterwards the log equals the leader's up to the stretch's last number.

    Where an own batch differs from a pushed one, the log is truncated first, but not at or below
    `keep_through` (the high-water mark). Raises LogDiverged in that case and BadRecord, both with nothing
    changed, and StorageError, with the stretch stored in part or not at all.
    """
    if log.health.state is not LogState.ACTIVE:
        log.health.refuse()
    assert log.tail.last == log.tail.written, "a follower stages nothing"
    records, batches = memoryview(pushed.records), memoryview(pushed.batches)
    last, epoch, differs_at = pushed.start - 1, pushed.previous_epoch, 0
    if len(records) and pushed.start <= log.tail.last:
        had, differs_at = _compare(log, pushed, keep_through)
        for record in _each(records[: had * RECORD_BYTES]):
            batches = batches[record.length :]
            last, epoch = record.last, record.leader_epoch
        records = records[had * RECORD_BYTES :]
    if not len(records):
        return
    position = log.segments[-1].size_bytes if log.segments.list and not differs_at else 0
    if position + len(batches) > MAX_SEGMENT_BYTES:
        position = 0
    # Checks the records before anything is cut: bytes that changed on their way must not lead to a
    # truncation.
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


# --- comparing with the log ------------------------------------------------------------------------


def _compare(log: PartitionLog, pushed: Pushed, keep_through: int) -> tuple[int, int]:
    """Returns how many of the pushed records the log has, and the number at which its next batch differs from
    the next pushed one; 0 when it doesn't."""
    own, begins = _own_records(log, pushed.start), log.first_available
    mine = next(own, None)
    compacted_through = cache(
        log.segments.may_be_compacted_through
    )  # reads every segment, so it is called only when needed
    had = 0
    for record in _each(pushed.records):
        while mine is not None and _was_compacted_away(mine, record, keep_through, is_first=not had):
            mine = next(own, None)
        if mine is None:
            if record.last > min(keep_through, log.tail.last):
                return had, 0
            # The batch is committed, and was removed here: the log goes on behind it.
        elif _is_same(mine, record):
            mine = next(own, None)
        elif record.last < min(mine.first, begins) and record.last <= keep_through:
            pass  # The batch is committed: retention removed it here, and not yet at the leader.
        elif record.last >= mine.first or record.last > compacted_through():
            return had, mine.first
        elif epoch_at(log.segments.epochs, record.last) not in (0, record.leader_epoch):
            return had, record.first  # compaction removed another batch here
        had += 1
    return had, 0


def _own_records(log: PartitionLog, start: int) -> Iterator[Record]:
    for segment in log.segments:
        if segment.count and segment.last >= start:
            yield from segment.index.records(segment.index.containing(start))


def _is_same(mine: Record, pushed: Record) -> bool:
    """Whether two records are of one batch. Compaction on one side may have changed its bytes; but an epoch
    gives out each number once."""
    if (mine.first, mine.span, mine.leader_epoch) != (pushed.first, pushed.span, pushed.leader_epoch):
        return False
    return mine.crc == pushed.crc or bool((mine.flags | pushed.flags) & REWRITTEN)


def _was_compacted_away(mine: Record, pushed: Record, keep_through: int, *, is_first: bool) -> bool:
    """Whether the leader once had this log's batch `mine`, before the pushed one, and compacted it away: so
    it is when both are of one epoch, or `mine` is committed.

    is_first: whether the pushed batch is the first of its stretch. It needs no flag REWRITTEN then: the
    segment before it may have lost all its batches.
    """
    gone = mine.last < pushed.first and (is_first or bool(pushed.flags & REWRITTEN))
    return gone and (mine.leader_epoch == pushed.leader_epoch or mine.last <= keep_through)


def _cut(log: PartitionLog, differs_at: int, leader_epoch: int, keep_through: int) -> None:
    """Truncates the log where it differs. Raises LogDiverged at or below the high-water mark."""
    if differs_at <= keep_through:
        raise LogDiverged(
            f"the batch at {differs_at} is not the leader's of epoch {leader_epoch}, though both must be the "
            f"same up to the high-water mark {keep_through}"
        )
    log.truncate_to(differs_at - 1)


def _leave_hole(log: PartitionLog, last: int, keep_through: int) -> None:
    """Truncates numbers without a batch from the log's end, down to `last`, the number before the next batch.

    A log may end in numbers that an earlier leader left out, and its newest segment may be named by such an
    end. Lower numbers must not be stored in that segment: they would count as synced, and the next recovery
    would cut them.
    """
    agreed = max(last, keep_through)
    if log.tail.last > agreed:  # seldom: what the log holds is looked up for it
        end = max(agreed, log.held)
        if log.tail.last > end:
            log.truncate_to(end)


# --- writing ---------------------------------------------------------------------------------------


def _stands_apart(log: PartitionLog, first: Record) -> bool:
    """Whether this batch must begin a new segment, as it may at the leader (position 0).

    Readers count the numbers of dense batches on from the batch before. After a hole a batch must have BREAK,
    or be the first of its segment, as here. Readers look for BREAK only behind REWRITTEN batches, so in a
    segment none of these may follow a batch without that flag.
    """
    if not log.segments.list or not log.segments[-1].count:
        return False
    newest = log.segments[-1].index.record(log.segments[-1].count - 1)
    if first.position:
        return bool(first.flags & ~newest.flags & REWRITTEN)
    return first.first != newest.last + 1 or bool((newest.flags | first.flags) & REWRITTEN)


def _append(
    log: PartitionLog, stored: bytes, batches: memoryview, last: int, *, apart: bool
) -> tuple[bytes, memoryview]:
    """Writes as many batches as one segment takes, and updates the log's state by their records. Returns the
    rest.

    apart: whether the first batch must begin a new segment. last: the number up to which the logs agree; the
    log may end lower, where compaction removed its last batches.
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
        # This may fail, so it comes before any change.
        producers = log.producers.load(log.tail.written) if named or fresh else log.producers.loaded
        if fresh:
            snapshot = producers.snapshot() if producers is not None and log.segments.list else b""
            log.segments.begin(log.tail.last + 1, snapshot)
        log.segments[-1].append((batches[:size],), size, records)
    except StorageError as error:
        if not isinstance(error, DiskFull | TooManyOpenFiles):
            log.fail(str(error))
        raise
    log.segments.size_bytes += size
    if not log.segments.epochs or log.segments.epochs[-1][0] != newest.leader_epoch:  # epochs never fall
        before = max(log.tail.last, last)
        for record in _each(records):
            if not log.segments.epochs or log.segments.epochs[-1][0] != record.leader_epoch:
                log.segments.epochs.append((record.leader_epoch, before + 1))
            before = record.last
    if producers is not None:
        if named:
            producers.replay(_each(records))
        producers.pass_over(newest.append_ms)
    if not log.tail.written:
        log.segments.log_start = max(
            log.log_start, last + 1
        )  # the leader's log start, though its first batches may be compacted away
    log.tail.took_over(newest)
    assert log.synced <= log.tail.written, "it would be acknowledged without an fsync"
    return rest, batches[size:]


def _fitting(
    log: PartitionLog, stored: bytes, first: Record, newest: Record, *, apart: bool
) -> tuple[int, bool]:
    """Returns how many of these records go into one segment, at least one, and whether that is a new one."""
    settings = log.settings
    active = log.segments[-1] if log.segments.list else None
    position, held, ends_ms = 0, 0, first.append_ms + log.tail.roll_ms()
    fresh = active is None
    if active is not None and active.count:
        position, held, ends_ms = active.size_bytes, active.count, active.first_append_ms + log.tail.roll_ms()
        full = position + first.length > settings.segment_bytes or held >= MAX_SEGMENT_RECORDS
        if apart or full or first.append_ms >= ends_ms:
            position, held, ends_ms, fresh = 0, 0, first.append_ms + log.tail.roll_ms(), True
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
