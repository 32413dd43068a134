"""The disk: an interface, and its implementation by the operating system.

All access to files goes through a `Disk`, so that tests can use one that loses unsynced bytes, tears writes,
fills up, fails an fsync or runs out of descriptors. All methods raise `OSError` as the system does.
"""

import ctypes
import errno
import fcntl
import os
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

_KEEP_SIZE = 0x01  # FALLOC_FL_KEEP_SIZE of linux/falloc.h
_RANGE_WRITE = 0x02  # SYNC_FILE_RANGE_WRITE of linux/fs.h


class Entry(NamedTuple):
    """One name in a folder."""

    name: str
    is_folder: bool
    size_bytes: int


class Space(NamedTuple):
    """The space of a file system, in bytes."""

    free: int
    """The bytes that this process may still write."""
    size: int


class Disk(Protocol):
    """Files and folders. Descriptors are plain numbers, because `sendfile` takes one."""

    def open(self, path: str, *, create: bool = False) -> int:
        """Opens a file to read and write; create: makes the file when it does not exist. Returns the
        descriptor."""
        ...

    def close(self, fd: int) -> None: ...

    def size(self, fd: int) -> int:
        """The file's length in bytes."""
        ...

    def read_at(self, fd: int, length: int, position: int) -> bytes:
        """Reads up to `length` bytes; fewer only at the file's end."""
        ...

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Writes with one system call. Returns the number of bytes written, which may be fewer than given."""
        ...

    def truncate(self, fd: int, length: int) -> None:
        """Cuts the file, and frees the space allocated behind its end."""
        ...

    def allocate(self, fd: int, position: int, length: int) -> bool:
        """Reserves space without changing the file's length. Returns False where the file system cannot."""
        ...

    def sync(self, fd: int) -> None:
        """Makes the file's bytes and length durable."""
        ...

    def begin_sync(self, fd: int) -> None:
        """Starts writing the file's bytes to the disk, as a hint that `sync` follows. Reports no errors of
        the disk: `sync` does."""
        ...

    def sync_folder(self, path: str) -> None:
        """Makes the folder's names durable."""
        ...

    def sync_file_system(self, fd: int) -> bool:
        """Makes all files on the descriptor's file system durable. Returns False when it did not, or could
        not report errors. Raises OSError when bytes written since the descriptor was opened are lost; each
        file's own `sync` says whose.
        """
        ...

    def entries(self, path: str) -> list[Entry]:
        """The folder's entries, in no order. Raises FileNotFoundError."""
        ...

    def make_folders(self, path: str) -> None: ...

    def rename(self, path: str, new_path: str) -> None:
        """Renames atomically; replaces an existing file."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def exists(self, path: str) -> bool: ...

    def space(self, path: str) -> Space:
        """The space of the file system that holds the path."""
        ...

    def lock(self, path: str) -> int | None:
        """Locks the file for this process. Returns a descriptor to keep open; None when another process holds
        the lock."""
        ...


def tree_bytes(disk: Disk, path: str) -> int:
    """The lengths of all files in a folder and the folders below it."""
    return sum(
        tree_bytes(disk, os.path.join(path, entry.name)) if entry.is_folder else entry.size_bytes
        for entry in disk.entries(path)
    )


def read_file(disk: Disk, path: str) -> bytes:
    """Reads a whole file. Raises FileNotFoundError."""
    fd = disk.open(path)
    try:
        return disk.read_at(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)


def sync_file(disk: Disk, path: str) -> None:
    """Makes a file's bytes and length durable. Raises FileNotFoundError."""
    fd = disk.open(path)
    try:
        disk.sync(fd)
    finally:
        disk.close(fd)


def write_file(disk: Disk, path: str, content: bytes, *, sync: bool = True) -> None:
    """Writes a file under its final name, and syncs it. Not atomic: see `replace_file`."""
    fd = disk.open(path, create=True)
    try:
        disk.truncate(fd, 0)
        position = 0
        view = memoryview(content)
        while position < len(content):
            position += disk.write_at(fd, [view[position:]], position)
        if sync:
            disk.sync(fd)
    finally:
        disk.close(fd)


def replace_file(disk: Disk, path: str, content: bytes, *, keep_previous: str | None = None) -> None:
    """Replaces a file so that a power failure leaves the old or the new one whole: write, fsync, rename,
    fsync of the folder. keep_previous: a name that the old file gets first."""
    write_file(disk, path + ".new", content)
    if keep_previous is not None and disk.exists(path):
        disk.rename(path, keep_previous)
    disk.rename(path + ".new", path)
    disk.sync_folder(os.path.dirname(path))


class OsDisk:
    """The operating system's files (Linux)."""

    __slots__ = ("_libc", "_syncfs_tells")

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        # Before Linux 5.8 syncfs kept errors to itself.
        self._syncfs_tells = _linux_version() >= (5, 8)

    def open(self, path: str, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return os.open(path, flags, 0o640)

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def read_at(self, fd: int, length: int, position: int) -> bytes:
        data = os.pread(fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        done = len(data)
        while done < length and (data := os.pread(fd, length - done, position + done)):
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwritev(fd, buffers, position)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def allocate(self, fd: int, position: int, length: int) -> bool:
        # `os.posix_fallocate` would make the file longer, and write zeros where the file system cannot
        # reserve.
        done: int = self._libc.fallocate(
            fd, _KEEP_SIZE, ctypes.c_longlong(position), ctypes.c_longlong(length)
        )
        return done == 0

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def begin_sync(self, fd: int) -> None:
        # Without a WAIT flag the call does not consume an error of the disk: the fdatasync that follows
        # reports it.
        self._libc.sync_file_range(fd, ctypes.c_longlong(0), ctypes.c_longlong(0), _RANGE_WRITE)

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_file_system(self, fd: int) -> bool:
        if not self._syncfs_tells:
            return False
        if self._libc.syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return True

    def entries(self, path: str) -> list[Entry]:
        found = []
        with os.scandir(path) as names:
            for item in names:
                folder = item.is_dir(follow_symlinks=False)
                size = 0 if folder else item.stat(follow_symlinks=False).st_size
                found.append(Entry(item.name, folder, size))
        return found

    def make_folders(self, path: str) -> None:
        os.makedirs(path, mode=0o750, exist_ok=True)

    def rename(self, path: str, new_path: str) -> None:
        os.rename(path, new_path)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        for entry in self.entries(path):
            inner = os.path.join(path, entry.name)
            if entry.is_folder:
                self.remove_tree(inner)
            else:
                os.unlink(inner)
        os.rmdir(path)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def space(self, path: str) -> Space:
        found = os.statvfs(path)
        return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def lock(self, path: str) -> int | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return None
            raise
        return fd


def _linux_version() -> tuple[int, int]:
    """The version of the running kernel; (0, 0) when it is not Linux."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release) if os.uname().sysname == "Linux" else None
    return (int(found[1]), int(found[2])) if found else (0, 0)
