"""Mending: making a damaged log usable with the batches that are left, when no other replica can be copied.

Good batches keep their numbers; the numbers of bad ones stay empty (a hole); records that are lost are made
anew by parsing the batches. Numbers are not given out again, except those behind the last batch after a lossy
election. The old files stay beside the new ones as `.damaged`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from tank_node.log.epoch_history import History, epoch_at
from tank_node.log.log import PartitionLog
from tank_node.log.recovery.folder_files import FolderScan, rewrite, scan, take_over
from tank_node.segment import swap
from tank_node.segment.batch_format import HEAD_BYTES, BatchFormat, FoundBatch, InvalidBatch
from tank_node.segment.batch_formats import format_of
from tank_node.segment.errors import DiskFailed
from tank_node.segment.read_back import READ_BYTES, batches
from tank_node.segment.record import RECORD_BYTES, Record, matches
from tank_node.segment.rewrite import SegmentWriter
from tank_node.segment.segment import INDEX, LOG, Segment
from tank_protos.wire.framing import MAX_FRAME_BYTES


@dataclass(slots=True)
class Mended:
    """The result of mending a log."""

    lost: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of lost numbers, (first, last); they may include numbers that were empty before."""
    rebuilt: int = 0
    """Number of messages whose records were made anew by parsing. They are without their producers, unless
    the batches name them, and have the epochs that the log knows of their numbers."""
    broken_at: int = 0
    """The first number that is lost or rebuilt; 0: there is none."""

    def sentence(self) -> str:
        parts = []
        if self.lost:
            shown = ", ".join(f"{first}-{last}" for first, last in self.lost[:5])
            more = f" and {len(self.lost) - 5} more" if len(self.lost) > 5 else ""
            parts.append(f"LOST the messages {shown}{more}: no other replica holds them")
        if self.rebuilt:
            parts.append(f"rebuilt the index of {self.rebuilt} messages by parsing them")
        return "; ".join(parts) or "nothing was lost"


def mend(log: PartitionLog, now_ms: int, leader_epoch: int | None = None) -> Mended:
    """Makes a DAMAGED log ACTIVE with its good batches. Reads the whole log, and blocks.

    leader_epoch: None with replication factor 1; the new epoch, when a lossy election chose this replica.
    Then everything behind the first loss gets this epoch, and numbers behind the last good batch are given
    out again. Raises StorageError: the log is still damaged, and may have lost numbers at its end.
    """
    log.cancel_compaction()
    newest = log.epochs[-1][0] if log.epochs else 0
    parts = leader_epoch is not None and leader_epoch > newest
    log.before_refill(log)  # a crash while mending must find the log damaged
    epochs = [(leader_epoch, 0)] if leader_epoch is not None and parts else list(log.epochs)
    mended = _mend_segments(log, log.health.recovery_point, epochs, now_ms, parts=parts)
    if leader_epoch is not None:
        _end_with_a_batch(log)
    return mended


def _mend_segments(log: PartitionLog, promised: int, epochs: History, now_ms: int, *, parts: bool) -> Mended:
    """Mends all segments of a log and makes it ACTIVE.

    promised: the recovery point, up to which numbers are given out. epochs: the epochs of rebuilt records.
    parts: whether everything behind the first loss gets the last of them, so that other replicas, which may
    have the lost batches, find by the epochs where the logs part. Raises StorageError, after which the log is
    still damaged.
    """
    mended = Mended()
    synced = log.synced
    log.forget_files()
    try:
        files = scan(log)
        last = 0
        bases = files.bases
        for at, base in enumerate(bases):
            below = bases[at + 1] if at + 1 < len(bases) else 2**63
            _note_gap(log, base, last, promised, mended)
            last = _mend_segment(log, files, base, below, last, promised, epochs, now_ms, mended, parts=parts)
        if last < promised or (bases and not log.segments.list):
            mended.lost.append((last + 1, max(promised, last)))
            mended.broken_at = mended.broken_at or last + 1
        last = max(last, promised)
        # Whole segments stay as they are; batches behind `synced` are written again, because they may not be
        # on the disk.
        rewrite([(s, s.index.containing(synced + 1)) for s in log.segments if s.count and s.last > synced])
        if not log.segments.list or log.segments[-1].last != last:
            log.segments.begin(last + 1, b"")
    except OSError as error:
        raise DiskFailed(f"cannot mend {log.folder}: {error.strerror}") from error
    take_over(log, last, None)
    log.health.restore()
    if parts and mended.broken_at and (not log.epochs or log.epochs[-1][0] != epochs[-1][0]):
        log.epochs.append((epochs[-1][0], mended.broken_at))
    return mended


def _end_with_a_batch(log: PartitionLog) -> None:
    """Removes the numbers without a batch from the end of a mended log. Pushes can't carry them, so no
    follower would ever match the leader's end. Raises StorageError."""
    log.truncate_to(max(log.held, log.first_available - 1))  # not below numbers that retention removed


def _note_gap(log: PartitionLog, base: int, last: int, promised: int, mended: Mended) -> None:
    """Notes numbers as lost that are missing between the last segment and the base of the next one, unless
    compaction may have removed them."""
    if not log.segments.list or base - 1 <= last:
        return
    before = log.segments[-1]
    sure = base - 1 > promised or (before.count and not before.is_rewritten)
    if sure and (not mended.lost or mended.lost[-1][1] < base - 1):
        mended.lost.append((last + 1, base - 1))
        mended.broken_at = mended.broken_at or last + 1


def _mend_segment(
    log: PartitionLog,
    files: FolderScan,
    base: int,
    below: int,
    last: int,
    promised: int,
    epochs: History,
    now_ms: int,
    mended: Mended,
    *,
    parts: bool,
) -> int:
    """Keeps the good batches of one segment, and writes it anew if any is bad. Returns the log's last number
    then.

    below: the base of the next segment. epochs, parts: as for `_mend_segments`.
    """
    log_bytes = files.logs.get(base, 0)
    index_bytes = files.indexes.get(base, 0)
    stem = os.path.join(log.folder, f"{base:020d}")
    for suffix, sizes in ((LOG, files.logs), (INDEX, files.indexes)):
        if base not in sizes:
            log.disk.close(log.disk.open(stem + suffix, create=True))
    segment = Segment(log.segments.files, log.folder, base, log_bytes, index_bytes // RECORD_BYTES)
    good, bad, whole_through = _good_records(segment, log_bytes, max(last, base - 1), below)
    begin = max(good[-1].end if good else 0, max((r.end for r in bad if r.end <= log_bytes), default=0))
    # Batches without a record are rebuilt only up to `promised`: later ones were not acknowledged. Their
    # producer sends them again, and rebuilt ones, which have no producer, would not be found as repeats.
    behind = below if base not in files.indexes else min(below, promised + 1)
    rebuilt = _parse(
        segment,
        format_of(log.settings.format),
        begin,
        log_bytes,
        max([last, base - 1, *(r.last for r in good)]),
        behind,
        below,
    )
    whole = not bad and not rebuilt and begin == log_bytes and index_bytes == len(good) * RECORD_BYTES
    if not whole:
        mended.broken_at = mended.broken_at or whole_through + 1
    if parts and mended.broken_at and good and good[-1].first >= mended.broken_at:
        whole = False
        good = [
            record if record.first < mended.broken_at else record._replace(leader_epoch=epochs[-1][0])
            for record in good
        ]
    if not whole:
        template = _template(good, _epoch_before(log, good), now_ms, log.settings.format)
        _write_anew(log, segment, good, rebuilt, template, epochs)
        mended.rebuilt += sum(item.batch.messages for item in rebuilt)
        _note_losses(bad, good, rebuilt, max(last, base - 1), below, mended)
        records = len(good) + len(rebuilt)
        size = sum(r.length for r in good) + sum(item.length for item in rebuilt)
        segment = Segment(log.segments.files, log.folder, base, size, records)
    log.segments.add(segment)
    return max(segment.last, last)


def _epoch_before(log: PartitionLog, good: list[Record]) -> int:
    """The epoch of the last batch before those that are rebuilt, below which theirs must not be: no replica
    could copy the log. 0: there is none."""
    if good:
        return good[-1].leader_epoch
    for segment in reversed(log.segments.list):
        if segment.count:
            return segment.index.record(segment.count - 1).leader_epoch
    return 0


def _template(good: list[Record], leader_epoch: int, now_ms: int, batch_format: int) -> Record:
    """The common fields of all records that are made anew behind the good ones."""
    newest_ms = timestamp_ms = 0
    if good:
        newest_ms, timestamp_ms = good[-1].append_ms, good[-1].max_timestamp_ms
    append_ms = max(now_ms, newest_ms)
    return Record(0, 0, 0, 0, 0, append_ms, timestamp_ms, 0, 0, leader_epoch, 0, batch_format, 0, 0)


def _good_records(
    segment: Segment, log_bytes: int, last: int, below: int
) -> tuple[list[Record], list[Record], int]:
    """Returns the records that match their batches and are in order, the other records, and the last number
    before the first of the others."""
    good: list[Record] = []
    bad: list[Record] = []
    whole_through = last
    for _, record, batch in batches(segment, 0, log_bytes):
        if matches(record, batch) and last < record.first <= record.last < below:
            good.append(record)
            last = record.last
            if not bad:
                whole_through = last
        else:
            bad.append(record)
    return good, bad, whole_through


@dataclass(slots=True)
class _Parsed:
    """A batch without a record, found by parsing."""

    position: int
    length: int
    batch: FoundBatch


def _parse(
    segment: Segment, batches: BatchFormat, begin: int, log_bytes: int, last: int, behind: int, below: int
) -> list[_Parsed]:
    """Parses the batches from a position on that begin before number `behind` and end before `below`, up to
    the first that is no valid batch.
    """
    found: list[_Parsed] = []
    if last + 1 >= behind:
        return found
    try:
        for position, batch in _raw_batches(segment, batches, begin, log_bytes):
            read = batches.find(batch, last)
            if read.first <= last or read.first >= behind or read.first + read.span >= below:
                break
            found.append(_Parsed(position, len(batch), read))
            last = read.first + read.span
    except InvalidBatch:
        pass
    return found


def _raw_batches(
    segment: Segment, batches: BatchFormat, position: int, log_bytes: int
) -> Iterator[tuple[int, memoryview]]:
    """Yields (position, batch) of batches back to back, by their lengths alone. Raises InvalidBatch."""
    file = segment.log_end.file

    def read(length: int) -> memoryview:
        wanted = min(length, log_bytes - position)
        return memoryview(file.files.disk.read_at(file.files.use(file), wanted, position))

    window = memoryview(b"")
    while position < log_bytes:
        if len(window) < HEAD_BYTES:
            window = read(READ_BYTES)
        end = batches.batch_bytes(window[:HEAD_BYTES])
        if len(window) < end <= MAX_FRAME_BYTES:
            window = read(max(end, READ_BYTES))
        if len(window) < end:
            return
        yield position, window[:end]
        position += end
        window = window[end:]


def _write_anew(
    log: PartitionLog,
    segment: Segment,
    good: list[Record],
    rebuilt: list[_Parsed],
    template: Record,
    epochs: History,
) -> None:
    """Writes the segment anew with only these batches; keeps the old files as `.damaged`. epochs: as for
    `_mend_segments`."""
    disk, batch_format = log.disk, format_of(template.format)
    file = segment.log_end.file
    writer = SegmentWriter(disk, log.folder, segment.base)
    try:
        for record in good:
            batch = disk.read_at(file.files.use(file), record.length, record.position)
            writer.add(batch_format.given_epoch(batch, record.leader_epoch), record)
        greatest = template.max_timestamp_ms
        newest_ms = good[-1].append_ms if good else 0
        for item, append_ms in zip(rebuilt, _append_times(rebuilt, template.append_ms), strict=True):
            read = item.batch
            newest_ms = max(newest_ms, append_ms)
            greatest = max(greatest, read.timestamp_ms or newest_ms)
            record = template._replace(
                first=read.first,
                span=read.span,
                messages=read.messages,
                append_ms=newest_ms,
                max_timestamp_ms=greatest,
                flags=read.flags,
                leader_epoch=max(template.leader_epoch, epoch_at(epochs, read.first)),
                producer_id=read.producer_id,
                producer_epoch=read.producer_epoch,
                producer_sequence=read.producer_sequence,
            )
            batch = disk.read_at(file.files.use(file), item.length, item.position)
            writer.add(batch_format.given_epoch(batch, record.leader_epoch), record)
        writer.finish()
    finally:
        writer.close()
    for open_file in segment.files():
        file.files.forget(open_file)
    swap.prepare(disk, log.folder, segment.base)
    for suffix in (INDEX, LOG):
        disk.rename(segment.path(suffix), segment.path(suffix) + swap.DAMAGED)
    swap.put_in_place(disk, log.folder, segment.base)


def _append_times(rebuilt: list[_Parsed], now_ms: int) -> list[int]:
    """The times at which these batches were appended: that in the batch, or else the latest possible one, so
    that retention keeps them too long rather than too short."""
    times = []
    latest_ms = now_ms
    for item in reversed(rebuilt):
        own_ms = item.batch.append_ms
        if own_ms:
            latest_ms = min(latest_ms, own_ms)
        times.append(own_ms or latest_ms)
    return times[::-1]


def _note_losses(
    bad: list[Record], good: list[Record], rebuilt: list[_Parsed], last: int, below: int, mended: Mended
) -> None:
    """Notes the ranges of numbers between kept batches as lost, when there were bad batches."""
    if not bad:
        return
    kept = [(r.first, r.last) for r in good] + [
        (p.batch.first, p.batch.first + p.batch.span) for p in rebuilt
    ]
    for first, end in kept:
        if first > last + 1:
            mended.lost.append((last + 1, first - 1))
        last = end
    if below < 2**63 and last + 1 < below:
        mended.lost.append((last + 1, below - 1))
