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
from tests.support.storage.disk_nodes import Directory, File, NameChange, Node, apply


class PowerLoss(BaseException):
    """The machine stops here. Not an Exception: nothing may catch it."""


class FaultDisk:
    """See the module. `capacity_bytes`, `max_open_files` and what says which calls fail may be changed at any
    time."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {"/": Directory()}
        """By path: all that can be reached from "/", and nothing else."""
        self._changed: dict[Directory, None] = {}
        """In the order of their changes: at least those folders that have some to lose."""
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
        for folder in self._changed:
            kept = chance.randint(0, len(folder.pending))
            for change in folder.pending[:kept]:
                if change in folder.pending:
                    change.keep()
        for folder in self._changed:
            folder.settle()
        self._changed.clear()
        root = self.names["/"]
        self.names = {}
        self._find("/", root, chance)
        self._open.clear()
        self._paths.clear()
        self._locks.clear()

    def _find(self, path: str, node: Node, chance: random.Random) -> None:
        self.names[path] = node
        if isinstance(node, File):
            node.settle(chance)
            return
        for name, inner in node.names.items():
            self._find(os.path.join(path, name), inner, chance)

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
        return sum(len(node.data) for node in self.names.values() if isinstance(node, File))

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
        folder, name = self._place(path)
        del folder.names[name]
        folder.durable.pop(name, None)

    def paths(self, suffix: str = "") -> list[str]:
        return sorted(p for p, node in self.names.items() if isinstance(node, File) and p.endswith(suffix))

    def file(self, path: str) -> File:
        """The file of that name: what a read sees, what is durable, and what is between. Raises
        FileNotFoundError."""
        node = self.names.get(path)
        if not isinstance(node, File):
            raise _missing(path)
        return node

    def _folder(self, path: str) -> Directory:
        node = self.names.get(path)
        if not isinstance(node, Directory):
            raise _missing(path)
        return node

    def _place(self, path: str) -> tuple[Directory, str]:
        parent, name = os.path.split(path)
        return self._folder(parent), name

    def _set_name(self, path: str, node: Node | None) -> None:
        folder, name = self._place(path)
        self._changed[folder] = None
        NameChange((folder, name, node))
        if node is None:
            del self.names[path]
        else:
            self.names[path] = node

    # ---- tank_node.disk.Disk ----

    def open(self, path: str, *, create: bool = False) -> int:
        if self.max_open_files is not None and len(self._open) >= self.max_open_files:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if path not in self.names:
            if not create or os.path.dirname(path) not in self.names:
                raise _missing(path)
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
        apply(file.data, position, content)
        file.pending.append((position, content, self.changes))
        return len(content)

    def truncate(self, fd: int, length: int) -> None:
        self._change()
        file = self._open[fd]
        if len(file.data) != length:
            apply(file.data, length, None)
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
            apply(file.durable, position, content)

    def begin_sync(self, fd: int) -> None:
        """Only a hint: nothing is durable by it."""

    def sync_folder(self, path: str) -> None:
        self._change()
        folder = self._folder(path)
        folder.sync()
        self._changed.pop(folder, None)

    def sync_file_system(self, fd: int) -> bool:
        self._change()
        files = [(path, node) for path, node in self.names.items() if isinstance(node, File)]
        if any(file.pending and self.fail_sync(path) for path, file in files):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for folder in self._changed:
            folder.sync()
        self._changed.clear()
        for _, file in files:
            for position, content, _ in file.take_pending(self.covers):
                apply(file.durable, position, content)
        return True

    def entries(self, path: str) -> list[Entry]:
        return [
            Entry(name, isinstance(node, Directory), 0 if isinstance(node, Directory) else len(node.data))
            for name, node in self._folder(path).names.items()
        ]

    def make_folders(self, path: str) -> None:
        if path in self.names:
            return
        self.make_folders(os.path.dirname(path))
        self._change()
        self._set_name(path, Directory())

    def rename(self, path: str, new_path: str) -> None:
        """The two names of a folder change as one, as in the journals of real file systems; what changed
        inside it, and was not synced, may be lost without them. Of a file, both names may be left."""
        self._change()
        if path not in self.names:
            raise _missing(path)
        node = self.names[path]
        self.replaced[new_path] += 1
        if isinstance(node, File):
            self._set_name(new_path, node)
            self._set_name(path, None)
            return
        folder, name = self._place(path)
        new_folder, new_name = self._place(new_path)
        if new_path in self.names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new_path)
        self._changed.update({folder: None, new_folder: None})
        NameChange((new_folder, new_name, node), (folder, name, None))
        for old in [path, *self._inside(path)]:
            self.names[new_path + old[len(path) :]] = self.names.pop(old)

    def _inside(self, path: str) -> list[str]:
        return [name for name in self.names if name.startswith(path + "/")]

    def remove(self, path: str) -> None:
        self.file(path)
        self._change()
        self._set_name(path, None)

    def remove_tree(self, path: str) -> None:
        self._folder(path)
        for name in sorted([path, *self._inside(path)], reverse=True):
            self._change()
            self._set_name(name, None)

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


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
