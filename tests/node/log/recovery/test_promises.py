"""What the two checkpoint files may promise, above all when one of them could not be written."""

from collections.abc import Callable

import pytest

from tank_node.log.log import PartitionLog
from tank_node.log.recovery import checkpoint
from tank_node.log.refill import begin_anew
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import StorageError
from tests.support.storage.logs import DATA, TOPIC, Folder, append

REPLICATED = LogSettings(replication_factor=3)


def filled(count: int = 10) -> tuple[Folder, PartitionLog]:
    """A log that is synced to its end, and both files say so."""
    folder = Folder(settings=REPLICATED)
    log = folder.log()
    for number in range(count):
        append(log, b"%d" % number)
    log.flush()
    for _ in range(2):
        folder.data.write_checkpoint()
    return folder, log


def promised(folder: Folder) -> list[int]:
    """The recovery points on the disk: of the newest file and of the previous one."""
    points = []
    for name in ("checkpoint", "checkpoint.previous"):
        found = checkpoint.decode(folder.fault.content(f"{DATA}/{name}"))
        points.append(found.entries[TOPIC, 0].recovery_point)
    return points


def refuse(folder: Folder, which: Callable[[int], bool]) -> None:
    """The disk takes no checkpoint, counted from now, of which this is true."""
    count = [0]

    def fails(path: str) -> bool:
        if "checkpoint" not in path:
            return False
        count[0] += 1
        return which(count[0])

    folder.fault.fail_write = fails


@pytest.mark.parametrize("first_is_written", [False, True])
def test_nothing_is_cut_while_one_of_the_two_promises_it(first_is_written: bool) -> None:
    folder, log = filled()
    refuse(folder, lambda count: count > first_is_written)
    for _ in range(3):
        with pytest.raises(StorageError):
            log.truncate_to(8)
        assert max(promised(folder)) == 10
        assert log.written == 10, "not cut"
        refuse(folder, lambda count: True)
    refuse(folder, lambda count: False)
    log.truncate_to(8)
    assert (log.written, max(promised(folder)) <= 8) == (8, True)


def test_another_logs_failure_is_no_promise_lowered() -> None:
    folder, log = filled()
    other = folder.log(1)
    append(other, b"x")
    append(other, b"y")
    other.flush()
    for _ in range(2):
        folder.data.write_checkpoint()
    refuse(folder, lambda count: True)
    with pytest.raises(StorageError):
        other.truncate_to(1)
    with pytest.raises(StorageError):  # lowered with it, in memory alone
        log.truncate_to(8)
    assert (log.written, promised(folder)) == (10, [10, 10])


def test_what_was_dropped_is_not_promised_by_the_previous_one_when_the_next_is_cut() -> None:
    folder, log = filled()
    log.truncate_to(9)  # both are known to this process from here on
    log.flush()
    for _ in range(2):
        folder.data.write_checkpoint()
    assert promised(folder)[0] == 9
    append(log, b"again")
    log.flush()
    for _ in range(2):
        log.segments.changed = True
        folder.data.write_checkpoint()
    begin_anew(log, 100, 1)
    folder.data.write_checkpoint()
    assert promised(folder) == [0, 10]
    log.truncate_to(0)
    assert promised(folder) == [0, 0]


def test_a_promise_is_in_both_files_whatever_was_tried_before() -> None:
    folder, log = filled()
    append(log, b"more")
    log.flush()
    log.high_water_mark = 11
    refuse(folder, lambda count: True)
    with pytest.raises(StorageError):
        folder.data.write_checkpoint()
    with pytest.raises(StorageError):
        log.before_compaction(log, 11)
    refuse(folder, lambda count: False)
    log.before_compaction(log, 11)
    assert promised(folder) == [11, 11]
    changes = folder.fault.changes
    log.before_compaction(log, 11)
    assert folder.fault.changes == changes, "they say it already"


def test_a_partition_that_came_back_is_said_to_be_damaged_on_its_own_account() -> None:
    folder, log = filled()
    log.spoiled("bit rot")
    for _ in range(2):
        folder.data.write_checkpoint()
    folder.data.delete_partition(TOPIC, 0)
    for _ in range(2):
        folder.data.write_checkpoint()
    log = folder.log()
    append(log, b"another replica")
    log.flush()
    log.spoiled("bit rot again")
    begin_anew(log, 1, 0)
    for name in ("checkpoint", "checkpoint.previous"):
        assert checkpoint.decode(folder.fault.content(f"{DATA}/{name}")).entries[TOPIC, 0].damaged
