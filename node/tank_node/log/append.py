"""The growing end of a log: numbering, staging and writing of batches. `log.PartitionLog` is the whole.

A batch's way: `stage` numbers it and makes its record, `write_staged` puts everything staged in a tick into
the files with as few calls as can be.
"""

import os
from enum import Enum
from typing import Final, NoReturn

from fastcrc.crc32 import iscsi as crc32c

from tank_node.disk import Disk, write_file
from tank_node.log import truncation
from tank_node.log.errors import (
    DiskFull,
    LogClosed,
    LogDamaged,
    LogFailed,
    StorageError,
    TooManyOpenFiles,
)
from tank_node.log.open_files import OpenFiles
from tank_node.log.producers import ProducedBatch, Producers, ProducerState, ProducerVerdict
from tank_node.log.record import CHECKED_HEAD, HEAD_BYTES, RECORD, SPARSE, Record, is_sparse_bundle
from tank_node.log.segment import PRODUCERS, Segment, storage_error
from tank_node.log.settings import MAX_SEGMENT_RECORDS, LogSettings
from tank_node.log.staged import StagedRun
from tank_protos.storage.produce_run import ProduceRun

_pack: Final = RECORD.pack
_pack_head: Final = CHECKED_HEAD.pack


class LogState(Enum):
    """Whether a log takes writes."""

    ACTIVE = "active"
    FAILED = "failed"
    """The disk refused something. Reads go on; writes are refused until the process starts anew."""
    DAMAGED = "damaged"
    """Stored batches are missing or wrong: see `PartitionLog.reason`. Nothing is written or cut."""
    CLOSED = "closed"


_ACTIVE: Final = LogState.ACTIVE
"""On a hot path: before Python 3.12 looking it up in its class costs as much as a call."""


class AppendableLog:
    """What a log is made of, and how it grows. Used from one thread, the event loop's."""

    def __init__(
        self, files: OpenFiles, folder: str, topic_id: int, partition: int, settings: LogSettings
    ) -> None:
        self.files = files
        self.folder = folder
        self.topic_id = topic_id
        self.partition = partition
        self.settings = settings
        self.state = LogState.ACTIVE
        self.reason = ""
        """Why the log is FAILED or DAMAGED, in one sentence."""
        self.segments: list[Segment] = []
        """Oldest first. Only the last one grows. Empty until the first append."""
        self.last = 0
        """Last number assigned, staged ones included; 0 when there never was one. The next is last + 1."""
        self.written = 0
        """Last number whose batch is in the files."""
        self.synced = 0
        """Last number known to survive a power failure (log and index fsynced)."""
        self.recovery_point = 0
        """Of a damaged log: what the checkpoint promised."""
        self.refilling = False
        """It was damaged and dropped, or may lack anything, and is being copied from its leader. The
        checkpoint says damaged until that is through: after a crash the copy begins again."""
        self.log_start = 0
        """Nothing below is served, though a segment may still hold it."""
        self.high_water_mark = 0
        """Kept here for the checkpoint and for retention; the partition sets it."""
        self.size_bytes = 0
        """Of the batches in all segments, without their records."""
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, the first number given out in it), rising. Numbers that were left out belong to the
        epoch that left them out: the logs of two replicas are the same up to a number at which both have the
        same epoch."""
        self.compacted_through = 0
        """Sealed segments up to this number were compacted already."""
        self.changed = True
        """Something that the checkpoint holds has changed since it was written."""
        self.jitter_ms = 0
        """Taken off `settings.roll_ms`; chosen once per log by its folder."""
        self._runs: list[StagedRun] = []
        self._before: tuple[int, int, int, int] = (0, 0, 0, 0)
        """last, append_ms, max_timestamp_ms and number of epochs before anything was staged."""
        self._producer_undo: list[tuple[int, ProducerState | None]] = []
        self._append_ms = 0
        self._max_timestamp_ms = 0
        self._tail_loaded = False
        self._producers: Producers | None = None
        self.cursors: dict[int, tuple[Segment, int]] = {}
        """Where a read that begins at this number finds its record: consumers go on where they stopped. None
        is below the first available number."""
        self.folder_dirty = False
        """Files were made or removed since the folder's last fsync."""

    # ---- what is there ----

    @property
    def disk(self) -> Disk:
        return self.files.disk

    @property
    def folders(self) -> tuple[str, str, str]:
        """The log's folder and those above it that were made with it."""
        topic = os.path.dirname(self.folder)
        return self.folder, topic, os.path.dirname(topic)

    @property
    def first_available(self) -> int:
        """The smallest number that can be asked for; 0 while the log has never held a message."""
        if self.written == 0 or not self.segments:
            return 0
        return max(self.log_start, self.segments[0].base)

    # ---- appending ----

    def check_producer(self, producer_id: int, epoch: int, sequence: int, messages: int) -> ProducerVerdict:
        """What to do with a batch of an idempotent producer; staged batches count. Changes nothing."""
        producers = self._producers or self.load_producers()
        self.load_tail()
        producers.pass_over(self._append_ms)
        return producers.check(producer_id, epoch, sequence, messages)

    def stage(
        self,
        batch: memoryview,
        *,
        messages: int,
        first: int | None,
        span: int,
        max_timestamp_ms: int,
        leader_epoch: int,
        now_ms: int,
        producer_id: int = 0,
        producer_epoch: int = 0,
        producer_sequence: int = 0,
    ) -> tuple[int, int]:
        """Numbers a validated batch (length prefix and bundle) and remembers it for `write_staged`.

        first: None: number it last + 1 onwards; else its own number, above `last`; after a gap it must be
        sparse. span: last - first. max_timestamp_ms: the greatest of its messages, 0: unknown. The bytes must
        not change until `write_staged`. Returns (first, last). Raises StorageError, with nothing staged."""
        if self.state is not _ACTIVE:
            self._refuse()
        if not self._runs:
            self._begin_staging()
        if producer_id and self._producers is None:
            self.load_producers()  # may fail: before anything has changed
        flags = SPARSE if is_sparse_bundle(batch) else 0
        number = self.last + 1
        if first is not None and first != number:
            number = self._own_number(first, flags)
        if now_ms > self._append_ms:
            self._append_ms = now_ms
        append_ms = self._append_ms
        if (max_timestamp_ms or append_ms) > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms or append_ms
        max_timestamp_ms = self._max_timestamp_ms
        length = len(batch)
        run = self._runs[-1] if self._runs else self._first_run(append_ms)
        position = run.end
        if (
            position + length > self.settings.segment_bytes
            or append_ms >= run.roll_at_ms
            or run.count >= MAX_SEGMENT_RECORDS
        ) and position:
            run = self._new_run(append_ms)
            position = 0
        record = _pack(
            number, span, 0, length, 0, append_ms, max_timestamp_ms, producer_id, producer_sequence,
            leader_epoch, producer_epoch, self.settings.format, flags, messages,
        )  # fmt: skip
        crc = crc32c(record, crc32c(batch))
        run.records.append(_pack_head(number, span, position, length, crc) + record[HEAD_BYTES:])
        run.batches.append(batch)
        run.count, run.end = run.count + 1, position + length
        if not self.epochs or self.epochs[-1][0] != leader_epoch:
            self.epochs.append((leader_epoch, self.last + 1))
        self.last = last = number + span
        if producer_id:
            produced = ProducedBatch(producer_sequence, messages, number, span)
            self._remember(producer_id, producer_epoch, produced)
        return number, last

    def stage_found(self, found: ProduceRun, *, leader_epoch: int, now_ms: int) -> None:
        """Stages the batches of a run, dense and validated ones, as `stage` does with each.

        Their bytes must not change until `write_staged`. Raises StorageError, with nothing of them staged.
        """
        if self.state is not _ACTIVE:
            self._refuse()
        if not self._runs:
            self._begin_staging()
        if now_ms > self._append_ms:
            self._append_ms = now_ms
        append_ms = self._append_ms
        run = self._runs[-1] if self._runs else self._first_run(append_ms)
        if self._producers is None and not run.has_room(found, self.settings, append_ms):
            self.load_producers()  # for the next segment; may fail: before anything has changed
        if not self.epochs or self.epochs[-1][0] != leader_epoch:
            self.epochs.append((leader_epoch, self.last + 1))
        start = 0
        while start < found.batches:
            rest = append_ms, self._max_timestamp_ms, leader_epoch, self.settings
            taken = run.take(found, start, self.last + 1, *rest)
            if taken is None:
                run = self._new_run(append_ms)
                continue
            start, self.last, self._max_timestamp_ms = taken

    def _begin_staging(self) -> None:
        self.load_tail()
        self._before = (self.last, self._append_ms, self._max_timestamp_ms, len(self.epochs))

    def _own_number(self, first: int, flags: int) -> int:
        if first <= self.last or not flags & SPARSE:
            raise ValueError(f"batch at {first} cannot follow {self.last}")
        return first

    def _remember(self, producer_id: int, epoch: int, produced: ProducedBatch) -> None:
        producers = self.load_producers()
        before = producers.append(producer_id, epoch, produced, self._append_ms)
        self._producer_undo.append((producer_id, before))

    def _first_run(self, append_ms: int) -> StagedRun:
        if not self.segments:
            return self._new_run(append_ms)
        active = self.segments[-1]
        began_ms = active.first_append_ms if active.count else append_ms
        run = StagedRun(active, active.base, active.size_bytes, began_ms + self.roll_ms())
        if active.count >= MAX_SEGMENT_RECORDS:
            run.roll_at_ms = 0
        self._runs.append(run)
        return run

    def _new_run(self, append_ms: int) -> StagedRun:
        # Named by the end before it: a crash may leave it empty, and its first batch may lie behind a gap.
        run = StagedRun(None, self.last + 1, 0, append_ms + self.roll_ms())
        run.snapshot = (self._producers or self.load_producers()).snapshot() if self.segments else b""
        self._runs.append(run)
        return run

    def roll_ms(self) -> int:
        """How old a segment gets before it is sealed."""
        return max(self.settings.roll_ms - self.jitter_ms, 1) if self.settings.roll_ms else 2**62

    def write_staged(self) -> None:
        """Writes everything staged: the batches with as few calls as can be, then their records.

        Raises StorageError: then nothing of it exists, on disk or in the producers' memory. After DiskFull or
        TooManyOpenFiles the log goes on taking writes; after anything else it is FAILED.
        """
        runs = self._runs
        if not runs:
            return
        if self.state is not _ACTIVE:  # since they were staged
            self.drop_staged()
            self._refuse()
        held = len(self.segments)
        size = self.size_bytes
        counts = self.segments[-1].count if held else 0
        try:
            for run in runs:
                if not run.records:
                    continue
                if run.segment is None:
                    run.segment = self.begin_segment(run.base, run.snapshot)
                total = run.end - run.start
                records = run.records
                run.segment.append(run.batches, total, records[0] if len(records) == 1 else b"".join(records))
                self.size_bytes += total
        except StorageError as error:
            self._undo_staged(error, held, counts)
            self.size_bytes = size
            raise
        self._runs = []
        self._producer_undo.clear()
        if not self.written:  # a log may begin anywhere
            self.log_start = max(self.log_start, self.segments[0].first)
        self.written = self.last
        self.changed = True

    def begin_segment(self, base: int, snapshot: bytes) -> Segment:
        if self.segments:
            active = self.segments[-1]
            if active.count == 0 and active.base == base:
                return active
            active.seal()
        segment = Segment(self.files, self.folder, base, 0, 0)
        fresh = not self.segments
        self.segments.append(segment)
        self.folder_dirty = True
        try:
            if fresh:
                self.disk.make_folders(self.folder)
            elif snapshot:
                write_file(self.disk, segment.path(PRODUCERS), snapshot, sync=False)
            segment.create()
        except (OSError, StorageError) as error:
            truncation.remove_segment(
                self, segment
            )  # its snapshot too: it tells of batches that will not exist
            raise storage_error(error, self.folder) from error
        segment.synced = False
        return segment

    def _undo_staged(self, error: StorageError, held: int, counts: int) -> None:
        """Makes it as if nothing had been staged."""
        self.drop_staged()
        try:
            while len(self.segments) > held:
                truncation.remove_segment(self, self.segments[-1])
            if held and self.segments[-1].count > counts:
                self.segments[-1].cut(counts)
        except StorageError as worse:
            error = worse
        if not isinstance(error, DiskFull | TooManyOpenFiles):
            self.fail(str(error))

    def drop_staged(self) -> None:
        """Forgets what was staged and not written."""
        if not self._runs:
            return
        self._runs = []
        for producer_id, before in reversed(self._producer_undo):
            assert self._producers is not None
            self._producers.undo(producer_id, before)
        self._producer_undo.clear()
        self.last, self._append_ms, self._max_timestamp_ms, epochs = self._before
        del self.epochs[epochs:]

    def took_over(self, newest: Record) -> None:
        """Batches up to this one were written as their leader has them."""
        self.last = self.written = newest.last
        self._append_ms, self._max_timestamp_ms = newest.append_ms, newest.max_timestamp_ms
        self._tail_loaded = True
        self.changed = True

    def fail(self, reason: str) -> None:
        """Stops taking writes, for good: after a failed fsync the page cache lies.

        A damaged log stays damaged: a failed one is still read.
        """
        if self.state is _ACTIVE:
            self.state, self.reason = LogState.FAILED, reason

    def damage(self, reason: str) -> None:
        """Stored batches are missing or wrong: nothing is written, cut or served until the log is mended."""
        if self.state is not LogState.CLOSED:
            self.state, self.reason = LogState.DAMAGED, reason
            self.changed = True

    def _refuse(self) -> NoReturn:
        if self.state is LogState.CLOSED:
            raise LogClosed("the partition was closed or deleted")
        if self.state is LogState.DAMAGED:
            raise LogDamaged(self.reason)
        raise LogFailed(self.reason)

    @property
    def producers_if_loaded(self) -> Producers | None:
        return self._producers

    def load_producers(self) -> Producers:
        """The producers' memory, from the newest snapshot and the records behind it. Raises StorageError."""
        if self._producers is None:
            self._producers = truncation.restore_producers(self, self.written + 1)
        return self._producers

    def forget(self) -> None:
        """Drops what was derived from the records: it is read anew when needed."""
        self._producers = None
        self._tail_loaded = False
        self.forget_cursors()

    def forget_cursors(self) -> None:
        self.cursors.clear()

    def load_tail(self) -> None:
        """Reads the newest record once: appends go on from its times."""
        if not self._tail_loaded:
            for segment in reversed(self.segments):
                if segment.count:
                    record = segment.index.record(segment.count - 1)
                    self._append_ms = record.append_ms
                    self._max_timestamp_ms = record.max_timestamp_ms
                    break
            self._tail_loaded = True
