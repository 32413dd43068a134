"""What a log says of itself is true: nothing is called synced that the disk may not have, and no log that was
found damaged is taken for a good one."""

import random

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.flush_work import TOGETHER_FROM, FlushWork, run_together
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import LogDamaged, LogFailed
from tests.support.storage.fault_disk import FaultDisk
from tests.support.storage.logs import FOLDER, Folder, append, read_all

REPLICATED = LogSettings(segment_bytes=100, replication_factor=3)


class TellsOnce(FaultDisk):
    """A kernel that lost what was written, and tells the next `syncfs` of it: only that one."""

    told = False

    def sync_file_system(self, fd: int) -> bool:
        if not self.told:
            self.told = True
            raise OSError(5, "Input/output error")
        return True


def rounds(folder: Folder, partitions: range) -> list[tuple[PartitionLog, FlushWork]]:
    works = []
    for partition in partitions:
        log = folder.log(partition)
        append(log, b"x")
        work = log.begin_flush()
        assert work is not None
        works.append((log, work))
    return works


def test_after_one_error_of_syncfs_each_file_is_asked_itself() -> None:
    folder = Folder(TellsOnce())
    healthy = rounds(folder, range(TOGETHER_FROM))
    lost = rounds(folder, range(TOGETHER_FROM, 2 * TOGETHER_FROM))
    folder.fault.fail_sync = lambda path: f"/{TOGETHER_FROM}/" in path
    run_together(folder.disk, [work for _, work in healthy])
    run_together(folder.disk, [work for _, work in lost])
    for log, work in healthy + lost:
        log.end_flush(work)
    assert [log.partition for log in folder.data.logs.values() if log.state is LogState.FAILED] == [
        TOGETHER_FROM
    ]


@pytest.mark.parametrize("evicted", [".log", ".index"])
def test_a_file_that_could_not_be_synced_on_closing_is_never_called_synced(evicted: str) -> None:
    folder = Folder()
    folder.data.files.limit = 2
    log = folder.log()
    append(log, b"a")
    folder.fault.fail_sync = lambda path: path.startswith(FOLDER + "/") and path.endswith(evicted)
    append(folder.log(1), b"b")
    folder.fault.fail_sync = lambda path: False
    with pytest.raises(LogFailed):
        log.flush()
    assert (log.state, log.synced) == (LogState.FAILED, 0)


def spoil(folder: Folder) -> PartitionLog:
    """A log of three segments, all synced and checkpointed, whose first batch went bad on the disk."""
    log = folder.log()
    for value in (b"a" * 60, b"b" * 60, b"c" * 60):
        append(log, value)
    log.flush()
    folder.data.write_checkpoint()
    path = f"{FOLDER}/{1:020d}.log"
    content = bytearray(folder.fault.content(path))
    content[-1] ^= 1
    folder.fault.overwrite(path, bytes(content))
    assert log.scrub(1 << 20).bad
    return log


@pytest.mark.parametrize("stop", ["in order", "killed after a checkpoint"])
def test_a_log_found_damaged_is_damaged_after_a_restart_too(stop: str) -> None:
    folder = Folder(settings=REPLICATED)
    spoil(folder)
    if stop == "in order":
        log = folder.reopen()
    else:
        assert folder.data.checkpoint_due
        folder.data.write_checkpoint()
        log = folder.kill()
    assert log.state is LogState.DAMAGED
    with pytest.raises(LogDamaged):
        log.read(1, 100, 3)
    assert len(folder.data.recovered.damaged) == 1


def test_a_log_found_damaged_is_mended_at_a_restart_when_it_is_alone() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=100, replication_factor=1))
    spoil(folder)
    log = folder.reopen()
    assert (log.state, log.last, read_all(log)) == (LogState.ACTIVE, 3, {2: b"b" * 60, 3: b"c" * 60})
    log = folder.reopen()
    assert (log.state, folder.data.recovered.damaged) == (LogState.ACTIVE, []), "once is enough"


def test_a_sealed_segment_whose_index_ends_early_is_no_hole() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=100, replication_factor=3))
    log = folder.log()
    for n in range(8):
        append(log, b"%d" % n * 20)
    folder.data.close()
    indexes = folder.fault.paths(".index")
    short = indexes[1]
    folder.fault.overwrite(short, folder.fault.content(short)[:-64])
    log = folder.kill()
    with pytest.raises(LogDamaged, match="without a record"):
        read_all(log)
    assert log.state is LogState.DAMAGED


def test_damage_met_while_searching_is_remembered() -> None:
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    append(log, b"a" * 60)
    append(log, b"b" * 60)
    index = folder.fault.paths(".index")[0]
    folder.fault.overwrite(index, b"")
    with pytest.raises(LogDamaged):
        log.read(1, 100, 2)
    assert log.state is LogState.DAMAGED


def test_a_log_that_could_not_be_mended_still_answers() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=100))
    log = spoil(folder)
    folder.fault.fail_sync = lambda path: path.endswith(".cleaned")
    maintain(log, 1000, 3)
    assert log.state is LogState.DAMAGED
    assert log.first_available == 0
    with pytest.raises(LogDamaged):
        log.read(1, 100, 3)
    folder.fault.fail_sync = lambda path: False
    maintain(log, 1000, 3)
    assert (log.state, log.first_available, read_all(log)) == (
        LogState.ACTIVE,
        1,
        {2: b"b" * 60, 3: b"c" * 60},
    )


def test_a_segment_begun_before_a_kill_keeps_its_name_when_the_power_goes_later() -> None:
    for seed in range(20):
        folder = Folder(settings=REPLICATED)
        log = folder.log()
        append(log, b"a")
        log.flush()
        folder.data.write_checkpoint()
        log.roll()
        log = folder.kill()
        append(log, b"b")
        log.flush()
        assert log.synced == 2
        folder.fault.lose_power(random.Random(seed))
        log = folder.reopen_after_power_loss()
        assert (log.state, read_all(log)) == (LogState.ACTIVE, {1: b"a", 2: b"b"})


def test_what_is_appended_while_an_fsync_runs_is_synced_by_the_next_one() -> None:
    for seed in range(10):
        folder = Folder()
        log = folder.log()
        append(log, b"a")
        work = log.begin_flush()
        assert work is not None
        work.run(folder.disk)
        append(log, b"b")
        log.end_flush(work)
        assert log.synced == 1
        log.flush()
        assert log.synced == 2
        folder.fault.lose_power(random.Random(seed))
        assert read_all(folder.reopen_after_power_loss()) == {1: b"a", 2: b"b"}


def test_a_segment_that_is_not_synced_is_not_compacted() -> None:
    folder = Folder(settings=LogSettings(compact=True, min_cleanable_ratio=0.0))
    log = folder.log()
    for value in (b"old", b"new"):
        append(log, value, keys=[b"k"])
    log.roll()
    maintain(log, 1000, 2)
    assert (log.compaction, log.segments.compacted_through) == (None, 0)
    log.flush()
    maintain(log, 1000, 2)
    assert log.segments.compacted_through == 2


def test_a_damaged_log_whose_fsync_fails_is_still_not_read() -> None:
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    append(log, b"a" * 60)
    work = log.begin_flush()
    assert work is not None
    folder.fault.fail_sync = lambda path: True
    work.run(folder.disk)
    log.spoiled("a bad batch")
    log.end_flush(work)
    assert (log.state, log.synced) == (LogState.DAMAGED, 0)
    with pytest.raises(LogDamaged):
        log.read(1, 100, 1)


def test_a_step_of_the_scrub_reads_no_more_than_it_checks() -> None:
    folder = Folder()
    log = folder.log()
    for _ in range(100):
        append(log, random.Random(1).randbytes(1000))
    read = folder.fault.bytes_read
    done = log.scrub(5000)
    assert 5000 <= done.bytes < 7000
    assert folder.fault.bytes_read - read < done.bytes + 5000


def test_the_scrub_finds_a_record_that_points_to_the_same_bytes_elsewhere() -> None:
    folder = Folder(settings=LogSettings(replication_factor=3))
    log = folder.log()
    for _ in range(3):
        append(log, b"same")
    log.segments[0].seal()
    path = log.segments[0].path(".index")
    index = bytearray(folder.fault.content(path))
    index[64 + 12 : 64 + 16] = bytes(4)  # the position, which the checksum does not cover
    folder.fault.overwrite(path, bytes(index))
    assert "does not match" in log.scrub(1 << 20).bad


def test_the_scrub_finds_an_index_that_ends_early() -> None:
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    for n in range(8):
        append(log, b"%d" % n * 20)
    folder.data.close()
    short = folder.fault.paths(".index")[1]
    folder.fault.overwrite(short, folder.fault.content(short)[:-64])
    assert "without a record" in folder.kill().scrub(1 << 20).bad


def test_a_damaged_log_gives_no_number_twice_whatever_is_left_of_it() -> None:
    folder = Folder()
    log = folder.log()
    folder.data.write_checkpoint()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.spoiled("a bad batch")
    folder.data.write_checkpoint()
    for path in folder.fault.paths():
        if path.startswith(FOLDER):
            folder.fault.delete(path)
    log = folder.kill()
    assert append(log, b"d") == (4, 4)
