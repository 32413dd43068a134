"""A disk in memory that fails as real ones do: for tests of everything that writes through
`tank_node.disk.Disk`.

It keeps what was written apart from what was synced. `lose_power` forgets what was not synced, wholly or in
pieces: writes may survive by sectors, in any order, and names of files as far as their folder's changes got.
A failed fsync drops what it should have written, and the next one succeeds, as Linux does.
"""

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence

from tank_node.disk import Buffer, Entry, Space

SECTOR_BYTES = 512


class PowerLoss(BaseException):
    """The machine stops here. Not an Exception: nothing may catch it."""


class File:
    """One file of the disk."""

    def __init__(self) -> None:
        self.data = bytearray()
        """What a read sees."""
        self.durable = bytearray()
        """What is left when all that was not synced is lost."""
        self.pending: list[tuple[int, bytes | None, int]] = []
        """Writes (position, bytes) and truncations (length, None) since the last sync, each with its number
        among the disk's changes."""

    def take_pending(self, through: int | None) -> list[tuple[int, bytes | None, int]]:
        """What a sync covers: all of it, or what was changed up to that number."""
        taken = [one for one in self.pending if through is None or one[2] <= through]
        self.pending = self.pending[len(taken) :]
        return taken


_Node = File | None  # None: a folder


def _apply(data: bytearray, position: int, content: bytes | None) -> None:
    if content is None:
        if len(data) > position:
            del data[position:]
        else:
            data.extend(bytes(position - len(data)))
        return
    if len(data) < position:
        data.extend(bytes(position - len(data)))
    data[position : position + len(content)] = content


class FaultDisk:
    """See the module. `capacity_bytes`, `max_open_files` and what says which calls fail may be changed at any
    time."""

    def __init__(self) -> None:
        self.names: dict[str, _Node] = {"/": None}
        self.durable_names: dict[str, _Node] = {"/": None}
        self._name_changes: dict[str, list[tuple[str, _Node | str]]] = {}
        """By folder: (path, node) for a name that was made or replaced, (path, "gone") for one that went."""
        self._open: dict[int, File] = {}
        self._paths: dict[int, str] = {}
        self._locks: set[str] = set()
        self._next_fd = 1000
        self.capacity_bytes: int | None = None
        self.max_open_files: int | None = None
        self.fail_sync: Callable[[str], bool] = lambda path: False
        """Asked with the file's path on every fsync: True fails it with EIO."""
        self.fail_write: Callable[[str], bool] = lambda path: False
        self.fail_read: Callable[[str], bool] = lambda path: False
        self.covers: int | None = None
        """The last change that a sync makes durable: it began when that one was made, and ends later. None:
        all that was written before its end."""
        self.stop_at: int | None = None
        """The number of the change (write, truncation, rename, sync, …) at which the power goes."""
        self.changes = 0
        self.syncs = 0
        self.replaced: Counter[str] = Counter()
        """By name: how often a file got it by being renamed."""
        self.opened = 0
        self.bytes_read = 0

    # ---- faults ----

    def _change(self) -> None:
        if self.stop_at is not None and self.changes >= self.stop_at:
            raise PowerLoss
        self.changes += 1

    def lose_power(self, chance: random.Random) -> None:
        """The machine stops and starts: only what was synced is sure to be left, of the rest whatever chance
        keeps."""
        self.stop_at = None
        names = dict(self.durable_names)
        for changes in self._name_changes.values():
            for path, node in changes[: chance.randint(0, len(changes))]:
                if isinstance(node, str):
                    names.pop(path, None)
                else:
                    names[path] = node
        # A name in a folder that is gone is gone as well.
        self.names = {p: n for p, n in names.items() if p == "/" or _parents(p) <= names.keys()}
        for node in self.names.values():
            if node is not None:
                _settle(node, chance)
        self.durable_names = dict(self.names)
        self._name_changes.clear()
        self._open.clear()
        self._paths.clear()
        self._locks.clear()

    def kill_process(self) -> None:
        """The process is gone, the machine is not: everything written is there."""
        self.stop_at = None
        self._open.clear()
        self._paths.clear()
        self._locks.clear()

    @property
    def open_files(self) -> int:
        return len(self._open)

    @property
    def used_bytes(self) -> int:
        return sum(len(node.data) for node in self.names.values() if node is not None)

    def content(self, path: str) -> bytes:
        """What a file holds now."""
        return bytes(self.file(path).data)

    def overwrite(self, path: str, content: bytes) -> None:
        """Puts other bytes there, as bit rot or an administrator does."""
        file = self.file(path)
        file.data = bytearray(content)
        file.durable = bytearray(content)
        file.pending.clear()

    def delete(self, path: str) -> None:
        """The file is gone, for good."""
        del self.names[path]
        self.durable_names.pop(path, None)

    def paths(self, suffix: str = "") -> list[str]:
        return sorted(p for p, node in self.names.items() if node is not None and p.endswith(suffix))

    def file(self, path: str) -> File:
        """The file of that name: what a read sees, what is durable, and what is between. Raises
        FileNotFoundError."""
        node = self.names.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _set_name(self, path: str, node: _Node | str) -> None:
        if isinstance(node, str):
            self.names.pop(path, None)
        else:
            self.names[path] = node
        self._name_changes.setdefault(os.path.dirname(path), []).append((path, node))

    # ---- tank_node.disk.Disk ----

    def open(self, path: str, *, create: bool = False) -> int:
        if self.max_open_files is not None and len(self._open) >= self.max_open_files:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if path not in self.names:
            if not create or os.path.dirname(path) not in self.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._change()
            self._set_name(path, File())
        self._next_fd += 1
        self.opened += 1
        self._open[self._next_fd] = self.file(path)
        self._paths[self._next_fd] = path
        return self._next_fd

    def close(self, fd: int) -> None:
        if self._open.pop(fd, None) is None and fd not in self._paths:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        path = self._paths.pop(fd)
        self._locks.discard(path)

    def size(self, fd: int) -> int:
        return len(self._open[fd].data)

    def read_at(self, fd: int, length: int, position: int) -> bytes:
        if self.fail_read(self._paths[fd]):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = bytes(self._open[fd].data[position : position + length])
        self.bytes_read += len(data)
        return data

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._change()
        if self.fail_write(self._paths[fd]):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        file = self._open[fd]
        content = b"".join(buffers)
        if self.capacity_bytes is not None:
            grown = max(position + len(content) - len(file.data), 0)
            room = max(self.capacity_bytes - self.used_bytes, 0)
            if grown > room:
                content = content[: len(content) - (grown - room)]
                if not content:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _apply(file.data, position, content)
        file.pending.append((position, content, self.changes))
        return len(content)

    def truncate(self, fd: int, length: int) -> None:
        self._change()
        file = self._open[fd]
        if len(file.data) != length:
            _apply(file.data, length, None)
            file.pending.append((length, None, self.changes))

    def allocate(self, fd: int, position: int, length: int) -> bool:
        return self.capacity_bytes is None

    def sync(self, fd: int) -> None:
        self._change()
        self.syncs += 1
        file = self._open[fd]
        pending = file.take_pending(self.covers)
        if self.fail_sync(self._paths[fd]):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for position, content, _ in pending:
            _apply(file.durable, position, content)

    def begin_sync(self, fd: int) -> None:
        """Only a hint: nothing is durable by it."""

    def sync_folder(self, path: str) -> None:
        self._change()
        for name, node in self._name_changes.pop(path, []):
            if isinstance(node, str):
                self.durable_names.pop(name, None)
            else:
                self.durable_names[name] = node

    def sync_file_system(self, fd: int) -> bool:
        self._change()
        files = [(path, node) for path, node in self.names.items() if node is not None]
        if any(node.pending and self.fail_sync(path) for path, node in files):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for folder in list(self._name_changes):
            self.sync_folder(folder)
        for _, node in files:
            for position, content, _ in node.take_pending(self.covers):
                _apply(node.durable, position, content)
        return True

    def entries(self, path: str) -> list[Entry]:
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        found = []
        for name, node in list(self.names.items()):
            if name != "/" and os.path.dirname(name) == path:
                found.append(
                    Entry(os.path.basename(name), node is None, 0 if node is None else len(node.data))
                )
        return found

    def make_folders(self, path: str) -> None:
        if path in self.names:
            return
        self.make_folders(os.path.dirname(path))
        self._change()
        self._set_name(path, None)

    def rename(self, path: str, new_path: str) -> None:
        self._change()
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        node = self.names[path]
        moved = [p for p in self.names if p.startswith(path + "/")]
        self.replaced[new_path] += 1
        self._set_name(new_path, node)
        self._set_name(path, "gone")
        for inner in moved:
            self._set_name(new_path + inner[len(path) :], self.names[inner])
            self._set_name(inner, "gone")

    def remove(self, path: str) -> None:
        self.file(path)
        self._change()
        self._set_name(path, "gone")

    def remove_tree(self, path: str) -> None:
        for name in [p for p in self.names if p == path or p.startswith(path + "/")]:
            self._change()
            self._set_name(name, "gone")

    def exists(self, path: str) -> bool:
        return path in self.names

    def space(self, path: str) -> Space:
        size = self.capacity_bytes if self.capacity_bytes is not None else 1 << 40
        return Space(max(size - self.used_bytes, 0), size)

    def lock(self, path: str) -> int | None:
        if path in self._locks:
            return None
        fd = self.open(path, create=True)
        self._locks.add(path)
        return fd


def _parents(path: str) -> set[str]:
    parents = set()
    while (path := os.path.dirname(path)) != "/":
        parents.add(path)
    return parents


def _settle(file: File, chance: random.Random) -> None:
    """What of a file's unsynced changes survives: nothing, everything, or single sectors of single writes."""
    keep = chance.choice(("nothing", "everything", "some", "some"))
    survived = file.durable
    for position, content, _ in file.pending:
        if keep == "nothing":
            break
        if keep == "everything" or content is None:
            if keep == "everything" or chance.random() < 0.5:
                _apply(survived, position, content)
            continue
        start = 0
        while start < len(content):
            end = min(len(content), start + SECTOR_BYTES - (position + start) % SECTOR_BYTES)
            if chance.random() < 0.5:
                _apply(survived, position + start, content[start:end])
            start = end
    file.data = bytearray(survived)
    file.durable = bytearray(survived)
    file.pending.clear()
