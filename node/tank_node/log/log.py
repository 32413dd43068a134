"""One partition's log: append, read, find, truncate. The rooms above use this class and `DataFolder`.

Used from one thread, the event loop's; only `FlushWork.run` goes elsewhere. A batch's way: `stage` numbers it
and makes its record, `write_staged` puts everything staged in a tick into the files, the flusher makes it
durable.

Invariant: first_available <= last + 1; synced <= written <= last; batches above `written` are staged only and
nobody but the producers' memory sees them.
"""

import contextlib
import logging
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Protocol

from tank_node.log import compaction, maintenance, mend, recovery, scrub, truncation
from tank_node.log.append import LogState
from tank_node.log.errors import LogDamaged, LogFailed, StorageError
from tank_node.log.flush_work import FlushWork
from tank_node.log.open_files import OpenFiles
from tank_node.log.reading import behind_rewritten, stretch_from
from tank_node.log.replica import ReplicaLog
from tank_node.log.segment import Segment, Stretch
from tank_node.log.settings import LogSettings

__all__ = ["LogState", "PartitionLog"]

logger = logging.getLogger(__name__)

_DAMAGED: Final = LogState.DAMAGED
_CLOSED: Final = LogState.CLOSED

_CURSORS: Final = 256
"""Places in one partition that are remembered, for consumers that read on from there."""


class Background(Protocol):
    """Does long work in a thread, one at a time, then a function on the loop: `flusher.Flusher`."""

    def run_long(
        self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]
    ) -> None: ...


class PartitionLog(ReplicaLog):
    """The batches of one partition on one replica. Made by `DataFolder.open_log`."""

    def __init__(
        self, files: OpenFiles, folder: str, topic_id: int, partition: int, settings: LogSettings
    ) -> None:
        super().__init__(files, folder, topic_id, partition, settings)
        self.compact_after_ms = 0
        """No compaction begins before."""
        self.scrub_place = scrub.ScrubPlace()

    # ---- reading ----

    def read(self, number: int, max_bytes: int, through: int) -> Stretch | None:
        """Whole batches from the one that holds `number` (or the next that exists); None when there is none.

        None begins above `through`; at least one, however long, else at most `max_bytes`; never over the end
        of a segment, nor over a hole when the batch behind it does not carry its numbers. What an earlier
        process wrote is checked when it is first read, in smaller pieces. The stretch's file must be
        released. Raises LogDamaged for a damaged log, StorageError when the files cannot be opened or read.
        """
        state = self.state
        if state is _DAMAGED:
            raise LogDamaged(self.reason)
        written = self.written
        if through > written:
            through = written
        if number > through or state is _CLOSED:
            return None
        if number < self.log_start:
            number = self.log_start
        cursors = self.cursors
        try:
            found = cursors.get(number)
            if found is None or found[1] >= found[0].index.count:
                # No cursor, or the log went on in the next segment.
                found = self._find(number)
                if found is None:
                    return None
                behind = behind_rewritten(found[0], found[1], number)
                if behind:
                    number = behind
                    found = self._find(number)
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
        if len(cursors) >= _CURSORS:
            del cursors[next(iter(cursors))]
        cursors[taken.last + 1] = (segment, taken.next_record)
        return taken

    def remember_place(self, number: int, segment: Segment, i: int) -> None:
        """A read that begins at this number finds record `i` there; for those who read in another way."""
        cursors = self.cursors
        if len(cursors) >= _CURSORS:
            del cursors[next(iter(cursors))]
        cursors[number] = (segment, i)

    def _check(self, segment: Segment, number: int, i: int, taken: Stretch | None) -> None:
        """Nothing found is believed only when the record that says so is good."""
        try:
            scrub.check_before_reading(segment, i, i + 1 if taken is None else taken.next_record, number)
        except StorageError:
            if taken is not None:
                taken.file.release()
            raise

    def _find(self, number: int) -> tuple[Segment, int] | None:
        """The record that holds `number`, or the next one that exists."""
        segments = self.segments
        at = max(bisect_right(segments, number, key=lambda s: s.base) - 1, 0)
        for segment in segments[at:]:
            i = segment.index.containing(number)
            if i < segment.count:
                return segment, i
            segment.check_end()
            if segment.count:
                scrub.check_before_reading(segment, segment.count - 1, segment.count)
        return None

    def find_time(self, timestamp_ms: int) -> tuple[int, int]:
        """(first number, greatest time up to its end) of the first batch that has, or follows, a message at
        or after the time; (written + 1, 0) when there is none. Raises StorageError."""
        for segment in self.segments:
            i = segment.index.first_at_time(timestamp_ms)
            if i < segment.count:
                record = segment.index.record(i)
                return max(record.first, self.log_start), record.max_timestamp_ms
        return self.written + 1, 0

    # ---- making it durable ----

    def begin_flush(self) -> FlushWork | None:
        """What an fsync round has to do for this log; None when nothing, or one is under way. For the
        flusher."""
        if self.flushing is not None or self.state is not LogState.ACTIVE:
            return None  # an fsync makes nothing of a damaged one sure: its end was checked by nobody
        if self.synced == self.written and not self.folder_dirty:
            return None
        folders = self.folders if self.folder_dirty else ()
        work = FlushWork(self, self.written, [s for s in self.segments if not s.synced], folders)
        try:
            work.pin()
        except StorageError as error:
            work.error = OSError(str(error))
        self.folder_dirty = False
        self.flushing = work
        return work

    def end_flush(self, work: FlushWork) -> None:
        """Takes over what the round did, on the loop. An error makes the log FAILED: it never retries."""
        self.flushing = None
        if work.error is not None and not work.void:
            self.folder_dirty = self.folder_dirty or bool(work.folders)
            self.fail(f"fsync failed: {work.error}")
        elif not work.void:
            work.succeeded()
            if work.through > self.synced:
                self.synced = work.through
                self.changed = True
        work.release()

    def flush(self) -> None:
        """Makes everything written durable, here and now. Raises LogFailed when the disk refuses."""
        assert self.flushing is None, "an fsync round is under way"
        work = self.begin_flush()
        if work is not None:
            if work.error is None:
                work.run(self.disk)
            self.end_flush(work)
        if self.state is LogState.FAILED:
            raise LogFailed(self.reason)

    # ---- changing what is there ----

    def apply_settings(self, settings: LogSettings) -> None:
        """Takes new settings; they hold from the next batch, and the next `maintain`, on."""
        self.settings = settings

    # ---- from time to time ----

    def maintain(
        self, now_ms: int, high_water_mark: int, flusher: Background | None = None, *, retain: bool = True
    ) -> None:
        """Rolling by age, retention, compaction (in the flusher's thread; here when there is none), mending.

        For the broker's timer, every few seconds. Nothing above `high_water_mark` goes. `retain`: whether
        this replica leads; a follower cuts where its leader did (`retain_from`). Raises StorageError.
        """
        self.high_water_mark = max(self.high_water_mark, high_water_mark)
        if self.state is LogState.DAMAGED and self.settings.replication_factor == 1:
            maintenance.mend_if_alone(self, now_ms)
        if self.state is not LogState.ACTIVE:
            return
        maintenance.roll_by_age(self, now_ms)
        if retain:
            maintenance.apply_retention(self, now_ms, high_water_mark)
        if self.settings.compact and self.compaction is None and now_ms >= self.compact_after_ms:
            work = compaction.plan(self, min(high_water_mark, self.synced))
            if work is not None:
                self.compact_after_ms = now_ms + compaction.RETRY_MS
                self.before_compaction(self, work.through)
                self.compaction = work
                if flusher is None:
                    work.run(self.disk)
                    self.end_compaction(work)
                else:
                    flusher.run_long(
                        lambda: work.run(self.disk),
                        lambda: self.end_compaction(work),
                        lambda: work.cancel(self.disk),
                    )

    def end_compaction(self, work: compaction.CompactionWork) -> None:
        """Puts the results of a compaction in place, on the loop."""
        self.compaction = None
        if self.state is not LogState.ACTIVE:
            with contextlib.suppress(OSError):  # a deleted topic's folder is gone
                work.cancel(self.disk)
        compaction.finish(self, work, logger.error)

    def scrub(self, max_bytes: int) -> scrub.Scrubbed:
        """Checks about so many stored bytes, going on where the last call ended. A bad batch makes the log
        DAMAGED.

        Raises DiskFailed when the files cannot be read.
        """
        try:
            done = scrub.scrub(self, self.scrub_place, max_bytes)
        except LogDamaged as damage:
            done = scrub.Scrubbed(0, str(damage), wrapped=False)
        if done.bad:
            self.spoiled(done.bad)
        return done

    def spoiled(self, reason: str) -> None:
        """Stored batches went bad while the log was in use: it is DAMAGED; what was promised stays
        promised."""
        self.recovery_point = self.written
        self.damage(reason)

    # ---- its life ----

    def abandon(self) -> None:
        """The partition is deleted: closes its files without a word to the disk. For the data folder."""
        self.state, self.reason = LogState.CLOSED, "the partition was deleted"
        self.drop_staged()
        for segment in self.segments:
            for file in segment.files():
                self.files.forget(file)
        self.segments = []
        self.written = self.last = self.synced = 0

    def close(self) -> None:
        """Syncs, snapshots the producers and takes nothing any more. Raises StorageError; for the data
        folder."""
        if self.state is LogState.CLOSED:
            return
        try:
            self.write_staged()
            if self.state is not LogState.DAMAGED:
                self.flush()
                truncation.snapshot_producers(self)
        finally:
            for segment in self.segments:
                segment.seal()
            if self.state is not LogState.DAMAGED:  # the last checkpoint has to say it
                self.state, self.reason = LogState.CLOSED, "the node stops"

    def mend(self, now_ms: int, leader_epoch: int | None = None) -> mend.Mended:
        """Makes a DAMAGED log ACTIVE with what is left of it: good batches stay, bad ones become holes.

        For replication factor 1, and (with its leader epoch) for the replica that a lossy election chose:
        what is behind the first loss is of that epoch then, and numbers behind the last batch that is left
        are given again. Reads everything, and blocks. Raises StorageError; the log is then damaged as before,
        or has lost the numbers at its end, too.
        """
        self._cancel_compaction()
        newest = self.epochs[-1][0] if self.epochs else 0
        parts = leader_epoch is not None and leader_epoch > newest
        epoch = max(newest, leader_epoch or 0)
        self.before_refill(self)  # the holes that it leaves are above what was promised
        mended = mend.mend(self, self.recovery_point, epoch, now_ms, parts=parts)
        if leader_epoch is not None:
            mend.end_with_a_batch(self)
        return mended

    def take_over(self, last: int) -> None:
        """The log goes on behind `last`, after its files were mended and synced. Raises StorageError."""
        recovery.take_over(self, last, None)
        self.state, self.reason = LogState.ACTIVE, ""
