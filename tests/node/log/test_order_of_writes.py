"""In which order a log writes, cuts and syncs its files: what the recovery relies on."""

import os
from collections.abc import Sequence
from pathlib import Path

from tank_node.disk import Buffer, OsDisk
from tank_node.log.log import LogState
from tank_node.log.settings import LogSettings
from tank_node.segment.record import RECORD_BYTES, read_record, sealed
from tests.support.storage.fault_disk import FaultDisk
from tests.support.storage.logs import FOLDER, Folder, append, read_all, written_checkpoint

LOG = f"{FOLDER}/{1:020d}.log"
INDEX = f"{FOLDER}/{1:020d}.index"


class Traced(FaultDisk):
    """Notes what is done to the files of segments and their folder."""

    def __init__(self) -> None:
        super().__init__()
        self.trace: list[str] = []

    def _note(self, what: str, path: str) -> None:
        if path.startswith(FOLDER):
            self.trace.append(f"{what} {os.path.splitext(path)[1] or 'folder'}")

    def write_at(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._note("write", self._paths[fd])
        return super().write_at(fd, buffers, position)

    def truncate(self, fd: int, length: int) -> None:
        if len(self._open[fd].data) > length:
            self._note("cut", self._paths[fd])
        super().truncate(fd, length)

    def sync(self, fd: int) -> None:
        self._note("sync", self._paths[fd])
        super().sync(fd)

    def sync_folder(self, path: str) -> None:
        self._note("sync", path)
        super().sync_folder(path)


def traced(settings: LogSettings | None = None) -> tuple[Folder, Traced]:
    disk = Traced()
    return Folder(disk, settings=settings), disk


def test_the_batches_are_written_before_their_records() -> None:
    folder, disk = traced()
    log = folder.log()
    append(log, b"a", write=False)
    append(log, b"b")
    assert disk.trace == ["write .log", "write .index"]


def test_both_files_are_synced_and_then_a_new_segments_folder() -> None:
    folder, disk = traced()
    log = folder.log()
    append(log, b"a")
    disk.trace.clear()
    log.flush()
    assert disk.trace == ["sync .log", "sync .index", "sync folder"]
    append(log, b"b")
    disk.trace.clear()
    log.flush()
    assert disk.trace == ["sync .log", "sync .index"]


def test_a_truncation_cuts_the_index_makes_that_durable_and_then_cuts_the_log() -> None:
    folder, disk = traced()
    log = folder.log()
    append(log, b"a")
    append(log, b"b")
    disk.trace.clear()
    log.truncate_to(1)
    assert disk.trace == ["cut .index", "sync .index", "cut .log"]


def test_recovery_cuts_in_the_same_order_and_syncs_what_it_keeps() -> None:
    folder, disk = traced()
    log = folder.log()
    append(log, b"a")
    append(log, b"b")
    disk.overwrite(LOG, disk.content(LOG)[:-1])
    disk.trace.clear()
    assert folder.kill().last == 1
    assert disk.trace == [
        *("cut .index", "sync .index", "cut .log"),
        *("write .log", "sync .log", "write .index", "sync .index", "sync folder"),
    ]


def test_a_batch_whose_number_was_given_before_is_not_kept() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a")
    append(log, b"b")
    bytes_, index = folder.fault.content(LOG), folder.fault.content(INDEX)
    second = read_record(index, RECORD_BYTES)
    again = second._replace(first=1, position=second.end)
    batch = bytes_[second.position :]
    folder.fault.overwrite(LOG, bytes_ + batch)
    folder.fault.overwrite(INDEX, index + sealed(batch, again).pack())
    log = folder.kill()
    assert (log.state, log.last, read_all(log)) == (LogState.ACTIVE, 2, {1: b"a", 2: b"b"})


def test_the_times_go_on_over_an_empty_segment_and_a_restart() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a", now_ms=9000, timestamp_ms=77_000)
    log.roll()
    log = folder.reopen()
    append(log, b"b", now_ms=10, timestamp_ms=20)
    record = log.segments[-1].index.record(0)
    assert (record.append_ms, record.max_timestamp_ms) == (9000, 77_000)


def test_the_checkpoint_before_the_last_promises_nothing_that_was_truncated() -> None:
    folder = Folder(settings=LogSettings(replication_factor=3))
    log = folder.log()
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.flush()
    folder.data.write_checkpoint()
    log.truncate_to(1)
    folder.fault.delete("/data/checkpoint")
    log = folder.kill()
    assert (log.state, log.last) == (LogState.ACTIVE, 1)


def test_the_checkpoint_says_nothing_of_what_is_only_written() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a")
    log.flush()
    append(log, b"b")
    log.high_water_mark = 2
    folder.data.write_checkpoint()
    entry = written_checkpoint(folder).entries[7, 0]
    assert (entry.recovery_point, entry.high_water_mark) == (1, 1)


def test_space_that_is_allocated_ahead_is_not_part_of_the_file(tmp_path: Path) -> None:
    disk = OsDisk()
    fd = disk.open(str(tmp_path / "file"), create=True)
    disk.write_at(fd, [b"content"], 0)
    disk.allocate(fd, 7, 1 << 20)
    assert disk.size(fd) == 7
    disk.close(fd)
