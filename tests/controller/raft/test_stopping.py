"""A follower that is stopped while its disk has no room: what it writes down at its end is no more than what
its disk holds."""

import queue
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tank_controller.raft.core import Raft
from tank_controller.raft.messages import (
    Append,
    Configuration,
    EntryKind,
    HardState,
    LogEntry,
    NodeId,
    RaftMessage,
)
from tank_controller.raft_node.disk_thread import DiskThread
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.storage import RaftStorage
from tests.controller.raft.stored import entry
from tests.controller.raft_node.failing_files import FailingFiles

TWO, THREE = NodeId(2, b"ksid"), NodeId(3, b"skdi")


class Follower:
    """One of three controllers; the event loop is a queue, and each write begins a segment."""

    def __init__(self, folder: Path) -> None:
        self.files = FailingFiles()
        self.applied: list[bytes] = []
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        storage = RaftStorage(folder, self.files, segment_bytes=1)
        stored = storage.open()
        self.own = NodeId(1, storage.disk)
        if stored is None:
            members = Configuration((self.own, TWO, THREE))
            founding = LogEntry(1, 1, EntryKind.CONFIGURATION, members.encode())
            storage.begin("c", HardState(1, None, 1), [founding])
            storage = RaftStorage(folder, self.files, segment_bytes=1)
            stored = storage.open()
        assert stored is not None
        self.stored = stored
        raft = Raft(self.own, "c", stored.hard, None, stored.entries, lambda below: 0, base=stored.base)
        self.driver = RaftDriver(raft, storage, self, self, DiskThread(self.posted.put), _never)
        self.driver.start()

    def send(self, messages: Sequence[RaftMessage]) -> None:
        """Nobody looks."""

    def apply(self, index: int, data: bytes) -> None:
        self.applied.append(data)

    def snapshot(self) -> Iterator[bytes]:
        return iter(())

    def restore(self, data: bytes) -> None:
        raise AssertionError("no snapshot is there")

    def run_until(self, done: Callable[[], object]) -> None:
        while not done():
            self.posted.get(timeout=10)()

    def hear(
        self, leader: NodeId, term: int, entries: Sequence[LogEntry], prev_term: int, commit: int
    ) -> None:
        """A leader's append."""
        append = Append(entries[0].index - 1, prev_term, tuple(entries), commit)
        self.driver.receive(RaftMessage("c", leader, self.own, term, append))

    def stop_without_room(self) -> None:
        self.run_until(lambda: self.driver.full)
        stopped: list[bool] = []
        self.driver.stop(lambda: stopped.append(True))
        self.run_until(lambda: stopped)


def _never(error: Exception) -> None:
    raise AssertionError(f"the disk is full, no more: {error}")


def with_entries_of_term_2(folder: Path) -> Follower:
    """Up to 4, none of them committed, all on the disk."""
    follower = Follower(folder)
    follower.hear(TWO, 2, [entry(index, 2) for index in (2, 3, 4)], prev_term=1, commit=1)
    follower.run_until(lambda: follower.driver.raft.log.stable == 4)
    follower.files.fail_replace = ".raft"  # while what is open has room reserved behind its end
    return follower


def test_the_commit_of_entries_that_found_no_room_is_not_written_down(tmp_path: Path) -> None:
    follower = with_entries_of_term_2(tmp_path)
    follower.hear(TWO, 2, [entry(5, 2), entry(6, 2)], prev_term=2, commit=6)
    assert follower.driver.raft.log.commit == 6, "the others have them"
    follower.stop_without_room()
    again = Follower(tmp_path)
    assert again.stored.hard.commit == 1
    assert [each.index for each in again.stored.entries] == [1, 2, 3, 4]


def test_entries_that_others_were_to_replace_are_not_taken_for_committed(tmp_path: Path) -> None:
    follower = with_entries_of_term_2(tmp_path)
    follower.hear(THREE, 3, [entry(2, 3), entry(3, 3)], prev_term=1, commit=3)
    follower.stop_without_room()
    again = Follower(tmp_path)
    assert (again.driver.raft.log.commit, again.applied) == (1, [])
    again.hear(THREE, 3, [entry(2, 3), entry(3, 3)], prev_term=1, commit=3)
    again.run_until(lambda: again.driver.applied == 3)
    assert again.applied == [b"2 of 3", b"3 of 3"]


def test_no_commit_behind_the_end_of_the_log_is_ever_written(tmp_path: Path) -> None:
    storage = RaftStorage(tmp_path)
    assert storage.open() is None
    founding = LogEntry(1, 1, EntryKind.CONFIGURATION, Configuration((TWO,)).encode())
    storage.begin("c", HardState(1, None, 1), [founding])
    with pytest.raises(AssertionError):
        storage.close(2)
