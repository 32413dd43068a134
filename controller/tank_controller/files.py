"""The disk, as the journal sees it: few calls, so that tests can put one there that fails."""

import os
from pathlib import Path
from typing import Protocol


class AppendFile(Protocol):
    """A file that is written at its end. All methods raise OSError as the system does."""

    def write(self, data: bytes) -> None:
        """Writes all of it, or raises; then some of it may be there."""

    def sync(self) -> None:
        """What was written is on the disk when this returns."""

    def truncate(self, length: int) -> None:
        """Cuts the file; the next write goes to its new end."""

    def close(self) -> None: ...


class Files(Protocol):
    """A folder's files."""

    def names(self, folder: Path) -> list[str]:
        """What is in the folder; it is made, durably, when it isn't there, but not those above it."""

    def read(self, path: Path) -> bytes: ...

    def replace(self, path: Path, content: bytes) -> None:
        """Puts a file there, or in the place of one: whole or not at all, durable when this returns."""

    def remove(self, path: Path) -> None: ...

    def open_append(self, path: Path) -> AppendFile: ...


class _OsAppendFile:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)

    def close(self) -> None:
        os.close(self._fd)


class OsFiles:
    """The operating system's files."""

    def names(self, folder: Path) -> list[str]:
        if not folder.exists():
            folder.mkdir(mode=0o750)
            self._sync_folder(folder.parent)
        return os.listdir(folder)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, content: bytes) -> None:
        new = path.with_name(path.name + ".new")
        try:
            self._write_durably(new, content)
        except OSError:
            new.unlink(missing_ok=True)  # a full disk gets its room back
            raise
        os.rename(new, path)
        self._sync_folder(path.parent)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def open_append(self, path: Path) -> AppendFile:
        return _OsAppendFile(path)

    @staticmethod
    def _write_durably(path: Path, content: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)

    @staticmethod
    def _sync_folder(folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
