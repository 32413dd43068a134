"""A folder in memory: what is written, what is durable, and a power failure between any two operations.

Names and contents become durable as the calls of `Files` promise, never sooner: an append when `sync`
returns, a replacement when `replace` does. At operation number `fail_at` the disk fails or loses its power.
"""

import errno
from pathlib import Path

from tank_controller.raft_node.files import AppendFile


class PowerLostError(Exception):
    """The machine is off."""


class FaultFiles:
    """Files of one folder. `operations` counts what changes them."""

    def __init__(self, durable: dict[str, bytes] | None = None) -> None:
        self.durable: dict[str, bytes] = dict(durable or {})
        self.seen: dict[str, bytes] = dict(self.durable)
        self.operations = 0
        self.power_lost_at: int | None = None
        self.torn_bytes: int | None = None
        """How much of the write that was under way is there after the power failure; None: nothing."""
        self.room_bytes: int | None = None
        self.fail_sync = False
        self.fail_truncate = False
        self.names_are_late = False
        """A replacement's name is not durable before the call has returned; else it may be."""
        self.late: dict[str, bytes] = {}
        """What is durable of files whose names are not."""

    def operation(self) -> None:
        """One more; the power may go before it."""
        if self.power_lost_at == self.operations:
            raise PowerLostError
        self.operations += 1

    def after_power_loss(self) -> "FaultFiles":
        """What another start finds."""
        return FaultFiles(self.durable)

    def after_kill(self) -> "FaultFiles":
        """What another start finds while the machine runs on."""
        files = FaultFiles(self.durable)
        files.seen, files.late = dict(self.seen), dict(self.late)
        return files

    def take_room(self, needed: int) -> None:
        """ENOSPC when there is none."""
        if self.room_bytes is not None:
            if needed > self.room_bytes:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.room_bytes -= needed

    def names(self, folder: Path) -> list[str]:
        """What is there."""
        return list(self.seen)

    def read(self, path: Path) -> bytes:
        """All of a file."""
        return self.seen[path.name]

    def replace(self, path: Path, content: bytes) -> None:
        """Whole or not at all. The new name may reach the disk before the call has returned."""
        self.operation()
        self.take_room(len(content))
        if self.fail_sync:
            raise OSError(errno.EIO, "Input/output error")
        self.seen[path.name] = self.late[path.name] = content
        if not self.names_are_late:
            self.durable |= self.late
        self.operation()
        self.make_names_durable(path.parent)

    def make_names_durable(self, folder: Path) -> None:
        """And with them what is durable of those files."""
        self.durable |= self.late
        self.late = {}

    def rewrite(self, path: Path, content: bytes) -> None:
        """The same bytes again."""
        self.operation()
        self.seen[path.name] = content
        self.synced(path.name)

    def synced(self, name: str) -> None:
        """All that was written to a file is on the disk; its name need not be."""
        (self.late if name in self.late else self.durable)[name] = self.seen[name]

    def remove(self, path: Path) -> None:
        """Gone."""
        self.operation()
        self.seen.pop(path.name, None)
        self.durable.pop(path.name, None)
        self.late.pop(path.name, None)

    def open_append(self, path: Path) -> AppendFile:
        """At its end."""
        return _Append(self, path.name)


class _Append:
    def __init__(self, files: FaultFiles, name: str) -> None:
        self._files = files
        self._name = name

    def write(self, data: bytes) -> None:
        files = self._files
        before = files.seen[self._name]
        files.operation()
        files.take_room(len(data))
        files.seen[self._name] = before + data
        if files.torn_bytes is not None and files.power_lost_at == files.operations:
            files.durable[self._name] = before + data[: files.torn_bytes]
        files.operation()

    def sync(self) -> None:
        self._files.operation()
        if self._files.fail_sync:
            raise OSError(errno.EIO, "Input/output error")
        self._files.synced(self._name)

    def truncate(self, length: int) -> None:
        if self._files.fail_truncate:
            raise OSError(errno.EIO, "Input/output error")
        self._files.seen[self._name] = self._files.seen[self._name][:length]

    def close(self) -> None:
        pass
