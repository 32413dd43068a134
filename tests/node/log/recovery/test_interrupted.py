"""Files going away: the process dies, or the power goes, between any two of the steps, and nothing is damaged
or comes back."""

import random

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome
from tank_node.log.settings import LogSettings
from tests.support.storage.fault_disk import PowerLoss
from tests.support.storage.logs import Folder, append, read_all

SETTINGS = LogSettings(segment_bytes=100, replication_factor=3)
PRODUCER = 9


def filled() -> tuple[Folder, PartitionLog]:
    """Six segments of one batch each, synced and checkpointed."""
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for n in range(6):
        append(log, b"%d" % (n + 1) * 60, producer=(PRODUCER, 0, n))
    log.flush()
    folder.data.write_checkpoint()
    return folder, log


def expire(folder: Folder, log: PartitionLog) -> None:
    log.apply_settings(LogSettings(segment_bytes=100, replication_factor=3, retention_segments=2))
    maintain(log, 1000, 6)


def cut_to_two(folder: Folder, log: PartitionLog) -> None:
    log.truncate_to(2)


def stopped(step: int, what: object) -> tuple[Folder, bool]:
    """The folder after so many changes of what is done, and whether it was interrupted."""
    folder, log = filled()
    folder.fault.stop_at = folder.fault.changes + step
    assert callable(what)
    try:
        what(folder, log)
    except PowerLoss:
        return folder, True
    return folder, False


def interruptions(what: object) -> list[int]:
    step = 0
    while stopped(step, what)[1]:
        step += 1
    return list(range(step + 1))


@pytest.mark.parametrize("power", [False, True], ids=["killed", "without power"])
def test_retention_that_is_interrupted_damages_nothing(power: bool) -> None:
    for step in interruptions(expire):
        for seed in range(8 if power else 1):
            folder, _ = stopped(step, expire)
            if power:
                folder.fault.lose_power(random.Random(f"{step}/{seed}"))
            log = folder.reopen_after_power_loss() if power else folder.kill()
            assert log.state is LogState.ACTIVE, f"{step}/{seed}: {log.reason}"
            stored = read_all(log)
            assert {5: b"5" * 60, 6: b"6" * 60}.items() <= stored.items()
            assert list(stored) == list(range(log.first_available, 7)), "no hole"
            assert log.tail.check_producer(PRODUCER, 0, 6, 1).outcome is Outcome.APPEND
            assert log.tail.check_producer(PRODUCER, 0, 5, 1).outcome is Outcome.REPEAT


@pytest.mark.parametrize("power", [False, True], ids=["killed", "without power"])
def test_a_truncation_that_is_interrupted_leaves_no_hole(power: bool) -> None:
    for step in interruptions(cut_to_two):
        for seed in range(8 if power else 1):
            folder, _ = stopped(step, cut_to_two)
            if power:
                folder.fault.lose_power(random.Random(f"{step}/{seed}"))
            log = folder.reopen_after_power_loss() if power else folder.kill()
            assert log.state is LogState.ACTIVE, f"{step}/{seed}: {log.reason}"
            stored = read_all(log)
            assert list(stored) == list(range(1, log.last + 1)), f"{step}/{seed}"
            assert log.last >= 2
            sequence = log.last
            assert log.tail.check_producer(PRODUCER, 0, sequence, 1).outcome is Outcome.APPEND
            assert append(log, b"next", producer=(PRODUCER, 0, sequence)) == (sequence + 1, sequence + 1)
            assert log.tail.check_producer(PRODUCER, 0, sequence, 1).outcome is Outcome.REPEAT
