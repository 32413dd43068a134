"""What goes, and what must not: retention by time, size and count; and the age at which segments roll."""

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.cleaning.retention import SegmentFacts, expired
from tank_node.log.epoch_history import epoch_at
from tank_node.log.settings import LogSettings
from tests.support.storage.logs import Folder, append, read_all

SEALED = [SegmentFacts(10 * n + 10, 100, 1000 * n) for n in range(5)]  # ends 10..50, times 0..4000


def gone(settings: LogSettings, *, now_ms: int = 0, mark: int = 100, active_bytes: int = 50) -> int:
    return expired(SEALED, active_bytes, settings, now_ms, mark)


def test_without_limits_everything_stays() -> None:
    assert gone(LogSettings(), now_ms=10**15) == 0


def test_by_time_whole_segments_go_when_their_newest_batch_is_old() -> None:
    settings = LogSettings(retention_ms=500)
    assert [gone(settings, now_ms=now) for now in (500, 501, 1501, 2500, 10**9)] == [0, 1, 2, 2, 5]


def test_by_size_segments_go_while_the_partition_is_larger() -> None:
    sizes = (549, 550, 551, 451, 450, 449, 60, 10)
    assert [gone(LogSettings(retention_bytes=size)) for size in sizes] == [1, 0, 0, 1, 1, 2, 5, 5]


def test_by_count_the_active_segment_counts() -> None:
    assert [gone(LogSettings(retention_segments=count)) for count in (2, 3, 5, 6, 7)] == [4, 3, 1, 0, 0]


def test_nothing_above_the_high_water_mark_goes() -> None:
    settings = LogSettings(retention_bytes=1)
    assert [gone(settings, mark=mark) for mark in (0, 9, 10, 29, 30, 50)] == [0, 0, 1, 2, 3, 5]


def fill(folder: Folder, count: int) -> None:
    for n in range(count):
        append(folder.log(), b"%03d" % n * 10, now_ms=1000 * n)


def test_a_log_forgets_its_oldest_segments_and_says_where_it_begins() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=150, retention_segments=3))
    fill(folder, 30)
    log = folder.log()
    maintain(log, 0, log.last)
    assert len(log.segments) == 3
    assert log.first_available == log.segments[0].base == min(read_all(log)) > 1
    assert log.size_bytes == sum(len(folder.fault.content(path)) for path in folder.fault.paths(".log"))
    assert len(folder.fault.paths(".index")) == 3
    begin = log.first_available
    for reopened in (folder.kill, folder.reopen):
        log = reopened()
        assert (log.first_available, log.last) == (begin, 30)
    assert append(log, b"next") == (31, 31)


def test_the_high_water_mark_holds_segments_back() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=150, retention_bytes=1))
    fill(folder, 30)
    log = folder.log()
    maintain(log, 0, 7)
    assert log.first_available <= 8
    assert set(range(8, 31)) <= read_all(log).keys()


def test_an_idle_partition_expires_wholly_and_goes_on_at_its_number() -> None:
    folder = Folder(settings=LogSettings(retention_ms=5000))
    fill(folder, 10)
    log = folder.log()
    maintain(log, 14_000, 10)
    assert (log.first_available, len(read_all(log))) == (1, 10), "its newest batch is just young enough"
    maintain(log, 14_001, 10)
    assert (log.first_available, log.last, read_all(log), log.size_bytes) == (11, 10, {}, 0)
    for reopened in (folder.kill, folder.reopen):
        log = reopened()
        assert (log.first_available, log.last, log.synced) == (11, 10, 10)
    assert append(log, b"next") == (11, 11)
    assert read_all(log) == {11: b"next"}


def test_the_epoch_history_keeps_the_epoch_of_what_is_left() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=60, retention_segments=2))
    log = folder.log()
    for n in range(12):
        append(log, b"%03d" % n * 10, epoch=n // 3)
    maintain(log, 0, log.last)
    assert log.epochs == [(3, 10)]
    assert log.first_available >= 10


def test_a_removed_segment_loses_its_names_before_its_files_close() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=150, retention_segments=2))
    fill(folder, 30)
    log = folder.log()
    there = set(folder.fault.paths(".log"))
    left: list[set[str]] = []
    folder.data.files.close_deleted = lambda fd: left.append(set(folder.fault.paths(".log")))
    maintain(log, 0, log.last)
    kept = {segment.path(".log") for segment in log.segments}
    assert len(left) == 2 * len(there - kept), "two files of each segment"
    gone = sorted(there - kept)
    for n, paths in enumerate(left):
        assert paths.isdisjoint(gone[: n // 2 + 1]), "the names of its segment, and of those before it"


def test_a_log_start_within_a_batch_is_exact_and_outlives_every_end() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"1", b"2", b"3")
    append(log, b"4", b"5")
    log.flush()
    log.retain_from(2)
    folder.data.write_checkpoint()
    for reopened in (folder.kill, folder.reopen):
        log = reopened()
        assert (log.first_available, log.first_batch, log.last) == (2, 1, 5)
    log.retain_from(4)
    assert (log.first_available, log.first_batch) == (4, 4)


def test_a_start_behind_staged_batches_is_taken_and_the_old_files_go_later() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"1", b"2")
    append(log, b"3", write=False)
    log.retain_from(3)
    assert (log.first_available, len(log.segments)) == (3, 1)
    log.tail.write()
    assert read_all(log) == {3: b"3"}
    log.roll()
    append(log, b"4")
    log.retain_from(4)
    assert [segment.base for segment in log.segments] == [4]


def test_maintenance_removes_what_is_below_the_log_start() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"1", b"2")
    append(log, b"3", write=False)
    log.retain_from(3)
    log.tail.drop()
    log.roll()
    maintain(log, 0, log.last)
    assert [segment.base for segment in log.segments] == [3]


def test_all_of_a_log_may_go() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"1", b"2")
    log.flush()
    log.retain_from(3)
    assert (log.first_available, log.first_batch, log.size_bytes) == (3, 3, 0)
    folder.data.write_checkpoint()
    log = folder.kill()
    assert (log.first_available, log.last) == (3, 2)
    assert append(log, b"3") == (3, 3)


def test_the_epoch_before_the_batch_in_which_a_log_starts_stays_known() -> None:
    """Pushes to a replica that copies the log begin there, and say it."""
    log = Folder(settings=LogSettings(segment_bytes=100)).log()
    for number in range(1, 9):
        append(log, b"%020d" % number, epoch=1)
    log.roll()
    append(log, *[b"%d" % number for number in range(9, 14)], epoch=2)
    log.retain_from(12)
    assert (log.first_available, log.first_batch) == (12, 9)
    assert epoch_at(log.epochs, log.first_batch - 1) == 1
