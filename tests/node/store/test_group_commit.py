"""One fsync for everybody who waits, and one more for all who came meanwhile."""

import random
import threading

import pytest

from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.store import flusher
from tank_node.store.flusher import Flusher
from tests.support.clients.posting import Posting
from tests.support.storage.fault_disk import FaultDisk
from tests.support.storage.logs import Folder, append, read_all


class SlowDisk:
    """A flusher whose first fsync waits until the test lets it go on; the loop runs when the test says so."""

    def __init__(self, settings: LogSettings | None = None) -> None:
        self.folder = Folder(settings=settings) if settings else Folder()
        self.log = self.folder.log()
        self.loop, self.heard = Posting(), list[PartitionLog]()
        self.now_s = 0.0
        self.flusher = Flusher(self.folder.disk, self.loop.post, self.heard.append, clock=lambda: self.now_s)
        self.began, self.may_go_on = threading.Event(), threading.Event()
        self.fails = False
        self.folder.fault.fail_sync = self._wait
        append(self.log, b"a")
        self.flusher.request(self.log, 1)
        assert self.began.wait(10)

    def _wait(self, path: str) -> bool:
        self.began.set()
        assert self.may_go_on.wait(10)
        return self.fails

    def append(self, value: bytes) -> None:
        """During the first fsync."""
        append(self.log, value)
        self.flusher.request(self.log, self.log.last)

    def hear_of_the_first(self) -> None:
        """Lets the disk go on, and the loop run once."""
        self.may_go_on.set()
        self.loop.run_one()

    def end(self) -> None:
        """Lets the disk go on, and the threads end; the loop hears of all of it afterwards."""
        self.may_go_on.set()
        self.flusher.close()


def test_what_came_during_an_fsync_shares_the_next_one() -> None:
    for seed in range(5):
        slow = SlowDisk()
        slow.append(b"b")
        slow.append(b"c")
        slow.hear_of_the_first()
        assert slow.log.synced == 1
        slow.end()
        assert slow.log.synced == 3
        assert slow.heard == [slow.log, slow.log], "two rounds: the second served both"
        slow.folder.fault.lose_power(random.Random(seed))
        assert read_all(slow.folder.reopen_after_power_loss()) == {1: b"a", 2: b"b", 3: b"c"}


def test_a_round_that_hangs_grows_older_until_it_has_ended() -> None:
    slow = SlowDisk()
    assert (slow.flusher.oldest_s(), slow.flusher.waited_s(slow.log)) == (0.0, 0.0)
    slow.now_s = 30.0
    other = slow.folder.log(1)
    append(other, b"x")
    slow.flusher.request(other, 1)
    slow.now_s = 42.0
    assert (slow.flusher.oldest_s(), slow.flusher.waited_s(other)) == (42.0, 12.0)
    slow.append(b"b")
    assert slow.flusher.waited_s(slow.log) == 42.0, "what waits for its end is no younger"
    slow.end()
    assert (slow.flusher.oldest_s(), slow.flusher.waited_s(slow.log)) == (0.0, 0.0)


def test_the_next_round_takes_in_a_segment_that_began_meanwhile() -> None:
    slow = SlowDisk(LogSettings(segment_bytes=100))
    slow.append(b"b" * 50)
    slow.append(b"c" * 80)
    assert len(slow.log.segments) > 1
    slow.hear_of_the_first()
    slow.end()
    assert slow.log.synced == 3
    slow.folder.fault.lose_power(random.Random(1))
    assert read_all(slow.folder.reopen_after_power_loss()) == {1: b"a", 2: b"b" * 50, 3: b"c" * 80}


def test_after_a_failed_fsync_no_other_is_tried() -> None:
    slow = SlowDisk()
    slow.append(b"b")
    slow.fails = True
    syncs = slow.folder.fault.syncs
    slow.hear_of_the_first()
    slow.end()
    assert slow.folder.fault.syncs == syncs
    assert (slow.log.state, slow.log.synced) == (LogState.FAILED, 0)
    assert all(file.pins == 0 for segment in slow.log.segments for file in segment.files())


def test_what_is_cut_during_an_fsync_is_not_taken_for_durable() -> None:
    slow = SlowDisk()
    slow.append(b"b")
    slow.append(b"c")
    slow.folder.fault.fail_sync = lambda path: False  # truncation syncs, too
    slow.log.truncate_to(1)
    append(slow.log, b"other")
    slow.end()
    assert (slow.log.synced, slow.log.written) == (1, 2)
    slow.log.flush()
    assert slow.log.synced == 2


def test_a_deleted_log_leaves_no_file_open() -> None:
    slow = SlowDisk()
    slow.append(b"b")
    files = [file for segment in slow.log.segments for file in segment.files()]
    slow.log.abandon()
    slow.end()
    assert [file.fd for file in files] == [-1, -1]


def test_a_deleted_files_descriptor_is_closed_in_a_thread_and_here_when_those_have_ended() -> None:
    folder = Folder()
    closed: list[tuple[str, threading.Thread]] = []
    fds = {folder.disk.open(f"{folder.path}/{name}", create=True): name for name in ("a", "b")}

    class Noting(FaultDisk):
        def close(self, fd: int) -> None:
            closed.append((fds[fd], threading.current_thread()))
            raise OSError("nobody hears of it")

    loop = Posting()
    flusher = Flusher(Noting(), loop.post)
    first, second = fds
    flusher.close_file(first)
    flusher.close()
    flusher.close_file(second)
    assert [name for name, _ in closed] == ["a", "b"]
    assert closed[0][1] is not threading.main_thread() is closed[1][1]


def test_no_fsync_waits_behind_files_that_are_closed_or_removed() -> None:
    may_go_on, closed = threading.Event(), list[int]()

    class Slow(FaultDisk):
        def close(self, fd: int) -> None:
            if fd < 0:
                assert may_go_on.wait(10)
                closed.append(fd)
            else:
                super().close(fd)

    folder, loop = Folder(Slow()), Posting()
    flusher = Flusher(folder.disk, loop.post, threads=1)
    large = list(range(-20, 0))
    for fd in large:
        flusher.close_file(fd)
    flusher.remove(lambda: folder.disk.close(-99))
    log = folder.log()
    append(log, b"a")
    flusher.request(log, 1)
    loop.run_one()
    assert (log.synced, closed) == (1, [])
    may_go_on.set()
    flusher.close()
    assert closed[:20] == large, "all are closed; what is to be removed may be left to the next start"


def test_an_fsync_that_cannot_begin_is_not_told_within_the_call() -> None:
    folder = Folder()
    log, loop, heard = folder.log(), Posting(), list[PartitionLog]()
    append(log, b"a")
    flusher = Flusher(folder.disk, loop.post, heard.append)
    log.segments[0].log_end.file.error = OSError(5, "Input/output error")  # when it was closed
    flusher.request(log, 1)
    flusher.request(log, 1)
    assert (heard, log.state) == ([], LogState.ACTIVE)
    loop.run_one()
    assert (heard, log.state.value) == ([log], "failed")
    flusher.close()


def test_a_stop_does_not_wait_for_a_folder_that_is_being_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flusher, "REMOVAL_S", 0.0)
    folder, began, removed = Folder(), threading.Event(), threading.Event()
    closing = Flusher(folder.disk, Posting().post)

    def remove() -> None:
        began.set()
        assert removed.wait(60)

    closing.remove(remove)
    assert began.wait(10)
    closing.close()
    removed.set()
