"""Compaction by key: sealed segments keep the newest message of each key, and all messages without a key.

As in TANK, a message without key and value is removed too. A key without a value (a tombstone) stays; where
batches have a place for the time, until `delete_retention_ms` after the first round that met it, so that
readers of an older message of the key meet the tombstone, too. Numbers don't change: a batch that lost
messages becomes a sparse one, with the same first and last number and epoch in its record. A thread reads the
sealed segments and writes new files; the event loop only puts them in place.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tank_node.disk import Disk, sync_file
from tank_node.limits import COMPACTED_MESSAGES
from tank_node.log.producers import Producers
from tank_node.log.settings import LogSettings
from tank_node.segment import swap
from tank_node.segment.batch_format import InvalidBatch, KeyedEntry
from tank_node.segment.batch_formats import format_of
from tank_node.segment.errors import StorageError
from tank_node.segment.index import SCAN_RECORDS
from tank_node.segment.record import MARKER, RECORD_BYTES, SPARSE, Record, matches, read_record
from tank_node.segment.rewrite import SegmentWriter
from tank_node.segment.segment import INDEX, LOG, PRODUCERS, Segment, file_name

MAX_KEYS = 4_000_000
"""The most keys remembered in one round, some 400 MiB at worst. Messages of further keys stay until the next
round."""
RETRY_MS = 60_000
"""The pause after a round that failed, for instance on a full disk."""


class BatchChange(NamedTuple):
    """What becomes of a batch that changes."""

    kept: list[int]
    """The places of the messages that stay; empty: the batch goes."""
    horizon_ms: int
    """The time to write into it, from which on its tombstones may go; 0: as it is."""


@dataclass(slots=True)
class CompactionWork:
    """One round for one log. `run` in a thread; then `maintenance.end_compaction` on the loop."""

    folder: str
    segments: list[Segment]
    """The segments to compact: sealed and wholly below the high-water mark, the oldest first."""
    through: int
    """The last number that the round covers."""
    sizes: list[tuple[int, int]]
    """By segment, when the work was made: bytes of batches, number of records."""
    producers: bytes = b""
    """The snapshot of the producers behind the round's last number."""
    remembered: frozenset[int] = frozenset()
    """First numbers of the batches in that snapshot, once `run` has read it. They stay unchanged, because
    replicas that copy this log build their table of producers from its records. The table at the log's end
    may have forgotten them for batches above the high-water mark, which may be truncated."""
    newest: int = 0
    """First number of the last batch that the round covers. It keeps at least one message: replicas that copy
    this log could not match an end without a batch."""
    now_ms: int = 0
    delete_retention_ms: int = 0
    forgets: bool = False
    """Whether tombstones may go: every replica of the partition has what the round covers. Otherwise one that
    copied the log later would keep an older message of a tombstone's key."""
    tombstones_due_ms: int = 0
    """When the next tombstones may go, as far as this round has seen; 0: none."""
    cancelled: bool = False
    """Whether the log was truncated or closed, so that no file may be put in place. See `cancel`."""
    error: Exception | None = None
    rewritten: list[tuple[Segment, int, int]] = field(default_factory=list)
    """Segments whose new files are complete as `.swap`, with their bytes and records."""
    messages_dropped: int = 0
    _dropped: set[int] = field(default_factory=set)
    """The bases of segments that were removed meanwhile."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Guards `cancelled`, `rewritten` and `_dropped`, with the `.swap` files."""

    def cancel(self, disk: Disk) -> None:
        """Cancels the round and removes its complete files, so that not even a crash puts them in place. Call
        it on the loop, also while `run` is under way. Raises OSError.
        """
        with self._lock:
            self.cancelled = True
            for segment, _, _ in self.rewritten:
                swap.discard(disk, self.folder, segment.base)
            self.rewritten = []

    def drop(self, segments: Sequence[Segment]) -> None:
        """Leaves out segments, the oldest of the log, which are removed next: new files of them would come
        back at the next start. Call it on the loop, also while `run` is under way."""
        with self._lock:
            self._dropped.update(segment.base for segment in segments)

    def run(self, disk: Disk) -> None:
        """Finds the newest message of each key, and writes the segments that change anew, in any thread.
        Never raises, but sets `error`."""
        try:
            if self.producers:
                self.remembered = frozenset(
                    batch.first for batch in Producers.restore(self.producers).batches()
                )
            keys = RoundKeys()
            for segment, sizes in zip(self.segments, self.sizes, strict=True):
                for record, batch in self._stored(disk, segment, sizes):
                    keys.note(record, batch, stays=record.first in self.remembered)
            self._sync_producers(disk)
            for segment, sizes in zip(self.segments, self.sizes, strict=True):
                self._rewrite(disk, segment, sizes, keys)
        except _Cancelled:
            pass
        except (OSError, SpoiledBatch) as error:
            self.error = error

    def _change(self, record: Record, batch: memoryview, keys: "RoundKeys") -> BatchChange | None:
        """What becomes of a batch; None when it stays as it is."""
        if record.first in self.remembered:
            return None
        entries = _entries(record, batch)
        if not entries:
            return None
        kept, horizon_ms = kept_messages(entries, keys.newest), 0
        tombstones = [place for place in kept if entries[place].key is not None and entries[place].is_empty]
        if tombstones and (found_ms := format_of(record.format).horizon_ms(batch)) is not None:
            if not found_ms:
                horizon_ms = self.now_ms + self.delete_retention_ms
            elif found_ms <= self.now_ms and self.forgets:
                gone = {place for place in tombstones if keys.may_forget(entries[place])}
                kept = [place for place in kept if place not in gone]
            if horizon_ms or found_ms > self.now_ms:
                end_ms = horizon_ms or found_ms
                self.tombstones_due_ms = min(self.tombstones_due_ms or end_ms, end_ms)
        if (len(kept) == len(entries) and not horizon_ms) or (not kept and record.first == self.newest):
            return None
        return BatchChange(kept, horizon_ms)

    def _sync_producers(self, disk: Disk) -> None:
        """Makes the producers' snapshot behind these segments durable, because rewritten records don't hold
        all that it does."""
        path = os.path.join(self.folder, file_name(self.through + 1, PRODUCERS))
        with contextlib.suppress(FileNotFoundError):
            sync_file(disk, path)

    def _stored(
        self, disk: Disk, segment: Segment, sizes: tuple[int, int]
    ) -> Iterator[tuple[Record, memoryview]]:
        try:
            for stored in _stored(disk, self.folder, segment.base, *sizes):
                if self.cancelled:
                    raise _Cancelled
                yield stored
        except FileNotFoundError:
            if segment.base not in self._dropped:
                raise

    def _rewrite(self, disk: Disk, segment: Segment, sizes: tuple[int, int], keys: "RoundKeys") -> None:
        dropped, is_changed = 0, False
        for record, batch in self._stored(disk, segment, sizes):
            if (change := self._change(record, batch, keys)) is not None:
                is_changed = True
                dropped += record.messages - len(change.kept)
        if not is_changed:
            return
        writer = SegmentWriter(disk, self.folder, segment.base)
        try:
            for record, batch in self._stored(disk, segment, sizes):
                change = self._change(record, batch, keys)
                if change is None:
                    writer.add(batch, record)
                elif change.kept:
                    changed = record._replace(messages=len(change.kept), flags=record.flags | SPARSE)
                    rewritten = format_of(record.format).rewritten(
                        batch, record.first, change.kept, change.horizon_ms
                    )
                    writer.add(rewritten, changed)
            writer.finish()
            with self._lock:
                if self.cancelled:
                    raise _Cancelled
                if segment.base in self._dropped:
                    writer.discard()
                    return
                swap.prepare(disk, self.folder, segment.base)
                self.rewritten.append((segment, writer.end, writer.count))
        except BaseException:
            writer.discard()
            raise
        self.messages_dropped += dropped


class _Cancelled(Exception):
    """The round was cancelled."""


class SpoiledBatch(Exception):
    """A batch doesn't match its checksum, or the index is too short: the round ends, and the log is
    damaged."""


def _stored(
    disk: Disk, folder: str, base: int, log_bytes: int, records: int
) -> Iterator[tuple[Record, memoryview]]:
    """Yields a segment's records and batches. Opens its own descriptors, because it runs in a thread."""
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


def _entries(record: Record, batch: memoryview) -> list[KeyedEntry] | None:
    """Decodes a batch's messages, of a marker none. Returns None for batches that stay unchanged because they
    can't be decoded, or have too many messages for the memory."""
    if record.flags & MARKER:
        return []
    if record.messages > COMPACTED_MESSAGES:
        return None
    try:
        return format_of(record.format).entries(batch, record.first)
    except InvalidBatch:
        return None


class RoundKeys:
    """The keys of all messages that a round covers. `note` takes the batches in order."""

    __slots__ = ("_held", "_unread", "newest")

    def __init__(self) -> None:
        self.newest: dict[bytes, int] = {}
        """The number of each key's newest message, of MAX_KEYS keys."""
        self._held: dict[bytes, int] = {}
        """The number of each key's oldest message in batches that stay as they are."""
        self._unread = 0
        """The first number of the first batch whose keys aren't known; 0: all are."""

    def note(self, record: Record, batch: memoryview, *, stays: bool) -> None:
        """Notes the keys of a batch. stays: whether the batch stays as it is."""
        entries = _entries(record, batch)
        if entries is None:
            self._unread = self._unread or record.first
            return
        newest = self.newest
        for number, key, _ in entries:
            if key is not None and (key in newest or len(newest) < MAX_KEYS):
                newest[key] = number
                if stays:
                    self._held.setdefault(key, number)

    def may_forget(self, tombstone: KeyedEntry) -> bool:
        """Whether no older message of the tombstone's key is left when the round is through."""
        number, key, _ = tombstone
        if key is None or self.newest.get(key) != number or 0 < self._unread < number:
            return False
        return self._held.get(key, number) >= number


def kept_messages(entries: Sequence[KeyedEntry], newest: dict[bytes, int]) -> list[int]:
    """The places of a batch's messages that have no newer message of their key, and are not empty without
    one."""
    return [
        place
        for place, (number, key, is_empty) in enumerate(entries)
        if (newest.get(key, 0) <= number if key is not None else not is_empty)
    ]


def plan(
    segments: Sequence[Segment],
    compacted_through: int,
    high_water_mark: int,
    settings: LogSettings,
    folder: str,
    producers: Callable[[int], bytes],
    now_ms: int,
    *,
    forgets: bool = False,
    tombstones_due_ms: int = 0,
) -> CompactionWork | None:
    """Plans the next round for a log with these segments. None while too little of it is new
    (`min_cleanable_ratio`), and no tombstones are due. Raises StorageError.

    compacted_through: the last number of the round before. producers: returns the snapshot of
    the producers before a number; may raise StorageError. forgets, tombstones_due_ms: as in CompactionWork.
    """
    sealed = []
    lag_ms = settings.min_compaction_lag_ms
    for segment, following in pairwise(segments):
        if following.base > high_water_mark + 1 or not segment.synced:
            break
        if lag_ms and segment.count and segment.last_append_ms + lag_ms > now_ms:
            break  # its messages neither go, nor let older ones go
        sealed.append((segment, following.base - 1))
    total = sum(segment.size_bytes for segment, _ in sealed)
    fresh = sum(segment.size_bytes for segment, last in sealed if last > compacted_through)
    is_due = forgets and 0 < tombstones_due_ms <= now_ms and bool(sealed)
    if not is_due and (not fresh or fresh < total * settings.min_cleanable_ratio):
        return None
    chosen = [segment for segment, _ in sealed]
    sizes = [(segment.size_bytes, segment.count) for segment in chosen]
    try:
        snapshot = producers(sealed[-1][1] + 1)
        held = next((segment for segment in reversed(chosen) if segment.count), None)
        newest = held.index.record(held.count - 1).first if held is not None else 0
    except StorageError:  # the disk refuses reads: a later read that matters reports it
        return None
    return CompactionWork(
        folder,
        chosen,
        sealed[-1][1],
        sizes,
        snapshot,
        newest=newest,
        now_ms=now_ms,
        delete_retention_ms=settings.delete_retention_ms,
        forgets=forgets,
    )
