"""A disk for the journal that fails when told, over real files."""

import errno
from pathlib import Path

from tank_controller.raft_node.files import AppendFile, OsFiles


class FailingFiles(OsFiles):
    """`room_bytes`: how much may still be appended. `fail_…`: what raises from now on."""

    def __init__(self) -> None:
        self.room_bytes: int | None = None
        self.fail_sync = False
        self.fail_truncate = False
        self.fail_replace = ""
        """Names that end so can't be replaced."""
        self.fail_open = False

    def replace(self, path: Path, content: bytes) -> None:
        if self.fail_replace and path.name.endswith(self.fail_replace):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().replace(path, content)

    def open_append(self, path: Path) -> AppendFile:
        if self.fail_open:
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return _FailingAppendFile(self, super().open_append(path))


class _FailingAppendFile:
    def __init__(self, disk: FailingFiles, real: AppendFile) -> None:
        self._disk = disk
        self._real = real

    def write(self, data: bytes) -> None:
        room = self._disk.room_bytes
        if room is not None and room < len(data):
            self._real.write(data[:room])
            self._disk.room_bytes = 0
            raise OSError(errno.ENOSPC, "No space left on device")
        self._real.write(data)

    def sync(self) -> None:
        if self._disk.fail_sync:
            raise OSError(errno.EIO, "Input/output error")
        self._real.sync()

    def truncate(self, length: int) -> None:
        if self._disk.fail_truncate:
            raise OSError(errno.EIO, "Input/output error")
        self._real.truncate(length)

    def close(self) -> None:
        self._real.close()
