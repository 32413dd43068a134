"""The power goes at every change that a busy log makes: what was synced is there afterwards, with the same
bytes."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome
from tank_node.log.settings import LogSettings
from tests.support.nodes.replicas import records_of
from tests.support.storage.fault_disk import PowerLoss
from tests.support.storage.logs import Folder, append, append_sparse, read_all

SETTINGS = LogSettings(segment_bytes=300, replication_factor=1)
PRODUCER = 77


@dataclass
class Told:
    """What clients were told, or could have seen."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    """Producer's sequence -> number, acknowledged."""
    sent: dict[int, set[bytes]] = field(default_factory=dict)
    """Every value that was ever appended at a number."""


def acknowledge(log: PartitionLog, told: Told, pending: dict[int, bytes], sequences: dict[int, int]) -> None:
    log.flush()
    told.acknowledged |= {n: v for n, v in pending.items() if n <= log.synced}
    told.sequences |= {s: n for s, n in sequences.items() if n <= log.synced}


def busy_life(folder: Folder, told: Told) -> Iterator[None]:
    """Appends, rolls, fsyncs, checkpoints, a restart: a step at a time."""
    log = folder.log()
    pending: dict[int, bytes] = {}
    sequences: dict[int, int] = {}
    sequence = 0
    for turn in range(12):
        for n in range(3):
            value = b"%d/%d " % (turn, n) * (3 + 10 * (n == 1))
            number = log.last + 1
            told.sent.setdefault(number, set()).add(value)
            append(
                log,
                value,
                now_ms=1000 * turn,
                producer=(PRODUCER, 0, sequence),
                epoch=turn // 4,
                write=n == 2,
            )
            pending[number] = value
            sequences[sequence] = number
            sequence += 1
        yield
        if turn % 2:
            acknowledge(log, told, pending, sequences)
            yield
        if turn == 5:
            number = log.last + 5
            told.sent.setdefault(number, set()).add(b"five")
            told.sent.setdefault(number + 4, set()).add(b"nine")
            append_sparse(log, [number, number + 4], b"five", b"nine")
            pending |= {number: b"five", number + 4: b"nine"}
        if turn % 3 == 2:
            folder.data.write_checkpoint()
            yield
        if turn == 7:
            log.roll()
        if turn == 8:
            acknowledge(log, told, pending, sequences)
            log = folder.reopen()


def live_until(folder: Folder, told: Told, change: int) -> bool:
    """Whether the power went before everything was done."""
    folder.fault.stop_at = folder.fault.changes + change
    try:
        for _ in busy_life(folder, told):
            pass
    except PowerLoss:
        return True
    return False


def all_is_well(log: PartitionLog, told: Told) -> None:
    assert log.state is LogState.ACTIVE, log.reason
    stored = read_all(log)
    for number, value in told.acknowledged.items():
        assert stored.get(number) == value, f"the acknowledged message {number}"
    for number, value in stored.items():
        assert value in told.sent[number], f"message {number} was never sent like this"
    assert log.last >= max(told.acknowledged, default=0)
    assert log.synced == log.last
    newest = max(told.sequences, default=-1)
    nobodys = {record.first for record in records_of(log) if not record.producer_id}
    """Made anew by parsing, for a lost index: whose they are, nobody knows."""
    for sequence in range(max(newest - 4, 0), newest + 1):
        verdict = log.tail.check_producer(PRODUCER, 0, sequence, 1)
        is_repeat = verdict.outcome in (Outcome.REPEAT, Outcome.OLD_REPEAT)
        is_refused = verdict.outcome is Outcome.GAP and told.sequences[sequence] in nobodys
        assert is_repeat or is_refused, f"sequence {sequence} was acknowledged"
        if verdict.outcome is Outcome.REPEAT:
            assert verdict.first == told.sequences[sequence]
    assert not log.scrub(1 << 20).bad


def changes_of_a_life() -> int:
    folder = Folder(settings=SETTINGS)
    before = folder.fault.changes
    for _ in busy_life(folder, Told()):
        pass
    return folder.fault.changes - before


TOTAL = changes_of_a_life()


@pytest.mark.parametrize("seed", range(2))
def test_power_loss_at_every_change(seed: int) -> None:
    assert TOTAL > 100
    for change in range(TOTAL):
        folder, told = Folder(settings=SETTINGS), Told()
        assert live_until(folder, told, change)
        folder.fault.lose_power(random.Random(f"{seed}/{change}"))
        log = folder.reopen_after_power_loss()
        all_is_well(log, told)
        append(log, b"next")
        log.flush()
        assert read_all(folder.reopen())[log.last] == b"next"


def test_power_loss_while_recovering_from_a_power_loss() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        folder, told = Folder(settings=SETTINGS), Told()
        live_until(folder, told, chance.randrange(TOTAL))
        for _ in range(4):
            folder.fault.lose_power(chance)
            folder.fault.stop_at = folder.fault.changes + chance.randrange(25)
            try:
                folder.reopen_after_power_loss()
            except PowerLoss:
                continue
        folder.fault.lose_power(chance)
        all_is_well(folder.reopen_after_power_loss(), told)


@pytest.mark.parametrize("seed", range(2))
def test_kill_at_every_change_loses_nothing_that_was_written(seed: int) -> None:
    for change in range(seed, TOTAL, 2):
        folder, told = Folder(settings=SETTINGS), Told()
        assert live_until(folder, told, change)
        all_is_well(folder.kill(), told)


@pytest.mark.long
def test_power_loss_at_every_change_with_many_outcomes() -> None:
    for seed in range(100, 160):
        test_power_loss_at_every_change(seed)
