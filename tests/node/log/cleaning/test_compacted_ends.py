"""Segments that end before the next one's name: compaction took what was there, or it never reached
the disk."""

from collections.abc import Callable

import pytest

from tank_node.log.cleaning import compaction
from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome
from tank_node.log.pushed import append_stretch
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import StorageError
from tests.support.nodes.replicas import push, stretch_of
from tests.support.storage.logs import FOLDER, Folder, append, read_all

REPLICATED = LogSettings(replication_factor=3)
COMPACTED = LogSettings(segment_bytes=120, compact=True, min_cleanable_ratio=0.0, replication_factor=3)


def keyed(count: int) -> tuple[Folder, PartitionLog]:
    """Each segment loses its last batch to the next one's first, and some lose all."""
    folder = Folder(settings=COMPACTED)
    log = folder.log()
    for number in range(count):
        append(log, b"%04d" % number, keys=[b"k%d" % (number % 2 * number % 5)])
    log.roll()
    log.flush()
    return folder, log


@pytest.mark.parametrize("roll_only", [True, False])
def test_a_lost_tail_is_missed_though_the_leader_had_compacted_what_is_left(roll_only: bool) -> None:
    ours = Folder(settings=LogSettings(compact=True, min_cleanable_ratio=0.0, replication_factor=3))
    leader = ours.log()
    for number in range(40):
        append(leader, b"%04d" % number, keys=[b"k%d" % (number % 20)])
    leader.roll()
    leader.flush()
    maintain(leader, 10_000, leader.last)
    assert len(read_all(leader)) == 20
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    append_stretch(log, stretch_of(leader, 1, 150), 0)
    log.flush()
    end = log.last
    assert 20 < end < 40
    whole = {path: folder.fault.content(path) for path in folder.fault.paths() if path.startswith(FOLDER)}
    push(leader, log)
    log.roll()
    if not roll_only:
        append(log, b"behind it")
    folder.fault.kill_process()
    for path, content in whole.items():  # their sizes, too, are as they were at the fsync
        folder.fault.overwrite(path, content)
    log = folder.reopen_after_power_loss()
    if roll_only:
        assert (log.state, log.last) == (LogState.ACTIVE, end), "not 40, which it has not"
    else:
        assert (log.state, log.reason) == (
            LogState.DAMAGED,
            f"the messages {end + 1} to 40 are missing, and good ones follow",
        )


@pytest.mark.parametrize("without", ["nothing", "checkpoint"])
def test_what_compaction_took_is_not_missed(without: str) -> None:
    folder, log = keyed(40)
    maintain(log, 10_000, log.last)
    kept = read_all(log)
    assert len(kept) < 10
    ends = [segment.last + 1 for segment in log.segments.list[:-1]]
    assert ends != [segment.base for segment in log.segments.list[1:]]
    if without != "nothing":
        folder.fault.delete(f"/data/{without}")
    log = folder.kill()
    assert (log.state, log.last, read_all(log)) == (LogState.ACTIVE, 40, kept), log.reason


class Never:
    """Does the work, and the process ends before anybody hears of it."""

    def run_long(self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]) -> None:
        job()


def test_nor_what_a_compaction_took_whose_end_nobody_saw() -> None:
    folder, log = keyed(40)
    maintain(log, 10_000, log.last, Never())
    assert folder.fault.paths(".swap")
    log = folder.kill()
    assert (log.state, log.last) == (LogState.ACTIVE, 40), log.reason
    assert len(read_all(log)) < 10


def test_without_the_promise_no_compaction_begins() -> None:
    folder, log = keyed(40)
    folder.fault.fail_write = lambda path: "checkpoint" in path
    with pytest.raises(StorageError):
        maintain(log, 10_000, log.last)
    assert (log.compaction, len(read_all(log))) == (None, 40)
    folder.fault.fail_write = lambda path: False
    maintain(log, 10_001, log.last)
    assert len(read_all(log)) == 40, "not at once again"
    maintain(log, 10_000 + compaction.RETRY_MS, log.last)
    assert len(read_all(log)) < 10


def test_what_producers_memory_consists_of_stays_so_that_a_replica_that_copies_it_learns_it() -> None:
    log = Folder(settings=COMPACTED).log()
    for turn in range(8):
        append(log, b"%d" % turn, keys=[b"k"], producer=(9, 0, turn))
    log.roll()
    log.flush()
    maintain(log, 10_000, log.last)
    assert read_all(log) == {n: b"%d" % (n - 1) for n in range(4, 9)}
    copy = Folder(settings=COMPACTED).log()
    push(log, copy)
    verdict = copy.tail.check_producer(9, 0, 8, 1)
    assert verdict.outcome is Outcome.APPEND
    assert copy.tail.check_producer(9, 0, 3, 1).outcome is Outcome.REPEAT


def test_a_log_goes_on_ending_with_a_batch_or_nobody_who_copies_it_would_have_its_end() -> None:
    log, copy = Folder(settings=COMPACTED).log(), Folder(settings=COMPACTED).log()
    append(log, b"1", keys=[b"k"])
    append(log, b"")
    append(log, b"", b"")
    for kept in ([1, 3, 4], [1, 5]):
        log.roll()
        log.flush()
        maintain(log, 10_000, log.last)
        assert list(read_all(log)) == kept, "what is not the newest any more goes"
        push(log, copy)
        assert copy.last == log.last
        append(log, b"5", keys=[b"other"])
