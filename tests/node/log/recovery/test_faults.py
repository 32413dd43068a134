"""Disks that fill up, refuse an fsync, refuse a write, and processes without descriptors."""

import threading
from collections.abc import Callable

import pytest

from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import (
    DiskFailed,
    DiskFull,
    LogDamaged,
    LogFailed,
    StorageError,
    TooManyOpenFiles,
)
from tank_node.store.flusher import Flusher
from tests.support.clients.posting import Posting
from tests.support.storage.fault_disk import FaultDisk
from tests.support.storage.logs import FOLDER, Folder, append, error_of, read_all


def test_a_full_disk_is_an_error_reads_go_on_and_writes_resume() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a" * 100)
    folder.fault.capacity_bytes = folder.fault.used_bytes + 150
    for value in (b"b" * 200, b"c" * 100):  # the second fits, but its record does not
        with pytest.raises(DiskFull, match="no space left"):
            append(log, value)
        assert (log.state, log.last, log.written) == (LogState.ACTIVE, 1, 1)
        assert read_all(log) == {1: b"a" * 100}
    folder.fault.capacity_bytes = None
    assert append(log, b"d") == (2, 2)
    assert read_all(folder.kill()) == {1: b"a" * 100, 2: b"d"}


@pytest.mark.parametrize("room", range(0, 400, 7))
def test_nothing_of_a_failed_tick_is_left_whatever_the_room(room: int) -> None:
    folder = Folder(settings=LogSettings(segment_bytes=100))
    log = folder.log()
    append(log, b"first", producer=(9, 0, 0), epoch=1)
    kept = {path: folder.fault.content(path) for path in folder.fault.paths() if path.startswith(FOLDER)}
    folder.fault.capacity_bytes = folder.fault.used_bytes + room
    for n in range(6):
        append(log, b"%d" % n * 30, producer=(9, 0, 1 + n), epoch=2, now_ms=9000, write=False)
    with pytest.raises(DiskFull):
        log.tail.write()
    assert (log.last, log.written, log.epochs, log.state) == (1, 1, [(1, 1)], LogState.ACTIVE)
    assert log.tail.check_producer(9, 0, 1, 1).outcome is Outcome.APPEND
    left = {path: folder.fault.content(path) for path in folder.fault.paths() if path.startswith(FOLDER)}
    assert left == kept
    folder.fault.capacity_bytes = None
    assert append(log, b"second", now_ms=2000) == (2, 2)
    assert read_all(folder.kill()) == {1: b"first", 2: b"second"}


def test_a_failed_fsync_stops_the_partition_for_good_and_no_other() -> None:
    folder = Folder()
    log, other = folder.log(), folder.log(1)
    append(log, b"a")
    append(other, b"a")
    folder.fault.fail_sync = lambda path: path.startswith(FOLDER + "/")
    with pytest.raises(LogFailed, match="fsync failed"):
        log.flush()
    other.flush()
    folder.fault.fail_sync = lambda path: False
    with pytest.raises(LogFailed, match="fsync failed"):
        log.flush()
    assert isinstance(error_of(log), LogFailed)
    assert (log.state, log.synced, other.state, other.synced) == (LogState.FAILED, 0, LogState.ACTIVE, 1)
    assert read_all(log) == {1: b"a"}, "reads go on"
    log = folder.kill()
    assert (log.state, log.synced, read_all(log)) == (LogState.ACTIVE, 1, {1: b"a"}), (
        "written again at the next start"
    )


def test_a_failed_log_makes_the_stop_an_unclean_one() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a")
    folder.fault.fail_sync = lambda path: path.startswith(FOLDER)
    with pytest.raises(LogFailed):
        log.flush()
    folder.fault.fail_sync = lambda path: False
    assert folder.reopen().last == 1
    assert not folder.data.recovered.clean


def test_a_write_error_other_than_a_full_disk_fails_the_partition() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a")
    folder.fault.fail_write = lambda path: path.endswith(".index")
    with pytest.raises(DiskFailed):
        append(log, b"b")
    folder.fault.fail_write = lambda path: False
    assert isinstance(error_of(log), LogFailed)
    assert read_all(log) == {1: b"a"}


def test_few_descriptors_are_enough_for_many_partitions() -> None:
    folder = Folder()
    folder.data.files.limit = 6
    logs = [folder.log(partition) for partition in range(50)]
    for turn in range(3):
        for partition, log in enumerate(logs):
            append(log, b"%d/%d" % (partition, turn))
            assert len(folder.data.files) <= 6
    for partition, log in enumerate(logs):
        assert read_all(log) == {turn + 1: b"%d/%d" % (partition, turn) for turn in range(3)}
        log.flush()
    assert len(folder.data.files) <= 6


def test_idle_partitions_hold_no_file_open() -> None:
    folder = Folder()
    for partition in range(100):
        append(folder.log(partition), b"x")
    folder.reopen()
    for partition in range(100):
        folder.log(partition)
    assert len(folder.data.files) == 0


def test_without_descriptors_a_request_fails_and_the_partition_goes_on() -> None:
    folder = Folder()
    log, other = folder.log(), folder.log(1)
    append(log, b"a")
    stretch = log.read(1, 100, 1)
    assert stretch is not None
    folder.fault.max_open_files = folder.fault.open_files
    assert error_of(other, b"b") is None, "unused files were closed for it"
    other_stretch = other.read(1, 100, 1)
    assert other_stretch is not None
    folder.fault.max_open_files = 3
    third = folder.log(2)
    assert isinstance(error_of(third), TooManyOpenFiles)
    assert third.state is LogState.ACTIVE
    stretch.file.release()
    other_stretch.file.release()
    assert error_of(third) is None
    assert read_all(third) == {1: b"x"}


def test_a_file_that_cannot_be_synced_on_closing_fails_its_log() -> None:
    folder = Folder()
    folder.data.files.limit = 2
    log = folder.log()
    append(log, b"a")
    folder.fault.fail_sync = lambda path: path.startswith(FOLDER + "/")
    append(folder.log(1), b"b")
    folder.fault.fail_sync = lambda path: False
    assert isinstance(error_of(log), StorageError)
    assert log.state is LogState.FAILED


def test_the_flusher_syncs_in_threads_and_tells_the_loop() -> None:
    folder = Folder()
    loop, heard = Posting(), list[PartitionLog]()
    flusher = Flusher(folder.disk, loop.post, heard.append)
    logs = [folder.log(partition) for partition in range(10)]
    for log in logs:
        append(log, b"a")
        flusher.request(log, log.last)
        append(log, b"b")
        flusher.request(log, log.last)
    while len(heard) < 20:
        loop.run_one()
    assert sorted(log.partition for log in heard) == sorted([*range(10), *range(10)])
    assert all(log.synced == 2 for log in logs)
    flusher.request(logs[0], 2)
    flusher.close()
    assert len(heard) == 20, "what is synced is not synced again"


def test_the_flusher_tells_of_errors_too() -> None:
    folder = Folder()
    loop, heard = Posting(), list[PartitionLog]()
    flusher = Flusher(folder.disk, loop.post, heard.append)
    log = folder.log()
    append(log, b"a")
    folder.fault.fail_sync = lambda path: True
    flusher.request(log, 1)
    loop.run_one()
    assert heard == [log]
    assert (log.state, log.synced) == (LogState.FAILED, 0)
    flusher.request(log, 1)
    flusher.close()


def test_a_truncation_during_an_fsync_is_not_taken_for_durable() -> None:
    folder = Folder()
    log = folder.log()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    work = log.begin_flush()
    assert work is not None
    work.run(folder.disk)
    log.truncate_to(1)
    append(log, b"other")
    log.end_flush(work)
    assert (log.synced, log.written) == (1, 2)
    log.flush()
    assert log.synced == 2


def test_closing_the_flusher_finishes_what_is_under_way() -> None:
    folder = Folder()
    loop, heard = Posting(), list[PartitionLog]()
    flusher = Flusher(folder.disk, loop.post, heard.append)
    log = folder.log()
    append(log, b"a")
    flusher.request(log, 1)
    flusher.close()
    assert heard == [log]
    assert log.synced == 1


def test_no_fsync_waits_behind_long_work_and_closing_cancels_it() -> None:
    folder = Folder()
    loop, heard = Posting(), list[PartitionLog]()
    flusher = Flusher(folder.disk, loop.post, heard.append, threads=1)
    log = folder.log()
    may_end, ends = threading.Event(), list[str]()

    def job() -> None:
        may_end.wait(30)

    flusher.run_long(job, lambda: ends.append("first"), may_end.set)
    flusher.run_long(job, lambda: ends.append("second"), may_end.set)
    append(log, b"a")
    flusher.request(log, 1)
    loop.run_one()
    assert (heard, log.synced, ends) == ([log], 1, [])
    flusher.close()
    assert may_end.is_set()
    assert ends == ["first", "second"]


def test_the_checkpoint_is_written_in_a_thread_when_something_changed() -> None:
    folder = Folder()
    loop = Posting()
    flusher = Flusher(folder.disk, loop.post)
    log = folder.log()
    append(log, b"a")
    log.flush()
    folder.data.write_checkpoint_with(flusher)
    loop.run_one()
    changes = folder.fault.changes
    folder.data.write_checkpoint_with(flusher)
    assert folder.fault.changes == changes, "nothing changed since"
    flusher.close()
    folder.kill()
    assert folder.data.recovered.messages_checked == 0


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a")
    log.flush()
    folder.data.write_checkpoint()
    append(log, b"b")
    log.flush()
    folder.fault.capacity_bytes = folder.fault.used_bytes
    with pytest.raises(StorageError):
        folder.data.write_checkpoint()
    folder.fault.capacity_bytes = None
    assert folder.data.checkpoint_due
    log = folder.kill()
    assert folder.data.recovered.messages_checked == 1
    assert log.last == 2


def test_the_disk_for_tests_forgets_what_was_not_synced() -> None:
    import random

    disk = FaultDisk()
    fd = disk.open("/file", create=True)
    disk.sync_folder("/")
    disk.write_at(fd, [b"synced"], 0)
    disk.sync(fd)
    disk.write_at(fd, [b"lost"], 6)
    outcomes = set()
    for seed in range(20):
        copy = FaultDisk()
        copy_fd = copy.open("/file", create=True)
        copy.sync_folder("/")
        copy.write_at(copy_fd, [b"synced"], 0)
        copy.sync(copy_fd)
        copy.write_at(copy_fd, [b"lost"], 6)
        copy.lose_power(random.Random(seed))
        outcomes.add(copy.content("/file"))
    assert outcomes == {b"synced", b"syncedlost"}


def test_what_was_staged_before_damage_was_found_is_refused_not_forgotten() -> None:
    folder = Folder(settings=LogSettings(replication_factor=3))
    log = folder.log()
    append(log, b"a")
    log.segments[0].index.drop_memory()
    append(log, b"b", write=False)
    path = f"{FOLDER}/{1:020d}.log"
    folder.fault.overwrite(path, bytes(len(folder.fault.content(path))))
    assert log.scrub(1 << 20).bad
    with pytest.raises(LogDamaged):
        log.tail.write()
    assert log.last == 1


def test_an_older_checkpoint_never_replaces_a_newer_one() -> None:
    folder = Folder()
    loop = Posting()
    log = folder.log()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.flush()
    jobs: list[Callable[[], None]] = []

    class Slow(Flusher):
        def run(self, job: Callable[[], None], done: Callable[[], None]) -> None:
            jobs.append(job)

    folder.data.write_checkpoint_with(Slow(folder.disk, loop.post))
    log.truncate_to(1)
    jobs[0]()
    log = folder.kill()
    assert (log.state, log.last) == (LogState.ACTIVE, 1)
    assert not folder.data.recovered.damaged
