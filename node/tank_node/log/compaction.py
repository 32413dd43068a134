"""Compaction by key: of sealed segments, the newest message of each key stays, and every message without a
key.

TANK's rule: a message without key and without content goes too, but where nothing would be left of the newest
batch; a key with empty content (a tombstone) stays.
Nothing is numbered anew. Out of one batch comes at most one, with the same first, last and epoch in its
record; where messages were taken out of it, it is sparse. The work is done in a thread on files that never
change; the event loop only puts the results in place.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tank_node.disk import Disk, sync_file
from tank_node.limits import COMPACTED_MESSAGES
from tank_node.log import swap
from tank_node.log.errors import StorageError
from tank_node.log.index import SCAN_RECORDS
from tank_node.log.record import MARKER, RECORD_BYTES, SPARSE, Record, matches, read_record
from tank_node.log.rewrite import SegmentWriter
from tank_node.log.segment import INDEX, LOG, PRODUCERS, Segment, file_name
from tank_protos import bundle
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.log.log import PartitionLog

MAX_KEYS = 4_000_000
"""Remembered in one round, some 400 MiB at worst: of further keys every message stays until the next
round."""
RETRY_MS = 60_000
"""After a round that failed (a full disk): reading everything again at once would fail again."""


@dataclass(slots=True)
class CompactionWork:
    """One round for one log. `run` in a thread; then `PartitionLog.end_compaction` on the loop."""

    folder: str
    segments: list[Segment]
    """Sealed and wholly below the high-water mark, oldest first."""
    through: int
    """The last number looked at."""
    sizes: list[tuple[int, int]]
    """Of each segment when the work was made: bytes of batches, number of records."""
    remembered: frozenset[int] = frozenset()
    """First numbers of the batches that producers' memory consists of: they stay as they are, for a replica
    that copies this log learns that memory from their records."""
    newest: int = 0
    """First number of the last batch that is looked at. Something of it stays: where a log ended in numbers
    without a batch, no replica that copies it would ever have its end."""
    cancelled: bool = False
    """The log was truncated or closed: nothing may be put in place. See `cancel`."""
    error: Exception | None = None
    rewritten: list[tuple[Segment, int, int]] = field(default_factory=list)
    """Segments whose new files are complete as `.swap`, with their bytes and records."""
    messages_dropped: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Holds `cancelled` together with the `.swap` files that are complete."""

    def cancel(self, disk: Disk) -> None:
        """Nothing of it will exist, not even after a crash. On the loop, also while `run` is under way.

        Raises OSError.
        """
        with self._lock:
            self.cancelled = True
            for segment, _, _ in self.rewritten:
                swap.discard(disk, self.folder, segment.base)
            self.rewritten = []

    def run(self, disk: Disk) -> None:
        """Reads the segments twice and writes those that change. Never raises: see `error`."""
        try:
            newest: dict[bytes, int] = {}
            for segment, sizes in zip(self.segments, self.sizes, strict=True):
                for record, batch in self._stored(disk, segment, sizes):
                    _note_keys(newest, record, batch)
            self._sync_producers(disk)
            for segment, sizes in zip(self.segments, self.sizes, strict=True):
                self._rewrite(disk, segment, sizes, newest)
        except _Cancelled:
            pass
        except (OSError, SpoiledBatch) as error:
            self.error = error

    def _kept(
        self, record: Record, batch: memoryview, newest: dict[bytes, int]
    ) -> list[bundle.Message] | None:
        if record.first in self.remembered:
            return None
        kept = kept_messages(record, batch, newest)
        return None if not kept and record.first == self.newest else kept

    def _sync_producers(self, disk: Disk) -> None:
        """Makes the snapshot behind these segments durable: rewritten records don't say all of producers."""
        path = os.path.join(self.folder, file_name(self.through + 1, PRODUCERS))
        with contextlib.suppress(FileNotFoundError):
            sync_file(disk, path)

    def _stored(
        self, disk: Disk, segment: Segment, sizes: tuple[int, int]
    ) -> Iterator[tuple[Record, memoryview]]:
        for stored in _stored(disk, self.folder, segment.base, *sizes):
            if self.cancelled:
                raise _Cancelled
            yield stored

    def _rewrite(
        self, disk: Disk, segment: Segment, sizes: tuple[int, int], newest: dict[bytes, int]
    ) -> None:
        dropped = 0
        for record, batch in self._stored(disk, segment, sizes):
            kept = self._kept(record, batch, newest)
            dropped += 0 if kept is None else record.messages - len(kept)
        if not dropped:
            return
        writer = SegmentWriter(disk, self.folder, segment.base)
        try:
            for record, batch in self._stored(disk, segment, sizes):
                kept = self._kept(record, batch, newest)
                if kept is None:
                    writer.add(batch, record)
                elif kept:
                    changed = record._replace(messages=len(kept), flags=record.flags | SPARSE)
                    writer.add(_encode(kept), changed)
            writer.finish()
            with self._lock:
                if self.cancelled:
                    raise _Cancelled
                swap.prepare(disk, self.folder, segment.base)
                self.rewritten.append((segment, writer.end, writer.count))
        except BaseException:
            writer.discard()
            raise
        self.messages_dropped += dropped


class _Cancelled(Exception):
    """Nobody wants the round any more."""


class SpoiledBatch(Exception):
    """A batch that does not match its checksum: the round ends, and the log is damaged."""


def _stored(
    disk: Disk, folder: str, base: int, log_bytes: int, records: int
) -> Iterator[tuple[Record, memoryview]]:
    """A segment's records and batches, by descriptors of its own (this runs in a thread)."""
    stem = os.path.join(folder, f"{base:020d}")
    index_fd = disk.open(stem + INDEX)
    try:
        log_fd = disk.open(stem + LOG)
        try:
            window, begin = memoryview(b""), 0
            for record in _read_records(disk, index_fd, records):
                if record.end > begin + len(window):
                    begin = record.position
                    wanted = min(max(1 << 20, record.length), max(log_bytes - begin, 0))
                    window = memoryview(disk.read_at(log_fd, wanted, begin))
                batch = window[record.position - begin : record.end - begin]
                if record.position < begin or not matches(record, batch):
                    raise SpoiledBatch(f"the batch at {record.first} does not match its checksum")
                yield record, batch
        finally:
            disk.close(log_fd)
    finally:
        disk.close(index_fd)


def _read_records(disk: Disk, fd: int, records: int) -> Iterator[Record]:
    for start in range(0, records, SCAN_RECORDS):
        wanted = min(SCAN_RECORDS, records - start) * RECORD_BYTES
        piece = disk.read_at(fd, wanted, start * RECORD_BYTES)
        if len(piece) < wanted:
            raise SpoiledBatch(f"the index ends at record {start + len(piece) // RECORD_BYTES}")
        for at in range(0, wanted, RECORD_BYTES):
            yield read_record(piece, at)


def _messages(record: Record, batch: memoryview) -> list[bundle.Message]:
    """None of a marker, nor of what no client can decode either, nor of a batch with more messages than one
    should hold in memory: such a batch stays as it is."""
    if record.flags & MARKER or record.messages > COMPACTED_MESSAGES:
        return []
    try:
        _, start = varint.read(batch, 0)
        return bundle.decode(batch[start:], record.first)
    except WireError:
        return []


def _note_keys(newest: dict[bytes, int], record: Record, batch: memoryview) -> None:
    for message in _messages(record, batch):
        if message.key and (message.key in newest or len(newest) < MAX_KEYS):
            newest[message.key] = message.sequence_number


def kept_messages(record: Record, batch: memoryview, newest: dict[bytes, int]) -> list[bundle.Message] | None:
    """The messages that stay; None when all do."""
    messages = _messages(record, batch)
    kept = [
        message
        for message in messages
        if (newest.get(message.key, 0) <= message.sequence_number if message.key else message.value)
    ]
    return kept if len(kept) < len(messages) else None


def _encode(kept: Sequence[bundle.Message]) -> bytes:
    return bundle.as_batch(
        bundle.encode_sparse(
            [message.sequence_number for message in kept],
            [message.value for message in kept],
            timestamps=[message.timestamp_ms for message in kept],
            keys=[message.key for message in kept],
        )
    )


def plan(log: "PartitionLog", high_water_mark: int) -> CompactionWork | None:
    """The next round for a log; None while too little of it is new (`min_cleanable_ratio`)."""
    sealed = []
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base > high_water_mark + 1 or not segment.synced:
            break
        sealed.append((segment, following.base - 1))
    total = sum(segment.size_bytes for segment, _ in sealed)
    fresh = sum(segment.size_bytes for segment, last in sealed if last > log.compacted_through)
    if not fresh or fresh < total * log.settings.min_cleanable_ratio:
        return None
    segments = [segment for segment, _ in sealed]
    sizes = [(segment.size_bytes, segment.count) for segment in segments]
    try:
        remembered = frozenset(batch.first for batch in log.load_producers().batches())
        held = next((segment for segment in reversed(segments) if segment.count), None)
        newest = held.index.record(held.count - 1).first if held is not None else 0
    except StorageError:  # its disk refuses: that is found out where it matters
        return None
    return CompactionWork(log.folder, segments, sealed[-1][1], sizes, remembered, newest)


def finish(log: "PartitionLog", work: CompactionWork, note: Callable[[str], None]) -> None:
    """Puts the rewritten segments in place of the old ones, on the loop."""
    if work.cancelled:
        return
    for segment, size, count in work.rewritten:
        if segment not in log.segments:  # retention took it, and its new files too
            continue
        try:
            swap.put_in_place(log.disk, log.folder, segment.base)
        except OSError as error:
            # One of two files may be the new one: nothing may be read until the next start ends it.
            log.spoiled(f"compaction could not replace {segment.path(LOG)}: {error.strerror}")
            return
        for file in segment.files():
            log.files.forget(file)
        fresh = Segment(log.files, log.folder, segment.base, size, count)
        log.segments[log.segments.index(segment)] = fresh
        log.size_bytes += size - segment.size_bytes
        log.folder_dirty = True
    log.forget_cursors()
    if work.error is not None:
        note(f"compaction of {log.folder} stopped: {work.error}")
        if isinstance(work.error, SpoiledBatch):
            log.spoiled(str(work.error))
    else:
        log.compact_after_ms = 0
        log.compacted_through = work.through
        log.changed = True
