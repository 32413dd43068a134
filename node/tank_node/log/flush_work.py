"""What one fsync round does for one log: made on the event loop, run in a thread, finished on the loop."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tank_node.disk import Disk
from tank_node.log.errors import DiskFailed
from tank_node.log.open_files import OpenFile
from tank_node.log.segment import Segment

if TYPE_CHECKING:
    from tank_node.log.log import PartitionLog


TOGETHER_FROM = 16
"""From so many logs on, one `syncfs` serves them all. Measured here (ext4): 32 files 0.6 ms by syncfs and 3
ms in 8 threads, 512 files 8 and 56 ms. Below, fsyncs: syncfs also writes what other programs have left."""


class FlushWork:
    """The files of one log that were written since their last fsync. They are pinned until
    `PartitionLog.end_flush`."""

    __slots__ = ("error", "files", "folders", "log", "segments", "through", "void", "writes")

    def __init__(
        self, log: "PartitionLog", through: int, segments: list[Segment], folders: tuple[str, ...]
    ) -> None:
        self.log = log
        self.through = through
        """What will be durable: the last number written when the work was made. A truncation lowers it."""
        self.segments = segments
        self.folders = folders
        """Folders whose names changed, the deepest first."""
        self.files: list[OpenFile] = []
        self.writes: list[int] = []
        self.error: OSError | None = None
        """What went wrong; fatal for the log."""
        self.void = False
        """The files were dropped meanwhile, and their folder is another one: what became of them says nothing
        of the log."""

    def pin(self) -> None:
        """Opens and pins the dirty files. Raises StorageError, with nothing pinned, also when one of them
        lost something before."""
        try:
            for segment in self.segments:
                for file in segment.files():
                    if file.error is not None:  # of an fsync when it was closed: what it lost, no other finds
                        raise DiskFailed(f"{file.path}: {file.error}")
                    if file.dirty:
                        file.pin()
                        self.files.append(file)
                        self.writes.append(file.writes)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        for file in self.files:
            file.release()
        self.files = []

    def run(self, disk: Disk) -> None:
        """The fsyncs, in any thread. Never raises: `error` says what went wrong."""
        try:
            for file in self.files[1:]:
                disk.begin_sync(file.fd)  # the disk takes all of them together
            for file in self.files:
                disk.sync(file.fd)
            for folder in self.folders:
                disk.sync_folder(folder)
        except OSError as error:
            self.error = error

    def succeeded(self) -> None:
        """Marks as clean what was not written again meanwhile."""
        for file, writes in zip(self.files, self.writes, strict=True):
            if file.writes == writes:
                file.dirty = False
        for segment in self.segments:
            segment.synced = not any(file.dirty for file in segment.files())


def run_together(disk: Disk, works: Sequence[FlushWork]) -> None:
    """The fsyncs of several logs of one data folder, by the fastest way. In any thread; never raises."""
    if len(works) >= TOGETHER_FROM and works[0].log.files.sync_file_system():
        return
    for work in works:
        work.run(disk)
