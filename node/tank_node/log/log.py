"""One partition's log: append, read, find, truncate.

It has five parts: the `Segments` on the disk, the `Tail` that grows, the `ProducerTable`, the `ReadCursors`,
and its `LogHealth`. `tail.stage` numbers a batch and makes its record, `tail.write` writes all batches of a
tick, and the flusher makes them durable. Only the event loop's thread uses a log, but for `FlushWork.run`.

Invariant: first_available <= last + 1; synced <= written <= last. Batches above `written` are only staged.
"""

from collections.abc import Callable
from typing import Final

from tank_node.disk import Disk
from tank_node.log.cleaning.compaction import CompactionWork
from tank_node.log.flush_work import FlushWork
from tank_node.log.health import LogHealth, LogState
from tank_node.log.producer_table import ProducerTable
from tank_node.log.settings import LogSettings
from tank_node.log.tail import Tail
from tank_node.segment import scrub
from tank_node.segment.cursors import ReadCursors
from tank_node.segment.errors import DiskFailed, LogDamaged, LogFailed, StorageError
from tank_node.segment.open_files import OpenFiles
from tank_node.segment.reading import behind_rewritten, stretch_from
from tank_node.segment.segment import PRODUCERS, FileRange, Segment
from tank_node.segment.segments import Segments

__all__ = ["LogState", "PartitionLog"]

_DAMAGED: Final = LogState.DAMAGED
_CLOSED: Final = LogState.CLOSED


class PartitionLog:
    """The log of one replica. Made by `DataFolder.open_log`."""

    __slots__ = (
        "before_compaction", "before_refill", "before_truncation", "compact_after_ms", "compaction",
        "cursors", "discard", "flushing", "health", "high_water_mark", "partition", "producers",
        "scrub_place", "segments", "synced", "tail", "tombstones_due_ms", "topic_id",
    )  # fmt: skip

    def __init__(
        self, files: OpenFiles, folder: str, topic_id: int, partition: int, settings: LogSettings
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.segments = Segments(files, folder)
        self.cursors: ReadCursors = self.segments.cursors
        self.producers = ProducerTable(self.segments)
        self.health = LogHealth()
        self.tail = Tail(self.segments, self.producers, self.health, settings)
        self.synced = 0
        """The last number that survives a power failure: log and index are fsynced up to it."""
        self.high_water_mark = 0
        """The partition's high-water mark, set by the partition, for the checkpoint and for retention."""
        self.flushing: FlushWork | None = None
        """The fsync round under way."""
        self.compaction: CompactionWork | None = None
        """The compaction under way."""
        self.compact_after_ms = 0
        """The time before which no compaction begins."""
        self.tombstones_due_ms = 0
        """When the next tombstones may go, as the last compaction has seen; 0: not known."""
        self.scrub_place = scrub.ScrubPlace()
        self.before_truncation: Callable[[PartitionLog, int], None] = _nothing
        """Called with the new end before a truncation, so that the checkpoint promises no more. The data
        folder sets this callable and the next three."""
        self.before_refill: Callable[[PartitionLog], None] = _nothing_at_all
        """Called before a damaged log is emptied or mended, so that the checkpoint calls it damaged."""
        self.before_compaction: Callable[[PartitionLog, int], None] = _nothing
        """Called before a compaction, so that the checkpoint promises the log up to this number. Otherwise
        recovery would take missing numbers at the ends of segments for batches that a crash lost."""
        self.discard: Callable[[], None] = self._remove_folder
        """Deletes the log's folder at once; raises OSError."""

    # ---- what is there ----

    @property
    def disk(self) -> Disk:
        return self.segments.disk

    @property
    def folder(self) -> str:
        return self.segments.folder

    @property
    def settings(self) -> LogSettings:
        return self.tail.settings

    @property
    def state(self) -> LogState:
        return self.health.state

    @property
    def reason(self) -> str:
        """A sentence on why the log is FAILED or DAMAGED."""
        return self.health.reason

    @property
    def is_impaired(self) -> bool:
        """See `LogHealth.is_impaired`."""
        return self.health.is_impaired

    @property
    def last(self) -> int:
        """The last number given out, staged batches included; 0 when there never was one."""
        return self.tail.last

    @property
    def written(self) -> int:
        """The last number that is written to the files."""
        return self.tail.written

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """See `Segments.epochs`."""
        return self.segments.epochs

    @property
    def log_start(self) -> int:
        """See `Segments.log_start`."""
        return self.segments.log_start

    @property
    def size_bytes(self) -> int:
        """See `Segments.size_bytes`."""
        return self.segments.size_bytes

    @property
    def first_available(self) -> int:
        """The smallest number that can be read; 0 while the log has never held a message."""
        segments = self.segments
        if self.tail.written == 0 or not segments.list:
            return 0
        return max(segments.log_start, segments.list[0].base)

    @property
    def held(self) -> int:
        """See `Segments.held`."""
        return self.segments.held

    # ---- reading ----

    def read(self, number: int, max_bytes: int, through: int) -> FileRange | None:
        """Returns whole batches of one segment, from the one that holds `number` (or the next one) on: at
        least one, otherwise at most `max_bytes`, and none that begins above `through`. None when there is
        none.

        Batches of an earlier process are checked at their first read, in smaller pieces. The caller must
        release the file of the result. Raises LogDamaged for a damaged log, StorageError when the files can't
        be read.
        """
        state = self.health.state
        if state is _DAMAGED:
            raise LogDamaged(self.health.reason)
        written = self.tail.written
        if through > written:
            through = written
        if number > through or state is _CLOSED:
            return None
        segments = self.segments
        if number < segments.log_start:
            number = segments.log_start
        try:
            found = self.cursors.places.get(number)
            if found is None or found[1] >= found[0].index.count:
                # No cursor, or the log went on in the next segment.
                found = segments.find(number)
                if found is None:
                    return None
                behind = behind_rewritten(found[0], found[1], number)
                if behind:
                    number = behind
                    found = segments.find(number)
                    if found is None:
                        return None
            segment, i = found
            checked = i >= segment.inherited or scrub.is_checked(segment, i)
            if not checked:
                max_bytes = min(max_bytes, scrub.FIRST_READ_BYTES)
            taken = stretch_from(segment, i, max_bytes, through, written)
            if not checked:
                self._check(segment, number, i, taken)
        except LogDamaged as damage:
            self.spoiled(str(damage))
            raise
        if taken is None:
            return None
        self.cursors.remember(taken.last + 1, segment, taken.next_record)
        return taken

    def _check(self, segment: Segment, number: int, i: int, taken: FileRange | None) -> None:
        """Checks the batches that a read found. Also when it found none, checks the record from which that
        follows."""
        try:
            scrub.check_before_reading(segment, i, i + 1 if taken is None else taken.next_record, number)
        except StorageError:
            if taken is not None:
                taken.file.release()
            raise

    def find_time(self, timestamp_ms: int) -> tuple[int, int]:
        """The first batch whose running maximum of times is at or after `timestamp_ms`: (its first number,
        that maximum); (written + 1, 0) when there is none. Raises StorageError."""
        for segment in self.segments.list:
            i = segment.index.first_at_time(timestamp_ms)
            if i < segment.count:
                record = segment.index.record(i)
                return max(record.first, self.log_start), record.max_timestamp_ms
        return self.written + 1, 0

    def producers_before(self, number: int) -> bytes:
        """A snapshot of the producers of all batches before `number`, for a follower whose log begins there;
        empty when there are none. Raises StorageError."""
        return self.producers.snapshot_before(number)

    # ---- making it durable ----

    def begin_flush(self) -> FlushWork | None:
        """Begins an fsync round, for the flusher. Returns its work; None when there is none, or a round is
        under way."""
        segments, written = self.segments, self.tail.written
        if self.flushing is not None or self.health.state is not LogState.ACTIVE:
            return None  # a damaged log's end was not checked: an fsync proves nothing about it
        if self.synced == written and not segments.folder_dirty:
            return None
        folders = segments.folders if segments.folder_dirty else ()
        work = FlushWork(segments.files, written, [s for s in segments.list if not s.synced], folders)
        try:
            work.pin()
        except StorageError as error:
            work.error = OSError(str(error))
        segments.folder_dirty = False
        self.flushing = work
        return work

    def end_flush(self, work: FlushWork) -> None:
        """Ends an fsync round, on the event loop. An error makes the log FAILED, without a second try."""
        self.flushing = None
        segments = self.segments
        if work.error is not None and not work.void:
            segments.folder_dirty = segments.folder_dirty or bool(work.folders)
            self.fail(f"fsync failed: {work.error}")
        elif not work.void:
            work.succeeded()
            if work.through > self.synced:
                self.synced = work.through
                segments.changed = True
        work.release()

    def flush(self) -> None:
        """Makes everything written durable before it returns. Raises LogFailed when the disk refuses."""
        assert self.flushing is None, "an fsync round is under way"
        work = self.begin_flush()
        if work is not None:
            if work.error is None:
                work.run(self.disk)
            self.end_flush(work)
        if self.health.state is LogState.FAILED:
            raise LogFailed(self.reason)

    # ---- changing what is there ----

    def apply_settings(self, settings: LogSettings) -> None:
        """Applies new settings from the next batch and the next maintenance on."""
        self.tail.settings = settings

    def roll(self) -> None:
        """Seals the active segment, and makes an empty new one for the next batch."""
        self.tail.write()
        segments = self.segments
        if segments.list and segments.list[-1].count:
            snapshot = self.producers.load(self.written).snapshot()
            segments.begin(self.written + 1, snapshot)

    def truncate_to(self, last: int) -> None:
        """Removes every batch that ends above `last`, with its producers and epochs. The log's last number is
        `last` or lower afterwards. Raises StorageError.
        """
        self.cancel_compaction()
        self.tail.drop()
        if last >= self.written:
            return
        segments = self.segments
        end, kept, keep = segments.end_at_or_below(last)
        self.synced = min(self.synced, end)
        self.before_truncation(self, end)
        segments.cut(kept, keep)
        self._ended_at(end)
        # An empty log needs a segment that names its end, or numbers would begin again after a restart.
        # Behind a rewritten segment the next batch would need BREAK, where compaction removed the end: a new
        # segment begins.
        if end and (not kept or segments.list[-1].is_rewritten):
            segments.begin(end + 1, b"")

    def _ended_at(self, end: int) -> None:
        """Lowers all state in memory to the log's new end."""
        segments = self.segments
        self.tail.end_at(end)
        self.synced = min(self.synced, end)
        self.high_water_mark = min(self.high_water_mark, end)
        segments.log_start = min(segments.log_start, end + 1)
        segments.compacted_through = min(segments.compacted_through, end)
        if self.flushing is not None:  # the round under way covers no batch written behind the new end
            self.flushing.through = min(self.flushing.through, end)
        segments.drop_epochs_above(end)
        segments.cursors.clear()
        self.producers.forget()
        self.producers.drop_behind(end)
        segments.changed = True

    def cancel_compaction(self) -> None:
        """Cancels the compaction under way, before its segments change. Raises StorageError."""
        if self.compaction is not None:
            try:
                self.compaction.cancel(self.disk)
            except OSError as error:
                raise DiskFailed(
                    f"cannot remove a compaction from {self.folder}: {error.strerror}"
                ) from error

    def drop_oldest(self, count: int) -> None:
        """Removes the `count` oldest segments, after the snapshot of their producers is durable. Raises
        StorageError."""
        segments = self.segments
        kept = segments.list[count]
        try:
            self.producers.make_durable(kept.base)
            if segments.folder_dirty:
                # If the names of the kept files got lost, numbers would begin again.
                segments.disk.sync_folder(segments.folder)
        except OSError as error:
            raise StorageError(f"cannot sync {kept.path(PRODUCERS)}: {error.strerror}") from error
        if self.compaction is not None:
            self.compaction.drop(segments.list[:count])
        segments.drop_oldest(count)

    def retain_from(self, number: int) -> None:
        """Sets the log start to `number`, which may lie within a batch: removes whole segments below it, and
        serves no number below it. A lower number than the log start changes nothing. Raises StorageError."""
        segments = self.segments
        if self.health.state is not LogState.ACTIVE or number <= segments.log_start or not segments.list:
            return
        if number > self.written and segments.list[-1].count and self.last == self.written:
            self.roll()  # not while batches are staged: the partition writes them, and answers for them
        segments.log_start = max(segments.log_start, min(number, self.written + 1))
        self.drop_below_start()
        segments.cursors.clear()  # no cursor may be below the first available number
        segments.changed = True

    def drop_below_start(self) -> None:
        """Removes the segments wholly below the log start. Raises StorageError."""
        segments = self.segments
        gone = 0
        for following in segments.list[1:]:
            if following.base > segments.log_start:
                break
            gone += 1
        if gone:
            self.drop_oldest(gone)

    @property
    def first_batch(self) -> int:
        """The first number of the batch that holds the log start, or the log start itself where no batch does
        or the index can't be read. Copies of the log begin here, since batches are copied whole."""
        start = self.first_available
        for segment in self.segments.list:
            try:
                i = segment.index.containing(start)
                if i < segment.count:
                    return min(segment.index.record(i).first, start)
            except StorageError:
                break
        return start

    # ---- copied anew ----

    def emptied(self, number: int, previous_epoch: int) -> None:
        """Resets the state for an empty log that goes on at `number`. For `refill`, after all files were
        removed."""
        segments = self.segments
        self.tail.end_at(number - 1)
        self.synced = self.health.recovery_point = segments.compacted_through = 0
        segments.log_start = number
        self.high_water_mark = min(self.high_water_mark, number - 1)
        segments.epochs = [(previous_epoch, number - 1)] if number > 1 else []
        if self.flushing is not None:
            self.flushing.void = True
        segments.changed = True

    def refilled_through(self, mark: int) -> None:
        """Ends a refill when the log is synced up to `mark`, a high-water mark of the leader that it has
        matched."""
        health = self.health
        if health.refilling and health.state is LogState.ACTIVE and self.synced >= mark:
            self.end_refill()

    def end_refill(self) -> None:
        """Marks the log as whole: its copy is complete, or no other replica has more."""
        self.health.refilling = False
        self.segments.changed = True

    def forget_files(self) -> None:
        """Forgets all segments and the state derived from them, and keeps the files, which the caller reads
        anew or removes."""
        self.tail.drop()
        self.tail.forget()
        self.segments.forget()
        self.producers.forget()

    # ---- trouble ----

    def fail(self, reason: str) -> None:
        """See `LogHealth.fail`."""
        self.health.fail(reason)

    def damage(self, reason: str) -> None:
        """Makes the log DAMAGED, because stored batches are missing or wrong: nothing is written, cut or
        served until it is mended or refilled."""
        health = self.health
        if health.state is not LogState.CLOSED:
            health.state, health.reason = LogState.DAMAGED, reason
            self.segments.changed = True

    def spoiled(self, reason: str) -> None:
        """Makes the log DAMAGED, because batches went bad while it was in use. All its numbers count as given
        out."""
        self.health.recovery_point = self.written
        self.damage(reason)

    def scrub(self, max_bytes: int) -> scrub.Scrubbed:
        """Checks about `max_bytes` of stored batches, beginning where the last call ended. A bad batch makes
        the log DAMAGED. Raises DiskFailed when the files can't be read.
        """
        try:
            done = scrub.scrub(self.segments.list, self.scrub_place, max_bytes)
        except LogDamaged as damage:
            done = scrub.Scrubbed(0, str(damage), wrapped=False)
        if done.bad:
            self.spoiled(done.bad)
        return done

    # ---- its end ----

    def abandon(self) -> None:
        """Closes the files of a deleted partition without an fsync. For the data folder."""
        self.health.end("the partition was deleted")
        self.tail.drop()
        self.segments.forget()
        self.tail.end_at(0)
        self.synced = 0

    def close(self) -> None:
        """Syncs the log, writes a snapshot of the producers, and ends all writes. For the data folder. Raises
        StorageError."""
        health = self.health
        if health.state is LogState.CLOSED:
            return
        try:
            self.tail.write()
            if health.state is not LogState.DAMAGED:
                self.flush()
                self.producers.store_at(self.written)
        finally:
            for segment in self.segments.list:
                segment.seal()
            if health.state is not LogState.DAMAGED:  # stays DAMAGED, so that the last checkpoint says so
                health.end("the node stops")

    def _remove_folder(self) -> None:
        self.disk.remove_tree(self.folder)


def _nothing(log: PartitionLog, last: int) -> None:
    """`before_truncation` and `before_compaction` without a data folder."""


def _nothing_at_all(log: PartitionLog) -> None:
    """`before_refill` without a data folder."""
