"""The fsyncs of one round for one log: made on the event loop, run in a thread, finished on the loop."""

from collections.abc import Sequence

from tank_node.disk import Disk
from tank_node.segment.errors import DiskFailed
from tank_node.segment.open_files import OpenFile, OpenFiles
from tank_node.segment.segment import Segment

TOGETHER_FROM = 16
"""The number of logs from which on one `syncfs` replaces their fsyncs. On ext4 32 files took 0.6 ms by syncfs
and 3 ms in 8 threads, 512 files 8 and 56 ms. For fewer logs fsyncs are better: syncfs also writes other
programs' files."""


class FlushWork:
    """The files of one log that were written since their last fsync. They are pinned until
    `PartitionLog.end_flush`."""

    __slots__ = ("error", "files", "folders", "open_files", "segments", "through", "void", "writes")

    def __init__(
        self, open_files: OpenFiles, through: int, segments: list[Segment], folders: tuple[str, ...]
    ) -> None:
        self.open_files = open_files
        self.through = through
        """The last number that the round makes durable. A truncation lowers it."""
        self.segments = segments
        self.folders = folders
        """Folders whose names changed, the deepest first."""
        self.files: list[OpenFile] = []
        self.writes: list[int] = []
        self.error: OSError | None = None
        """An error of an fsync, which is fatal for the log."""
        self.void = False
        """Whether the log's files were replaced meanwhile, so that the round's result doesn't concern the
        log."""

    def pin(self) -> None:
        """Opens and pins the dirty files. Raises StorageError, with nothing pinned; also when a file's fsync
        failed earlier, as it was closed."""
        try:
            for segment in self.segments:
                for file in segment.files():
                    if file.error is not None:  # another fsync would not report this error again
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
        """Runs the fsyncs, in any thread. Never raises, but sets `error`."""
        try:
            for file in self.files[1:]:
                disk.begin_sync(file.fd)  # so that the disk writes all files at once
            for file in self.files:
                disk.sync(file.fd)
            for folder in self.folders:
                disk.sync_folder(folder)
        except OSError as error:
            self.error = error

    def succeeded(self) -> None:
        """Marks the files as clean that were not written again meanwhile."""
        for file, writes in zip(self.files, self.writes, strict=True):
            if file.writes == writes:
                file.dirty = False
        for segment in self.segments:
            segment.synced = not any(file.dirty for file in segment.files())


def run_together(disk: Disk, works: Sequence[FlushWork]) -> None:
    """Runs the fsyncs of several logs of one data folder in the fastest way, in any thread. Never raises."""
    if len(works) >= TOGETHER_FROM and works[0].open_files.sync_file_system():
        return
    for work in works:
        work.run(disk)
