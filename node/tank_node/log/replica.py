"""A log as one of several copies: cut back, added to by its leader, dropped and copied anew.
`log.PartitionLog` is the whole."""

from collections.abc import Callable

from tank_node.log import compaction, pushed, refill, truncation
from tank_node.log.append import AppendableLog, LogState
from tank_node.log.errors import DiskFailed
from tank_node.log.flush_work import FlushWork
from tank_node.log.open_files import OpenFiles
from tank_node.log.segment import Segment
from tank_node.log.settings import LogSettings


class ReplicaLog(AppendableLog):
    """What changes a log but its own appends."""

    def __init__(
        self, files: OpenFiles, folder: str, topic_id: int, partition: int, settings: LogSettings
    ) -> None:
        super().__init__(files, folder, topic_id, partition, settings)
        self.flushing: FlushWork | None = None
        """The fsync round that is under way."""
        self.compaction: compaction.CompactionWork | None = None
        """The compaction that is under way."""
        self.before_truncation: Callable[[ReplicaLog, int], None] = _nothing
        """Called with the new end before anything is cut: the checkpoint must not promise more. The
        folder's."""
        self.before_refill: Callable[[ReplicaLog], None] = _nobody
        """Called before a damaged log is dropped or mended: the checkpoint must say that it was damaged. The
        folder's."""
        self.discard: Callable[[], None] = self._remove_folder
        """Makes the log's folder, with all that is in it, go at once; raises OSError. The folder's."""
        self.before_compaction: Callable[[ReplicaLog, int], None] = _nothing
        """Called before a compaction: the checkpoint must promise everything up to this number, or recovery
        takes the holes at the ends of segments for batches that a crash has lost. The folder's."""

    @property
    def held(self) -> int:
        """The last number that a batch has; 0: there is no batch. Behind it, up to `written`, a log may end
        in numbers that are given out and lost, or left out."""
        return next((segment.last for segment in reversed(self.segments) if segment.count), 0)

    def may_be_compacted_through(self) -> int:
        """Up to there compaction may have taken batches because of later ones, here or where they were copied
        from. The records know: the checkpoint may be older than a crash, and a copy has none."""
        through = self.compacted_through
        for at, segment in enumerate(self.segments):
            is_last = at + 1 == len(self.segments)
            if segment.is_rewritten or not (segment.count or is_last):
                through = max(through, segment.last if is_last else self.segments[at + 1].base - 1)
        return through

    # ---- as a leader ----

    def producers_before(self, number: int) -> bytes:
        """A snapshot of what is known of producers by the batches before the one that holds this number, for
        a follower that begins there; empty: nothing. Raises StorageError."""
        return truncation.snapshot_before(self, number)

    # ---- as a follower ----

    def append_stretch(self, stretch: pushed.Pushed, keep_through: int) -> None:
        """Stores what this log has not of a stretch that its leader pushed, which agrees with it up to its
        begin. Afterwards it has what the leader has, up to the stretch's last number.

        Where its own next batch differs from a pushed one it is truncated first, but never at or below
        `keep_through` (the high-water mark): then LogDiverged is raised. Raises that and BadRecord with
        nothing changed, and StorageError with a beginning of the stretch stored, or nothing.
        """
        if self.state is not LogState.ACTIVE:
            self._refuse()
        assert self.last == self.written, "a follower stages nothing"
        pushed.append_stretch(self, stretch, keep_through)

    def begin_anew(self, number: int, previous_epoch: int, producers: bytes = b"") -> None:
        """Drops everything, also what is damaged: the next batch comes at or behind `number`, which is the
        leader's log start; `previous_epoch` is of the number before, `producers` what the leader knew of
        them there (a snapshot), which no batch that is left may say. Unless it ends below that, it counts as
        damaged until it is copied (`refilled_through`). Raises StorageError."""
        if self.state not in (LogState.ACTIVE, LogState.DAMAGED):
            self._refuse()
        self._cancel_compaction()
        if self.state is LogState.DAMAGED or number <= self.written:
            # Also a whole one: a start in the middle would judge the copy by what the old one promised.
            self.refilling = True
            self.before_refill(self)
        refill.begin_anew(self, number, previous_epoch, producers)

    def retain_from(self, number: int) -> None:
        """Takes over the leader's log start: whole segments below it go, and nothing below it is served.
        Raises StorageError."""
        if self.state is LogState.ACTIVE:
            refill.retain_from(self, number)

    @property
    def is_impaired(self) -> bool:
        """Whether this replica has less than it was known to have: it is damaged, or was and is being copied
        anew. It must not lead, nor be in sync, and registration says so."""
        return self.state is LogState.DAMAGED or self.refilling

    def refilled_through(self, mark: int) -> None:
        """A high-water mark of the leader that was matched: a refill has done its work when it is synced up
        to there."""
        if self.refilling and self.state is LogState.ACTIVE and self.synced >= mark:
            self.refilling = False
            self.changed = True

    # ---- changing what is there ----

    def roll(self) -> None:
        """Seals the active segment: the next batch begins a new one, whose empty files exist from now on."""
        self.write_staged()
        if self.segments and self.segments[-1].count:
            snapshot = self.load_producers().snapshot()
            self.begin_segment(self.written + 1, snapshot)

    def truncate_to(self, last: int) -> None:
        """Drops every batch that ends above `last`; the log's last number is afterwards `last` or below it.

        Index first (fsynced), then log; the producers' memory and the epochs go back too. Raises
        StorageError.
        """
        self._cancel_compaction()
        truncation.truncate(self, last)

    def _cancel_compaction(self) -> None:
        """Before segments change under it. Raises StorageError."""
        if self.compaction is not None:
            try:
                self.compaction.cancel(self.disk)
            except OSError as error:
                raise DiskFailed(
                    f"cannot remove a compaction from {self.folder}: {error.strerror}"
                ) from error

    def _remove_folder(self) -> None:
        self.disk.remove_tree(self.folder)

    def drop_files(self) -> None:
        """Forgets all segments (not their files): they are about to be read anew."""
        self.drop_staged()
        for segment in self.segments:
            for file in segment.files():
                self.files.forget(file)
        self.segments = []
        self.size_bytes = 0
        self.forget()

    def add_segment(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.size_bytes += segment.size_bytes

    def begin_at(self, number: int) -> None:
        """Begins an empty segment: the next batch gets this number. Raises StorageError."""
        self.begin_segment(number, b"")

    def emptied(self, number: int, previous_epoch: int) -> None:
        """All files were removed: the log goes on at `number`. For `refill`."""
        self.state, self.reason = LogState.ACTIVE, ""
        self.last = self.written = number - 1
        self.synced = self.recovery_point = self.compacted_through = 0
        self.log_start = number
        self.high_water_mark = min(self.high_water_mark, number - 1)
        self.epochs = [(previous_epoch, number - 1)] if number > 1 else []
        if self.flushing is not None:
            self.flushing.void = True
        self.changed = True


def _nothing(log: ReplicaLog, last: int) -> None:
    """For a log without a data folder."""


def _nobody(log: ReplicaLog) -> None:
    """For a log without a data folder."""
