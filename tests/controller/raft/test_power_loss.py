"""The controller's disk loses its power between any two operations, and in the middle of any write."""

import contextlib
from pathlib import Path

import pytest

from tank_controller.raft.core import Raft
from tank_controller.raft.messages import HardState, LogEntry
from tank_controller.raft_node.replay import (
    StoredRaft,
)
from tank_controller.raft_node.storage import RaftStorage
from tests.controller.raft.fault_files import FaultFiles, PowerLostError
from tests.controller.raft.stored import (
    FOUNDING,
    ONE,
    TWO,
    content,
    entry,
    found,
    snapshot,
    storage,
)


def story(disk: RaftStorage, done: list[tuple[HardState, list[LogEntry], int]]) -> None:
    """A life: birth, entries, conflicts, snapshots, one from the leader. Notes what has been promised."""
    hard, entries, snapped = HardState(1, None, 1), [FOUNDING], 0

    def note() -> None:
        done.append((hard, list(entries), snapped))

    if disk.open() is None:
        disk.begin("c", hard, entries)
    note()
    for index in range(2, 8):
        hard = HardState(1, TWO, index - 1)
        entries.append(entry(index))
        disk.persist(hard, None, [entries[-1]])
        note()
    hard = HardState(2, None, 6)
    entries[6:] = [entry(7, 2), entry(8, 2)]
    disk.persist(hard, None, entries[6:])
    note()
    for index in (3, 6):
        disk.save_snapshot(snapshot(index))
        snapped = index
        note()
    hard, snapped = HardState(4, ONE, 20), 20
    entries[:] = [entry(21, 4)]
    disk.persist(hard, snapshot(20, 3), entries)
    note()
    for index in (22, 23):
        entries.append(entry(index, 4))
        disk.persist(hard, None, [entries[-1]])
        note()


def fits(stored: StoredRaft, promised: tuple[HardState, list[LogEntry], int]) -> bool:
    """Whether the disk holds what was promised; entries that a snapshot holds may be gone."""
    hard, entries, snapped = promised
    kept = [e for e in entries if e.index > stored.base[0]]
    return content(stored) == (hard, kept, snapped)


@pytest.mark.parametrize("segment_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("torn_bytes", [None, 0, 1, 17, 40])
def test_after_a_power_failure_at_any_operation_it_is_what_was_promised_or_what_was_under_way(
    segment_bytes: int, torn_bytes: int | None
) -> None:
    whole: list[tuple[HardState, list[LogEntry], int]] = []
    undisturbed = FaultFiles()
    story(storage(undisturbed, segment_bytes), whole)
    for at in range(undisturbed.operations):
        files = FaultFiles()
        files.power_lost_at, files.torn_bytes = at, torn_bytes
        done: list[tuple[HardState, list[LogEntry], int]] = []
        with pytest.raises(PowerLostError):
            story(storage(files, segment_bytes), done)
        check_restart(files.after_power_loss(), whole, len(done), segment_bytes, at)


def check_restart(
    files: FaultFiles,
    whole: list[tuple[HardState, list[LogEntry], int]],
    done: int,
    segment_bytes: int,
    at: int,
) -> None:
    """What it finds is what was noted last, or the step behind it, or the first half of an install."""
    stored = storage(files, segment_bytes).open()
    if stored is None:
        assert done == 0, f"power lost at {at}: a disk that was born is empty"
        return
    under_way = whole[done] if done < len(whole) else whole[-1]
    before = whole[done - 1] if done else under_way
    installing = under_way[2] == 20 and before[2] != 20
    half = (before[0], [], 20) if installing else before
    assert any(fits(stored, promised) for promised in (before, under_way, half)), f"power lost at {at}"
    again = storage(files.after_power_loss(), segment_bytes).open()
    assert again is not None
    assert content(again) == content(stored), "a second start finds the same"
    Raft(ONE, "c", again.hard, again.snapshot, again.entries, lambda below: 0, base=again.base)


def test_a_start_that_loses_its_power_finds_the_same_at_the_next() -> None:
    for segment_bytes in (1, 1 << 20):
        files = FaultFiles()
        done: list[tuple[HardState, list[LogEntry], int]] = []
        story(storage(files, segment_bytes), done)
        torn = dict(files.durable)
        last = max(name for name in torn if name.endswith(".raft"))
        torn[last] += b"\xf7TKf torn"
        expected = content(found(FaultFiles(torn), segment_bytes))
        for at in range(6):
            starting = FaultFiles(torn)
            starting.power_lost_at = at
            with contextlib.suppress(PowerLostError):
                storage(starting, segment_bytes).open()
            assert content(found(starting.after_power_loss(), segment_bytes)) == expected


def test_it_is_the_same_on_a_real_disk(tmp_path: Path) -> None:
    folder = tmp_path / "raft"
    disk = RaftStorage(folder, segment_bytes=300, snapshot_after_bytes=100)
    done: list[tuple[HardState, list[LogEntry], int]] = []
    story(disk, done)
    disk.close(commit=23)
    assert not disk.snapshot_due or disk.failed is None
    again = RaftStorage(folder)
    stored = again.open()
    assert stored is not None
    assert fits(stored, (HardState(4, ONE, 23), done[-1][1], 20))
    assert again.disk == disk.disk


@pytest.mark.parametrize("segment_bytes", [1, 200])
def test_what_is_promised_after_a_kill_at_any_operation_outlives_a_power_failure(segment_bytes: int) -> None:
    undisturbed = FaultFiles()
    story(storage(undisturbed, segment_bytes), [])
    for at in range(undisturbed.operations):
        files = FaultFiles()
        files.power_lost_at, files.names_are_late = at, True
        with pytest.raises(PowerLostError):
            story(storage(files, segment_bytes), [])
        killed = files.after_kill()
        again = storage(killed, 1 << 20)
        if again.open() is None:
            continue
        again.persist(HardState(9, TWO, 1), None, [])
        assert found(killed.after_power_loss()).hard == HardState(9, TWO, 1), at
