"""The file operations of the controller's log: an interface of few calls, so that tests can inject
failures.
"""

import ctypes
import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol

AHEAD_BYTES = 128 * 1024
"""The bytes that an open file allocates in advance: enough to delete thousands of topics while the disk is
full.
"""

_KEEP_SIZE = 1
_libc = ctypes.CDLL(None, use_errno=True)


class AppendFile(Protocol):
    """A file that is written at its end. All methods raise OSError as the system does."""

    def write(self, data: bytes) -> None:
        """Writes all of the data, or raises; then the file may have a part of it."""

    def sync(self) -> None:
        """Returns when everything written is on the disk."""

    def truncate(self, length: int) -> None:
        """Cuts the file; the next write goes to its new end."""

    def close(self) -> None: ...


class Files(Protocol):
    """The files of a folder."""

    def names(self, folder: Path) -> list[str]:
        """The names in the folder. Makes the folder, durably, when it is missing; its parents must exist."""

    def make_names_durable(self, folder: Path) -> None:
        """Returns when the folder's present names would survive a loss of power."""

    def read(self, path: Path) -> bytes: ...

    def replace(self, path: Path, content: bytes) -> None:
        """Creates or replaces a file: completely or not at all, durable when this returns."""

    def rewrite(self, path: Path, content: bytes) -> None:
        """Cuts a file down to `content`, which is what it begins with already; durable when this returns.

        Takes no room on the disk. A crash in the middle leaves the same bytes.
        """

    def remove(self, path: Path) -> None: ...

    def open_append(self, path: Path) -> AppendFile: ...


class _OsAppendFile:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._end = self._reserved = os.fstat(self._fd).st_size
        self._reserve()

    def write(self, data: bytes) -> None:
        _write_all(self._fd, data)
        self._end += len(data)
        if self._reserved - self._end < AHEAD_BYTES // 2:
            self._reserve()

    def _reserve(self) -> None:
        """Allocates room in advance. Where that fails, each write allocates its own."""
        start, length = ctypes.c_longlong(self._end), ctypes.c_longlong(AHEAD_BYTES)
        if _libc.fallocate(self._fd, _KEEP_SIZE, start, length) == 0:
            self._reserved = self._end + AHEAD_BYTES

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)
        self._end = self._reserved = length
        self._reserve()

    def close(self) -> None:
        os.close(self._fd)


class OsFiles:
    """Files of the operating system."""

    def names(self, folder: Path) -> list[str]:
        if not folder.exists():
            folder.mkdir(mode=0o750)
            self.make_names_durable(folder.parent)
        return os.listdir(folder)

    def make_names_durable(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, content: bytes) -> None:
        new = path.with_name(path.name + ".new")
        try:
            self._write_durably(new, content)
        except OSError:
            new.unlink(missing_ok=True)  # the disk is full: frees what the new file took
            raise
        os.rename(new, path)
        self.make_names_durable(path.parent)

    def rewrite(self, path: Path, content: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _write_all(fd, content)
            # a truncate to the same length would free the room allocated behind the end
            if os.fstat(fd).st_size > len(content):
                os.ftruncate(fd, len(content))
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def open_append(self, path: Path) -> AppendFile:
        return _OsAppendFile(path)

    @staticmethod
    def _write_durably(path: Path, content: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            _write_all(fd, content)
            os.fsync(fd)
        finally:
            os.close(fd)


def machine_boot_id() -> str:
    """The id of this run of the machine, which changes with each boot; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def append_durably(file: AppendFile, data: bytes, end: int) -> None:
    """Writes the data at the file's end, at position `end`: it is on the disk when this returns.

    Raises OSError: then none of the data counts. After EIO the file's content is unknown. A failed fsync must
    not be tried again: the kernel may have dropped the pages.
    """
    try:
        file.write(data)
    except OSError as error:
        try:
            file.truncate(end)
        except OSError as worse:
            raise OSError(errno.EIO, f"a write failed ({error}) and can't be taken back") from worse
        raise
    try:
        file.sync()
    except OSError as error:
        raise OSError(errno.EIO, f"fsync failed: {error}") from error


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class FolderInUseError(OSError):
    """Two controllers use one folder; the message says what to do."""


def lock_folder(folder: Path) -> int:
    """Locks the folder until the process ends or the descriptor is closed. Raises FolderInUseError."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise FolderInUseError(
            f"another process uses {folder}: stop it, or choose another folder with --data"
        ) from error
    return lock
