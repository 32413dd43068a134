"""Files opened on demand, and a bound on how many stay open: 10,000 partitions have 20,000 files.

A file is opened at its first use. Beyond the bound the least recently used files are closed; a file pinned by
a read or by a running fsync stays open.
"""

import errno
import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from tank_node.disk import Disk
from tank_node.segment.errors import DiskFailed, StorageError, TooManyOpenFiles


def open_error(error: OSError, path: str) -> StorageError:
    """The StorageError for an OSError at opening or reading a file or folder."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return TooManyOpenFiles(f"no file descriptor left for {path}; raise the limit (ulimit -n)")
    return DiskFailed(f"cannot open or read {path}: {error.strerror}")


class OpenFile:
    """A file of a log, open or closed. Made by `OpenFiles.file`; `fd` is valid while the file is pinned."""

    __slots__ = ("deleted", "dirty", "error", "fd", "files", "path", "pins", "unreadable", "writes")

    def __init__(self, files: "OpenFiles", path: str) -> None:
        self.files = files
        self.path = path
        self.fd = -1
        """The descriptor; -1 while closed."""
        self.pins = 0
        """Number of users of `fd`: reads under way, and a running fsync."""
        self.dirty = False
        """Whether it was written since its last fsync. A dirty file is synced before it is closed: otherwise
        a late error of the disk could be lost."""
        self.deleted = False
        """Whether it was deleted; it closes with its last pin."""
        self.writes = 0
        """Number of changes; an fsync covers those made before it began."""
        self.error: OSError | None = None
        """The error of an fsync at closing, which is fatal for the file's log."""
        self.unreadable = False
        """Whether sending bytes of it failed. Pushes then read it into memory first, so that an error
        concerns its partition, and not a connection that many partitions share."""

    def pin(self) -> int:
        """Opens the file if necessary, and keeps it open until `release`. Raises StorageError."""
        fd = self.files.use(self)
        self.pins += 1
        return fd

    def sync(self) -> None:
        """Syncs the file before it returns. Raises OSError and StorageError."""
        self.files.disk.sync(self.files.use(self))
        self.dirty = False

    def release(self) -> None:
        self.pins -= 1
        assert self.pins >= 0, "released more often than pinned"
        if self.deleted and self.pins == 0:
            self.files.close(self)


class OpenFiles:
    """All open files of a data folder, the least recently used first.

    Beyond `limit` open files, the least recently used ones without a pin are closed.
    """

    def __init__(self, disk: Disk, limit: int) -> None:
        assert limit >= 2, "a log needs two files at once"
        self.disk = disk
        self.limit = limit
        self._open: OrderedDict[OpenFile, None] = OrderedDict()
        self.opened_total = 0
        self.anchor_fd = -1
        """A descriptor on the same file system, opened before anything was written: `syncfs` on it reports
        all errors since then. -1: there is none."""
        self._file_system = threading.Lock()
        """Lets one `syncfs` run at a time: of two at once only one would get an error."""
        self._file_system_failed = False
        self.close_deleted: Callable[[int], None] = disk.close
        """Closes the descriptor of a deleted file. The system frees the file's blocks then, which takes
        milliseconds for a large one: a thread may do it."""

    def __len__(self) -> int:
        return len(self._open)

    def sync_file_system(self) -> bool:
        """Makes all written files durable at once, in any thread. Returns False when each file must be synced
        itself.

        The system reports an error once, and not the file. So after the first error this always returns
        False: the lost bytes may belong to a log that is synced later.
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
        """Returns the file's descriptor, valid until another file is used; `pin` keeps it. Raises
        StorageError."""
        if file.fd >= 0:
            self._open.move_to_end(file)
            return file.fd
        if len(self._open) >= self.limit:
            self._close_unused(len(self._open) - self.limit + 1)
        try:
            file.fd = self._open_file(file.path, create)
        except FileNotFoundError as error:
            raise StorageError(f"the file {file.path} is missing") from error
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
        """Closes a file without a pin, after an fsync when it is dirty. A second call does nothing."""
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
        """Drops a deleted file: no fsync, and it closes with its last pin."""
        file.dirty = False
        file.deleted = True
        if file.pins == 0:
            self.close(file)

    def close_all(self) -> None:
        """Closes all files, pinned or not, when the process ends."""
        for file in list(self._open):
            self.close(file)
