"""The simulated disk of a machine, for controllers and brokers alike, and the thread that waits for it.

What is written and what would survive a loss of power are kept apart (tests.support.storage.fault_disk). A
process may be killed, or the power go, between any two changes.
"""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tank_controller.raft_node.files import AppendFile
from tank_node.disk import Buffer, read_file, replace_file
from tests.simulation.world.world import Life, ProcessEnded, World
from tests.support.storage.fault_disk import FaultDisk


class SimulatedDisk(FaultDisk):
    """A disk that ends the process, or the machine, at a change that the story chose."""

    def __init__(self) -> None:
        super().__init__()
        self.stop_is_power = False
        self.failing_syncs = 0
        """So many of the next fsyncs fail."""
        self.fail_sync = self._sync_fails
        self.failing_reads = 0
        """So many of the next reads fail."""
        self.fail_read = self._read_fails
        self.is_used: Callable[[], bool] = lambda: False
        """Whether its machine's process is at work: others, who look at what is there, meet no error."""

    def open(self, path: str, *, create: bool = False) -> int:
        """As any disk; the books find room for a file where the process finds none."""
        if self.max_open_files is None or self.is_used():
            return super().open(path, create=create)
        allowed, self.max_open_files = self.max_open_files, None
        try:
            return super().open(path, create=create)
        finally:
            self.max_open_files = allowed

    def recover(self) -> None:
        """What failed for a while fails no more."""
        self.failing_syncs = self.failing_reads = 0
        self.max_open_files = None

    def stop_soon(self, changes: int, *, power: bool) -> None:
        """The process ends before the change that comes so many changes from now."""
        self.stop_at = self.changes + changes
        self.stop_is_power = power

    def _change(self) -> None:
        if self.stop_at is not None and self.changes >= self.stop_at:
            self.stop_at = None
            raise ProcessEnded(power=self.stop_is_power)
        self.changes += 1

    def _sync_fails(self, path: str) -> bool:
        if not self.failing_syncs:
            return False
        self.failing_syncs -= 1
        return True

    def _read_fails(self, path: str) -> bool:
        if not self.failing_reads or not self.is_used():
            return False
        self.failing_reads -= 1
        return True


class SimulatedFiles:
    """`tank_controller.raft_node.files.Files` on a simulated disk, with the steps that OsFiles takes."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk

    def names(self, folder: Path) -> list[str]:
        """What is there; makes the folder."""
        path = str(folder)
        if not self._disk.exists(path):
            self._disk.make_folders(path)
            self._disk.sync_folder(os.path.dirname(path))
        return [entry.name for entry in self._disk.entries(path)]

    def make_names_durable(self, folder: Path) -> None:
        """As they are now."""
        self._disk.sync_folder(str(folder))

    def read(self, path: Path) -> bytes:
        """All of a file."""
        return read_file(self._disk, str(path))

    def replace(self, path: Path, content: bytes) -> None:
        """Whole or not at all."""
        try:
            replace_file(self._disk, str(path), content)
        except OSError:
            if self._disk.exists(f"{path}.new"):
                self._disk.remove(f"{path}.new")
            raise

    def rewrite(self, path: Path, content: bytes) -> None:
        """The same bytes again, and nothing behind them."""
        fd = self._disk.open(str(path))
        try:
            _write_all(self._disk, fd, content, 0)
            if self._disk.size(fd) > len(content):
                self._disk.truncate(fd, len(content))
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def remove(self, path: Path) -> None:
        """Gone, if it was there."""
        if self._disk.exists(str(path)):
            self._disk.remove(str(path))

    def open_append(self, path: Path) -> AppendFile:
        """At its end."""
        return _AppendFile(self._disk, str(path))


class _AppendFile:
    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._fd = disk.open(path)
        self._end = disk.size(self._fd)

    def write(self, data: bytes) -> None:
        _write_all(self._disk, self._fd, data, self._end)
        self._end += len(data)

    def sync(self) -> None:
        self._disk.sync(self._fd)

    def truncate(self, length: int) -> None:
        self._disk.truncate(self._fd, length)
        self._end = length

    def close(self) -> None:
        self._disk.close(self._fd)


def _write_all(disk: SimulatedDisk, fd: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = disk.write_at(fd, _one(view), position)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        position += written
        view = view[written:]


def _one(view: memoryview) -> Sequence[Buffer]:
    return (view,)


class SimulatedThread:
    """A thread that waits for the disk: `raft_node.disk_thread.Disk`. Work takes virtual time."""

    def __init__(self, world: World, life: Life, usual_us: int) -> None:
        self._world = world
        self._life = life
        self._usual_us = usual_us
        self._free_at = 0

    def run(self, work: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        """One after another, in their order."""
        world = self._world

        def do() -> None:
            failure: Exception | None = None
            try:
                work()
            except Exception as error:
                failure = error
            world.after(world.between(1, 100), self._life, lambda: then(failure))

        delay = world.between(self._usual_us // 4, self._usual_us)
        if world.chance(0.02):
            delay *= 50
        self._free_at = max(self._free_at + 1, world.now + delay)
        world.at(self._free_at, self._life, do)

    def close(self) -> None:
        """What was asked for before is done."""
