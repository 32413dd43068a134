"""Files opened on demand, and a bound on how many stay open.

10,000 partitions with two files each would be 20,000 descriptors. Here a file is opened when it is first used
and closed when others were used since; only files pinned by a reader in `sendfile` or by a running fsync stay
open whatever happens.
"""

import errno
import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from tank_node.disk import Disk
from tank_node.log.errors import DiskFailed, StorageError, TooManyOpenFiles


def open_error(error: OSError, path: str) -> StorageError:
    """The typed error for a file or folder that could not be opened, or not be read after that."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return TooManyOpenFiles(f"no file descriptor left for {path}; raise the limit (ulimit -n)")
    return DiskFailed(f"cannot open or read {path}: {error.strerror}")


class OpenFile:
    """One file that is open, was open or will be open. Made by `OpenFiles.file`; `fd` is valid while
    pinned."""

    __slots__ = ("deleted", "dirty", "error", "fd", "files", "path", "pins", "unreadable", "writes")

    def __init__(self, files: "OpenFiles", path: str) -> None:
        self.files = files
        self.path = path
        self.fd = -1
        """The descriptor; -1 while closed."""
        self.pins = 0
        """Who needs `fd` to stay open: reads in flight, and a running fsync."""
        self.dirty = False
        """Written since its last successful fsync. Such a file is synced before it is closed, because an
        error that the disk reports later may otherwise reach nobody."""
        self.deleted = False
        """Nobody needs it any more: it closes with its last pin."""
        self.writes = 0
        """Counts changes: an fsync covers those that it saw."""
        self.error: OSError | None = None
        """What an fsync on closing said. It is fatal for the log that the file belongs to."""
        self.unreadable = False
        """Bytes of it could not be sent: what followers get of it is read into memory first, where the error
        meets its partition and not the connection of all."""

    def pin(self) -> int:
        """Opens the file where needed and keeps it open until `release`. Raises StorageError."""
        fd = self.files.use(self)
        self.pins += 1
        return fd

    def sync(self) -> None:
        """An fsync, here and now. Raises OSError and StorageError."""
        self.files.disk.sync(self.files.use(self))
        self.dirty = False

    def release(self) -> None:
        self.pins -= 1
        assert self.pins >= 0, "released more often than pinned"
        if self.deleted and self.pins == 0:
            self.files.close(self)


class OpenFiles:
    """All open files of a data folder, the longest unused first.

    `limit` bounds those that nobody pins: beyond it, the ones unused for longest are closed.
    """

    def __init__(self, disk: Disk, limit: int) -> None:
        assert limit >= 2, "a log needs two files at once"
        self.disk = disk
        self.limit = limit
        self._open: OrderedDict[OpenFile, None] = OrderedDict()
        self.opened_total = 0
        self.anchor_fd = -1
        """A descriptor on the same file system, open since before anything was written: `syncfs` tells errors
        since then. -1: none."""
        self._file_system = threading.Lock()
        """One `syncfs` at a time: the system tells an error to one of two that run together."""
        self._file_system_failed = False
        self.close_deleted: Callable[[int], None] = disk.close
        """Closes the descriptor of a deleted file. That is when the system frees its memory and its blocks,
        milliseconds for a large one: a thread may do it."""

    def __len__(self) -> int:
        return len(self._open)

    def sync_file_system(self) -> bool:
        """Makes everything written durable at once. False: it did not, each file has to be synced itself.

        In any thread. The system tells each error once, and not whose it is. So from the first one on only
        the files' own fsyncs are believed: the lost bytes may belong to a log that asks later.
        """
        with self._file_system:
            if self.anchor_fd < 0 or self._file_system_failed:
                return False
            try:
                return self.disk.sync_file_system(self.anchor_fd)
            except OSError:
                self._file_system_failed = True
                return False

    def file(self, path: str) -> OpenFile:
        return OpenFile(self, path)

    def use(self, file: OpenFile, *, create: bool = False) -> int:
        """The file's descriptor, valid until another file is used (pin it to keep it). Raises
        StorageError."""
        if file.fd >= 0:
            self._open.move_to_end(file)
            return file.fd
        if len(self._open) >= self.limit:
            self._close_unused(len(self._open) - self.limit + 1)
        try:
            file.fd = self._open_file(file.path, create)
        except FileNotFoundError as error:
            raise StorageError(f"the file {file.path} is gone") from error
        except OSError as error:
            raise open_error(error, file.path) from error
        self.opened_total += 1
        self._open[file] = None
        return file.fd

    def _open_file(self, path: str, create: bool) -> int:
        for attempt in (1, 2):
            try:
                return self.disk.open(path, create=create)
            except OSError as error:
                if attempt == 2 or error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
            self._close_unused(max(len(self._open) // 2, 1))
        raise AssertionError("unreachable")

    def _close_unused(self, count: int) -> None:
        for file in list(islice((f for f in self._open if f.pins == 0), count)):
            self.close(file)

    def close(self, file: OpenFile) -> None:
        """Closes a file that nobody pins, after an fsync when it is dirty; a second call does nothing."""
        if file.fd < 0:
            return
        if file.dirty:
            try:
                self.disk.sync(file.fd)
                file.dirty = False
            except OSError as error:
                file.error = error
        fd, file.fd = file.fd, -1
        self._open.pop(file, None)
        if file.deleted:
            self.close_deleted(fd)
        else:
            self.disk.close(fd)

    def forget(self, file: OpenFile) -> None:
        """For a file that was deleted: nothing of it needs to be kept, and it closes with its last pin's
        end."""
        file.dirty = False
        file.deleted = True
        if file.pins == 0:
            self.close(file)

    def close_all(self) -> None:
        """Closes everything, pinned or not (the process ends)."""
        for file in list(self._open):
            self.close(file)
