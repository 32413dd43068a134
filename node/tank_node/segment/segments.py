"""The segments of one log, as they are in its folder."""

import os
from bisect import bisect_right
from collections.abc import Iterator

from tank_node.disk import Disk, write_file
from tank_node.segment import scrub, swap
from tank_node.segment.cursors import ReadCursors
from tank_node.segment.errors import DiskFailed, StorageError
from tank_node.segment.open_files import OpenFiles
from tank_node.segment.segment import LOG, PRODUCERS, Segment, storage_error


class Segments:
    """The segments of one log, the oldest first; only the last one grows. Empty until the first append. A
    part of `log.PartitionLog`."""

    __slots__ = (
        "changed", "compacted_through", "cursors", "disk", "epochs", "files", "folder", "folder_dirty",
        "list", "log_start", "size_bytes",
    )  # fmt: skip

    def __init__(self, files: OpenFiles, folder: str) -> None:
        self.files = files
        self.disk: Disk = files.disk
        self.folder = folder
        self.cursors = ReadCursors()
        self.list: list[Segment] = []
        self.size_bytes = 0
        """Bytes of the batches in all segments, without their records."""
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, the first number given out in it), rising. Numbers that an epoch left out belong to
        it. If two replicas have the same epoch at a number, their logs are the same up to there."""
        self.log_start = 0
        """Numbers below are not served, though a segment may still hold them."""
        self.compacted_through = 0
        """The number up to which sealed segments are compacted."""
        self.folder_dirty = False
        """Whether files were made or removed since the folder's last fsync."""
        self.changed = True
        """Whether the log's entry in the checkpoint is out of date."""

    def __len__(self) -> int:
        return len(self.list)

    def __getitem__(self, at: int) -> Segment:
        return self.list[at]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.list)

    # ---- what is there ----

    @property
    def folders(self) -> tuple[str, str, str]:
        """The log's folder, its topic's, and that of all topics."""
        topic = os.path.dirname(self.folder)
        return self.folder, topic, os.path.dirname(topic)

    @property
    def held(self) -> int:
        """The last number of the last batch; 0 when there is none. A log may end higher, in numbers that are
        lost or left out."""
        return next((segment.last for segment in reversed(self.list) if segment.count), 0)

    def find(self, number: int) -> tuple[Segment, int] | None:
        """The record that holds `number`, or the next record; None when there is none. Before it goes on in
        the next segment it checks the end of the segment before. Raises StorageError.
        """
        at = max(bisect_right(self.list, number, key=lambda s: s.base) - 1, 0)
        for segment in self.list[at:]:
            i = segment.index.containing(number)
            if i < segment.count:
                return segment, i
            segment.check_end()
            if segment.count:
                scrub.check_before_reading(segment, segment.count - 1, segment.count)
        return None

    def may_be_compacted_through(self) -> int:
        """The number up to which compaction may have removed batches because of later ones, here or at the
        leader they were copied from. It is read from the segments, because the checkpoint may be older."""
        through = self.compacted_through
        for at, segment in enumerate(self.list):
            is_last = at + 1 == len(self.list)
            if segment.is_rewritten or not (segment.count or is_last):
                through = max(through, segment.last if is_last else self.list[at + 1].base - 1)
        return through

    # ---- how they come and go ----

    def begin(self, base: int, snapshot: bytes) -> Segment:
        """Seals the last segment, and begins an empty one named `base`, with this snapshot of the producers.
        Raises StorageError, after which there is no new segment.
        """
        if self.list:
            active = self.list[-1]
            if active.count == 0 and active.base == base:
                return active
            active.seal()
        segment = Segment(self.files, self.folder, base, 0, 0)
        fresh = not self.list
        self.list.append(segment)
        self.folder_dirty = True
        try:
            if fresh:
                self.disk.make_folders(self.folder)
            elif snapshot:
                write_file(self.disk, segment.path(PRODUCERS), snapshot, sync=False)
            segment.create()
        except (OSError, StorageError) as error:
            self.remove(segment)  # with its snapshot
            raise storage_error(error, self.folder) from error
        segment.synced = False
        return segment

    def add(self, segment: Segment) -> None:
        """Adds a segment whose files exist."""
        self.list.append(segment)
        self.size_bytes += segment.size_bytes

    def replace(self, old: Segment, new: Segment) -> None:
        """Replaces a segment whose files another one's have replaced."""
        for file in old.files():
            self.files.forget(file)
        self.list[self.list.index(old)] = new
        self.size_bytes += new.size_bytes - old.size_bytes
        self.folder_dirty = True

    def remove(self, segment: Segment) -> None:
        """Deletes a segment and its files. Raises DiskFailed."""
        self.list.remove(segment)
        self.size_bytes -= segment.size_bytes
        self.folder_dirty = True
        self.cursors.clear()
        try:
            swap.remove(self.disk, self.folder, segment.base)
        except OSError as error:
            raise DiskFailed(f"cannot delete {segment.path(LOG)}: {error.strerror}") from error
        finally:  # after the names are removed: removing the name of an open file is quick
            for file in segment.files():
                self.files.forget(file)

    def forget(self) -> None:
        """Forgets all segments and keeps their files, which the caller reads anew, or removes together."""
        for segment in self.list:
            for file in segment.files():
                self.files.forget(file)
        self.list = []
        self.size_bytes = 0
        self.cursors.clear()

    def end_at_or_below(self, last: int) -> tuple[int, int, int]:
        """Where a cut ends that removes every batch ending above `last`: the log's last number then, the
        number of segments kept, and the number of batches kept in the last of them."""
        kept = sum(segment.base <= last + 1 for segment in self.list)
        if not kept:
            return last, 0, 0
        segment = self.list[kept - 1]
        keep = segment.index.containing(last + 1)
        return (segment.index.record(keep - 1).last if keep else segment.base - 1), kept, keep

    def cut(self, kept: int, keep: int) -> None:
        """Keeps the first `kept` segments, and `keep` batches of the last of these. Raises StorageError."""
        if len(self.list) > kept:
            while len(self.list) > kept:
                self.remove(self.list[-1])
            try:  # before the last one is cut: a power failure must not leave segments behind a hole
                self.disk.sync_folder(self.folder)
            except OSError as error:
                raise DiskFailed(f"cannot make {self.folder} durable: {error.strerror}") from error
        if kept:
            segment = self.list[-1]
            self.size_bytes -= segment.size_bytes
            segment.cut(keep)
            self.size_bytes += segment.size_bytes

    def drop_epochs_above(self, last: int) -> None:
        """Forgets the epochs that began above `last`."""
        while self.epochs and self.epochs[-1][1] > last:
            self.epochs.pop()

    def drop_oldest(self, count: int) -> None:
        """Removes the `count` oldest segments. The producers' snapshot of the first one kept must be durable.
        Raises StorageError."""
        self.log_start = max(self.log_start, self.list[count].base)
        for segment in self.list[:count]:
            self.remove(segment)
        # Keeps the epoch of the number before the first batch: pushes carry it, and followers compare it. The
        # log may start behind that, within a batch.
        held = [epoch for epoch in self.epochs if epoch[1] < self.list[0].base]
        del self.epochs[: max(len(held) - 1, 0)]
        self.changed = True

    def sync_names(self) -> None:
        """Makes the names of files that were made or removed durable. Raises OSError."""
        for folder in self.folders:
            self.disk.sync_folder(folder)
