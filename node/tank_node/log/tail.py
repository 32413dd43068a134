"""The growing end of a log: `stage` gives a batch its numbers and makes its record, `write` writes all
batches that a tick has staged, with few system calls.
"""

from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from tank_node.log.health import LogHealth, LogState
from tank_node.log.producer_table import ProducerTable
from tank_node.log.producers import ProducedBatch, ProducerState, ProducerVerdict
from tank_node.log.settings import MAX_SEGMENT_RECORDS, LogSettings
from tank_node.log.staged import BatchRun, ProducedRun, StagedRun
from tank_node.segment.errors import DiskFull, StorageError, TooManyOpenFiles
from tank_node.segment.record import CHECKED_HEAD, HEAD_BYTES, RECORD, SPARSE, Record
from tank_node.segment.segments import Segments

_pack: Final = RECORD.pack
_pack_head: Final = CHECKED_HEAD.pack
_ACTIVE: Final = LogState.ACTIVE


class Tail:
    """The end of a log; a part of `log.PartitionLog`.

    Invariants: written <= last; batches above `written` are only staged; dropping staged batches undoes all
    effects of staging.
    """

    __slots__ = (
        "_append_ms", "_before", "_health", "_loaded", "_max_timestamp_ms", "_producer_undo", "_producers",
        "_runs", "_segments", "jitter_ms", "last", "settings", "written",
    )  # fmt: skip

    def __init__(
        self, segments: Segments, producers: ProducerTable, health: LogHealth, settings: LogSettings
    ) -> None:
        self._segments = segments
        self._producers = producers
        self._health = health
        self.settings = settings
        self.jitter_ms = 0
        """Subtracted from `settings.roll_ms`; the data folder chooses it once per log."""
        self.last = 0
        """The last number given out, staged batches included; 0 when there never was one."""
        self.written = 0
        """The last number that is written to the files."""
        self._runs: list[StagedRun] = []
        self._before: tuple[int, int, int, int] = (0, 0, 0, 0)
        """`last`, the two times, and the number of epochs, before the first staged batch."""
        self._producer_undo: list[tuple[int, ProducerState | None]] = []
        self._append_ms = 0
        """The append time of the newest batch; it never falls."""
        self._max_timestamp_ms = 0
        self._loaded = False
        """Whether `_append_ms` and `_max_timestamp_ms` were read from the newest record."""

    # ---- staging ----

    def check_producer(self, producer_id: int, epoch: int, sequence: int, messages: int) -> ProducerVerdict:
        """Decides what to do with a batch of an idempotent producer, after all staged batches. Stages
        nothing. Raises StorageError, because the producers may have to be read from the disk."""
        producers = self._producers.loaded or self._producers.load(self.written)
        self._load()
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
        flags: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        producer_sequence: int = 0,
    ) -> tuple[int, int]:
        """Stages a checked batch for `write`. Returns its first and last number.

        first: the first number, above `last`; None: the next one. span: last number minus first.
        max_timestamp_ms: the greatest time of its messages; 0: unknown. flags: of its record; SPARSE when it
        carries its own numbers, as it must behind a gap. `batch` must not change until `write`. Raises
        StorageError, with nothing staged."""
        if self._health.state is not _ACTIVE:
            self._health.refuse()
        if not self._runs:
            self._begin()
        if producer_id and self._producers.loaded is None:
            self._producers.load(self.written)  # may fail, so it comes before any change
        number = self.last + 1
        if first is not None and first != number:
            if first < number or not flags & SPARSE:
                raise ValueError(f"batch at {first} cannot follow {self.last}")
            number = first
        if now_ms > self._append_ms:
            self._append_ms = now_ms
        append_ms = self._append_ms
        if (max_timestamp_ms or append_ms) > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms or append_ms
        max_timestamp_ms = self._max_timestamp_ms
        length = len(batch)
        run = self._run_for(length, append_ms)
        position = run.end
        record = _pack(
            number, span, 0, length, 0, append_ms, max_timestamp_ms, producer_id, producer_sequence,
            leader_epoch, producer_epoch, self.settings.format, flags, messages,
        )  # fmt: skip
        crc = crc32c(record, crc32c(batch))
        run.records.append(_pack_head(number, span, position, length, crc) + record[HEAD_BYTES:])
        run.batches.append(batch)
        run.count, run.end = run.count + 1, position + length
        self._begin_epoch(leader_epoch)
        self.last = last = number + span
        if producer_id:
            produced = ProducedBatch(producer_sequence, messages, number, span)
            self._remember(producer_id, producer_epoch, produced)
        return number, last

    def stage_run(
        self, found: BatchRun, *, leader_epoch: int, now_ms: int, produced: ProducedRun | None = None
    ) -> None:
        """Stages all batches of a run. Their bytes must not change until `write`. produced: the run, if it
        has an idempotent producer, and `check_producer` wants its first batch appended. Raises StorageError,
        with none of them staged.
        """
        if self._health.state is not _ACTIVE:
            self._health.refuse()
        if not self._runs:
            self._begin()
        if now_ms > self._append_ms:
            self._append_ms = now_ms
        append_ms = self._append_ms
        run = self._runs[-1] if self._runs else self._first_run(append_ms)
        if self._producers.loaded is None and (
            produced is not None or not run.has_room(found, self.settings, append_ms)
        ):
            # For a new segment, too; may fail, so it comes before any change.
            self._producers.load(self.written)
        self._begin_epoch(leader_epoch)
        start = 0
        while start < found.batches:
            rest = append_ms, self._max_timestamp_ms, leader_epoch, self.settings
            taken = run.take(found, start, self.last + 1, *rest)
            if taken is None:
                run = self._new_run(append_ms)
                continue
            first, number = start, self.last + 1
            start, self.last, self._max_timestamp_ms = taken
            if produced is not None:
                self._remember_run(produced, first, start, number)

    def _begin(self) -> None:
        self._load()
        self._before = (self.last, self._append_ms, self._max_timestamp_ms, len(self._segments.epochs))

    def _begin_epoch(self, leader_epoch: int) -> None:
        epochs = self._segments.epochs
        if not epochs or epochs[-1][0] != leader_epoch:
            epochs.append((leader_epoch, self.last + 1))

    def _remember(self, producer_id: int, epoch: int, produced: ProducedBatch) -> None:
        producers = self._producers.load(self.written)
        before = producers.append(producer_id, epoch, produced, self._append_ms)
        self._producer_undo.append((producer_id, before))

    def _remember_run(self, run: ProducedRun, start: int, stop: int, number: int) -> None:
        """Remembers the batches of a run from `start` to `stop` - 1, of which the first one got `number`."""
        producers = self._producers.load(self.written)
        batches = []
        for sequence, messages in run.produced(start, stop):
            batches.append(ProducedBatch(sequence, messages, number, messages - 1))
            number += messages
        before = producers.append_run(run.producer_id, run.producer_epoch, batches, self._append_ms)
        self._producer_undo.append((run.producer_id, before))

    def _run_for(self, length: int, append_ms: int) -> StagedRun:
        """The run for a batch of this length; a batch larger than a segment gets its own segment."""
        run = self._runs[-1] if self._runs else self._first_run(append_ms)
        full = run.end + length > self.settings.segment_bytes or run.count >= MAX_SEGMENT_RECORDS
        return self._new_run(append_ms) if (full or append_ms >= run.roll_at_ms) and run.end else run

    def _first_run(self, append_ms: int) -> StagedRun:
        segments = self._segments.list
        if not segments:
            return self._new_run(append_ms)
        active = segments[-1]
        began_ms = active.first_append_ms or append_ms
        run = StagedRun(active, active.base, active.size_bytes, began_ms + self.roll_ms())
        if run.count >= MAX_SEGMENT_RECORDS:
            run.roll_at_ms = 0
        self._runs.append(run)
        return run

    def _new_run(self, append_ms: int) -> StagedRun:
        # Named by the log's end before it, because a crash may leave it empty, and its first batch may be
        # behind a gap.
        run = StagedRun(None, self.last + 1, 0, append_ms + self.roll_ms())
        run.snapshot = self._producers.load(self.written).snapshot() if self._segments.list else b""
        self._runs.append(run)
        return run

    def roll_ms(self) -> int:
        """The age at which a segment is sealed."""
        return max(self.settings.roll_ms - self.jitter_ms, 1) if self.settings.roll_ms else 2**62

    # ---- writing ----

    def write(self) -> None:
        """Writes all staged batches, then their records. Raises StorageError, after which none of them
        exists, on the disk or in memory. After DiskFull and TooManyOpenFiles the log still takes writes;
        after other errors it is FAILED.
        """
        runs, segments = self._runs, self._segments
        if not runs:
            return
        if self._health.state is not _ACTIVE:  # it was when the batches were staged
            self.drop()
            self._health.refuse()
        held = len(segments.list)
        size = segments.size_bytes
        counts = segments.list[-1].count if held else 0
        try:
            for run in runs:
                if not run.records:
                    continue
                if run.segment is None:
                    run.segment = segments.begin(run.base, run.snapshot)
                total = run.end - run.start
                records = run.records
                run.segment.append(run.batches, total, records[0] if len(records) == 1 else b"".join(records))
                segments.size_bytes += total
        except StorageError as error:
            self._undo(error, held, counts)
            segments.size_bytes = size
            raise
        self._runs = []
        self._producer_undo.clear()
        if not self.written:  # a log may begin at any number
            segments.log_start = max(segments.log_start, segments.list[0].first)
        self.written = self.last
        segments.changed = True

    def _undo(self, error: StorageError, held: int, counts: int) -> None:
        """Undoes the staging and a partial write."""
        self.drop()
        segments = self._segments
        try:
            while len(segments.list) > held:
                segments.remove(segments.list[-1])
            if held and segments.list[-1].count > counts:
                segments.list[-1].cut(counts)
        except StorageError as worse:
            error = worse
        if not isinstance(error, DiskFull | TooManyOpenFiles):
            self._health.fail(str(error))

    def drop(self) -> None:
        """Drops the staged batches."""
        if not self._runs:
            return
        self._runs = []
        for producer_id, before in reversed(self._producer_undo):
            assert self._producers.loaded is not None
            self._producers.loaded.undo(producer_id, before)
        self._producer_undo.clear()
        self.last, self._append_ms, self._max_timestamp_ms, epochs = self._before
        del self._segments.epochs[epochs:]

    # ---- where the log ends ----

    def end_at(self, last: int) -> None:
        """Sets the log's end, after it was cut, emptied or opened: the next batch begins behind it."""
        self.last = self.written = last
        self._loaded = False

    def forget(self) -> None:
        """Forgets the newest record's times, before records change; they are read again when needed."""
        self._loaded = False

    def took_over(self, newest: Record) -> None:
        """Takes over the end and times of the newest record, after a follower wrote batches up to it."""
        self.last = self.written = newest.last
        self._append_ms, self._max_timestamp_ms = newest.append_ms, newest.max_timestamp_ms
        self._loaded = True
        self._segments.changed = True

    def _load(self) -> None:
        """Reads the newest record's times, once."""
        if not self._loaded:
            for segment in reversed(self._segments.list):
                if segment.count:
                    record = segment.index.record(segment.count - 1)
                    self._append_ms = record.append_ms
                    self._max_timestamp_ms = record.max_timestamp_ms
                    break
            self._loaded = True
