"""Making a damaged log whole with what is left of it: when there is no other replica, or none may lead.

Good batches stay, at their numbers; bad ones become holes; of an index that is lost, or ends before what was
promised, the records are made anew by parsing the batches. Numbers that were given out are never given out
again, but for those behind the last batch where a lossy election chose the log. The files as they were found
stay beside the new ones as `.damaged`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tank_node.log import swap
from tank_node.log.errors import DiskFailed
from tank_node.log.read_back import READ_BYTES, batches
from tank_node.log.record import RECORD_BYTES, SPARSE, Record, matches
from tank_node.log.recovery import FolderScan, rewrite, scan
from tank_node.log.rewrite import SegmentWriter
from tank_node.log.segment import INDEX, LOG, Segment
from tank_protos import bundle
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from tank_node.log.log import PartitionLog


@dataclass(slots=True)
class Mended:
    """What mending a log did."""

    lost: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of numbers, first and last, that hold bad or missing batches (and perhaps holes from before)."""
    rebuilt: int = 0
    """Messages whose records were made anew by parsing; their producers and epochs are not known any more."""
    broken_at: int = 0
    """The first number that is missing, or was rebuilt; 0: none is."""

    def sentence(self) -> str:
        parts = []
        if self.lost:
            shown = ", ".join(f"{first}-{last}" for first, last in self.lost[:5])
            more = f" and {len(self.lost) - 5} more" if len(self.lost) > 5 else ""
            parts.append(f"LOST the messages {shown}{more}: no other replica holds them")
        if self.rebuilt:
            parts.append(f"rebuilt the index of {self.rebuilt} messages by parsing them")
        return "; ".join(parts) or "nothing was lost"


def mend(log: PartitionLog, promised: int, leader_epoch: int, now_ms: int, *, parts: bool) -> Mended:
    """Mends all segments of a log; it is ACTIVE afterwards. Reads everything.

    promised: numbers up to this one were given out and acknowledged (the recovery point). leader_epoch: what
    is rebuilt gets it. parts: so does everything behind the first loss, because other replicas may hold there
    what this one has not: they find by the epochs where the logs part. Raises StorageError; the log is then
    damaged as before.
    """
    mended = Mended()
    synced = log.synced
    log.drop_files()
    try:
        files = scan(log)
        last = 0
        bases = files.bases
        for at, base in enumerate(bases):
            below = bases[at + 1] if at + 1 < len(bases) else 2**63
            _note_gap(log, base, last, promised, mended)
            last = _mend_segment(
                log, files, base, below, last, promised, leader_epoch, now_ms, mended, parts=parts
            )
        if last < promised or (bases and not log.segments):
            mended.lost.append((last + 1, max(promised, last)))
            mended.broken_at = mended.broken_at or last + 1
        last = max(last, promised)
        # Segments that were whole stay as they are, but nobody knows whether the disk has their ends.
        rewrite([(s, s.index.containing(synced + 1)) for s in log.segments if s.count and s.last > synced])
        if not log.segments or log.segments[-1].last != last:
            log.begin_at(last + 1)
    except OSError as error:
        raise DiskFailed(f"cannot mend {log.folder}: {error.strerror}") from error
    log.take_over(last)
    if parts and mended.broken_at and (not log.epochs or log.epochs[-1][0] != leader_epoch):
        log.epochs.append((leader_epoch, mended.broken_at))
    return mended


def end_with_a_batch(log: PartitionLog) -> None:
    """Takes off what a mended log that has followers ends in without a batch: nothing that is pushed carries
    those numbers over, so nobody would ever have all that their leader has. Raises StorageError."""
    log.truncate_to(max(log.held, log.first_available - 1))  # what retention took is not given again


def _note_gap(log: PartitionLog, base: int, last: int, promised: int, mended: Mended) -> None:
    """What a segment's name says was before it, and the one before it has not; noted unless compaction may
    have taken it."""
    if not log.segments or base - 1 <= last:
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
    leader_epoch: int,
    now_ms: int,
    mended: Mended,
    *,
    parts: bool,
) -> int:
    """Keeps what is good of one segment, writing it anew where anything is not; returns its last number.

    parts: what is behind the first loss gets the new epoch.
    """
    log_bytes = files.logs.get(base, 0)
    index_bytes = files.indexes.get(base, 0)
    stem = os.path.join(log.folder, f"{base:020d}")
    for suffix, sizes in ((LOG, files.logs), (INDEX, files.indexes)):
        if base not in sizes:
            log.disk.close(log.disk.open(stem + suffix, create=True))
    segment = Segment(log.files, log.folder, base, log_bytes, index_bytes // RECORD_BYTES)
    good, bad, whole_through = _good_records(segment, log_bytes, max(last, base - 1), below)
    begin = max(good[-1].end if good else 0, max((r.end for r in bad if r.end <= log_bytes), default=0))
    # Bytes without a record were not acknowledged unless they were promised: then their producer sends them
    # again, and must not find them stored by nobody.
    behind = below if base not in files.indexes else min(below, promised + 1)
    rebuilt = _parse(segment, begin, log_bytes, max([last, base - 1, *(r.last for r in good)]), behind, below)
    whole = not bad and not rebuilt and begin == log_bytes and index_bytes == len(good) * RECORD_BYTES
    if not whole:
        mended.broken_at = mended.broken_at or whole_through + 1
    if parts and mended.broken_at and good and good[-1].first >= mended.broken_at:
        whole = False
        good = [
            record if record.first < mended.broken_at else record._replace(leader_epoch=leader_epoch)
            for record in good
        ]
    if not whole:
        times = good[-1] if good else None
        template = Record(0, 0, 0, 0, 0, now_ms, 0, 0, 0, leader_epoch, 0, log.settings.format, 0, 0)
        if times is not None:
            template = template._replace(
                append_ms=max(now_ms, times.append_ms), max_timestamp_ms=times.max_timestamp_ms
            )
        _write_anew(log, segment, good, rebuilt, template)
        mended.rebuilt += sum(item.messages for item in rebuilt)
        _note_losses(bad, good, rebuilt, max(last, base - 1), below, mended)
        records = len(good) + len(rebuilt)
        size = sum(r.length for r in good) + sum(item.length for item in rebuilt)
        segment = Segment(log.files, log.folder, base, size, records)
    log.add_segment(segment)
    return max(segment.last, last)


def _good_records(
    segment: Segment, log_bytes: int, last: int, below: int
) -> tuple[list[Record], list[Record], int]:
    """The records that match their bytes and come in order, the others, and the last number before these."""
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
    """A batch found by parsing bytes that have no record."""

    position: int
    length: int
    first: int
    span: int
    messages: int
    sparse: bool
    timestamp_ms: int


def _parse(segment: Segment, begin: int, log_bytes: int, last: int, behind: int, below: int) -> list[_Parsed]:
    """The batches from a position on that begin before number `behind` and end before `below`.

    As far as they can be understood.
    """
    found: list[_Parsed] = []
    if last + 1 >= behind:
        return found
    try:
        for position, batch, start in _raw_batches(segment, begin, log_bytes):
            header = bundle.validate(batch)
            first = header.first if header.sparse else last + 1
            span = header.last - header.first if header.sparse else header.messages - 1
            if first <= last or first >= behind or first + span >= below:
                break
            timestamp = bundle.first_timestamp_ms(batch, header) or 0
            bundle.decode(
                batch[start:], first
            )  # the header alone could be chance: nothing else vouches for it
            found.append(
                _Parsed(position, len(batch), first, span, header.messages, header.sparse, timestamp)
            )
            last = first + span
    except WireError:
        pass
    return found


def _raw_batches(segment: Segment, position: int, log_bytes: int) -> Iterator[tuple[int, memoryview, int]]:
    """(position, batch, where its bundle begins) of what lies back to back, by its length prefixes alone.

    A few MiB at a time. Raises WireError.
    """
    file = segment.log_end.file

    def read(length: int) -> memoryview:
        wanted = min(length, log_bytes - position)
        return memoryview(file.files.disk.read_at(file.files.use(file), wanted, position))

    window = memoryview(b"")
    while position < log_bytes:
        if len(window) < varint.MAX_BYTES:
            window = read(READ_BYTES)
        length, start = varint.read(window, 0)
        end = start + length
        if len(window) < end <= MAX_FRAME_BYTES:
            window = read(max(end, READ_BYTES))
        if len(window) < end:
            return
        yield position, window[:end], start
        position += end
        window = window[end:]


def _write_anew(
    log: PartitionLog, segment: Segment, good: list[Record], rebuilt: list[_Parsed], template: Record
) -> None:
    """Writes the segment with these batches alone; the old files stay as `.damaged`."""
    disk = log.disk
    file = segment.log_end.file
    writer = SegmentWriter(disk, log.folder, segment.base)
    try:
        for record in good:
            writer.add(disk.read_at(file.files.use(file), record.length, record.position), record)
        greatest = template.max_timestamp_ms
        for item in rebuilt:
            greatest = max(greatest, item.timestamp_ms or template.append_ms)
            record = template._replace(
                first=item.first,
                span=item.span,
                messages=item.messages,
                max_timestamp_ms=greatest,
                flags=SPARSE if item.sparse else 0,
            )
            writer.add(disk.read_at(file.files.use(file), item.length, item.position), record)
        writer.finish()
    finally:
        writer.close()
    for open_file in segment.files():
        file.files.forget(open_file)
    swap.prepare(disk, log.folder, segment.base)
    for suffix in (INDEX, LOG):
        disk.rename(segment.path(suffix), segment.path(suffix) + swap.DAMAGED)
    swap.put_in_place(disk, log.folder, segment.base)


def _note_losses(
    bad: list[Record], good: list[Record], rebuilt: list[_Parsed], last: int, below: int, mended: Mended
) -> None:
    """The ranges between kept batches, where bad ones lay."""
    if not bad:
        return
    kept = [(r.first, r.last) for r in good] + [(p.first, p.first + p.span) for p in rebuilt]
    for first, end in kept:
        if first > last + 1:
            mended.lost.append((last + 1, first - 1))
        last = end
    if below < 2**63 and last + 1 < below:
        mended.lost.append((last + 1, below - 1))
