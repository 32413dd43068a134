"""The disk of a controller: what was persisted is there again; what is damaged is said, never guessed."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tank_controller import raft_records as records
from tank_controller import raft_storage
from tank_controller.journal_format import JournalDamagedError
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import Configuration, Entry, EntryKind, HardState, NodeId, Snapshot
from tank_controller.raft.snapshots import make
from tank_controller.raft_replay import (
    RaftStorageError,
    StorageDamagedError,
    StorageFailedError,
    StorageFullError,
    Stored,
)
from tank_controller.raft_storage import RaftStorage
from tests.controller.raft.fault_files import FaultFiles, PowerLostError

ONE, TWO = NodeId(1, b"disk"), NodeId(2, b"ksid")
MEMBERS = Configuration((ONE, TWO))
FOLDER = Path("raft")
SEGMENT = "00000000000000000001.raft"


def entry(index: int, term: int = 1) -> Entry:
    return Entry(index, term, EntryKind.COMMAND, b"%d of %d" % (index, term))


FOUNDING = Entry(1, 1, EntryKind.CONFIGURATION, MEMBERS.encode())


def snapshot(index: int, term: int = 1) -> Snapshot:
    return make(index, term, MEMBERS, b"state %d" % index)


def storage(files: FaultFiles, segment_bytes: int = 1 << 20) -> RaftStorage:
    """With nonces that are the same in every run."""
    counter = iter(range(1, 1000))
    return RaftStorage(FOLDER, files, lambda n: next(counter).to_bytes(n, "big"), segment_bytes)


def begun(files: FaultFiles, segment_bytes: int = 1 << 20) -> RaftStorage:
    opened = storage(files, segment_bytes)
    if opened.open() is None:
        opened.begin("c", HardState(1, None, 1), [FOUNDING])
    return opened


def found(files: FaultFiles, segment_bytes: int = 1 << 20) -> Stored:
    stored = storage(files, segment_bytes).open()
    assert stored is not None
    return stored


def content(stored: Stored) -> tuple[HardState, list[Entry], int]:
    return stored.hard, stored.entries, stored.snapshot.meta.index if stored.snapshot else 0


def test_an_empty_disk_has_a_uuid_of_its_own_and_no_cluster() -> None:
    files = FaultFiles()
    first = storage(files)
    assert first.open() is None
    again = RaftStorage(FOLDER, files, lambda n: b"x" * n)
    assert again.open() is None
    assert (again.disk, again.cluster_id) == (first.disk, "")
    emptied = RaftStorage(FOLDER, FaultFiles(), lambda n: b"x" * n)
    emptied.open()
    assert emptied.disk != first.disk


def test_what_was_persisted_is_there_again() -> None:
    files = FaultFiles()
    disk = begun(files)
    disk.persist(HardState(2, TWO, 1), None, [entry(2), entry(3)])
    disk.persist(None, None, [entry(4)])
    stored = found(files)
    assert (stored.cluster_id, stored.hard, stored.cut_bytes) == ("c", HardState(2, TWO, 1), 0)
    assert stored.entries == [FOUNDING, entry(2), entry(3), entry(4)]


def test_a_conflict_cuts_durably_what_was_stored_from_there_on() -> None:
    files = FaultFiles()
    disk = begun(files)
    disk.persist(None, None, [entry(n) for n in range(2, 9)])
    disk.persist(HardState(2, None, 1), None, [entry(4, 2)])
    assert found(files.after_power_loss()).entries == [FOUNDING, entry(2), entry(3), entry(4, 2)]


def test_a_cut_of_a_configuration_reaches_over_a_new_segment() -> None:
    files = FaultFiles()
    disk = begun(files, segment_bytes=1)
    alone = Configuration((ONE,))
    disk.persist(None, None, [Entry(2, 1, EntryKind.CONFIGURATION, alone.encode())])
    disk.persist(HardState(2, None, 1), None, [entry(2, 2)])
    disk.persist(HardState(2, None, 2), None, [entry(3, 2)])
    disk.save_snapshot(snapshot(2, 2))
    disk.save_snapshot(snapshot(3, 2))
    assert found(files).base == (2, 2, MEMBERS)


def test_segments_are_begun_and_removed_when_snapshots_hold_them() -> None:
    files = FaultFiles()
    disk = begun(files, segment_bytes=150)
    for index in range(2, 40):
        disk.persist(HardState(1, None, index - 1), None, [entry(index)])
        if index % 10 == 0:
            disk.save_snapshot(snapshot(index))
    assert sorted(name for name in files.seen if name.endswith(".snapshot")) == [
        f"{index:020}.snapshot" for index in (20, 30)
    ]
    stored = found(files)
    assert stored.base[0] <= 20
    assert stored.base[0] > 10, "older segments are gone"
    assert (stored.entries[-1], stored.hard.commit) == (entry(39), 38)
    assert stored.snapshot == snapshot(30)


def test_a_damaged_snapshot_costs_a_warning_while_there_is_one_before_it() -> None:
    files = FaultFiles()
    disk = begun(files)
    disk.persist(HardState(1, None, 4), None, [entry(n) for n in range(2, 6)])
    disk.save_snapshot(snapshot(2))
    disk.save_snapshot(snapshot(4))
    name = f"{4:020}.snapshot"
    files.seen[name] = files.seen[name][:-1] + b"?"
    stored = found(files)
    assert stored.snapshot == snapshot(2)
    assert "damaged" in stored.warnings[0]


def test_a_snapshot_from_the_leader_takes_the_place_of_everything() -> None:
    files = FaultFiles()
    disk = begun(files)
    disk.persist(None, None, [entry(2), entry(3)])
    disk.persist(HardState(5, None, 20), snapshot(20, 4), [entry(21, 5)])
    stored = found(files)
    assert content(stored) == (HardState(5, None, 20), [entry(21, 5)], 20)
    assert stored.base == (20, 4, MEMBERS)
    assert len(files.seen) == 3, "identity, snapshot, segment"


def test_a_learner_begins_without_a_log() -> None:
    files = FaultFiles()
    disk = storage(files)
    assert disk.open() is None
    disk.begin("c", HardState(), [])
    assert content(found(files)) == (HardState(), [], 0)


# --- Torn and flipped ---


def written() -> FaultFiles:
    files = FaultFiles()
    disk = begun(files)
    disk.persist(HardState(2, TWO, 1), None, [entry(2)])
    disk.persist(HardState(3, ONE, 2), None, [entry(3), entry(4)])
    return files


def test_cut_at_every_byte_the_last_frame_is_dropped_whole_or_the_file_refused() -> None:
    whole = written().seen[SEGMENT]
    outcomes: list[object] = []
    for length in range(len(whole) + 1):
        files = written().after_power_loss()
        files.seen[SEGMENT] = whole[:length]
        try:
            stored = found(files)
        except StorageDamagedError:
            outcomes.append("damaged")
            continue
        outcomes.append(stored.hard.term)
        assert stored.entries == [FOUNDING, entry(2), entry(3), entry(4)][: (0, 1, 2, 4)[stored.hard.term]]
        assert files.seen[SEGMENT] == whole[: length - stored.cut_bytes], "what was torn is cut"
    assert list(dict.fromkeys(outcomes)) == ["damaged", 1, 2, 3]
    assert outcomes.count(3) == 1


def test_a_flipped_bit_is_found_wherever_it_is() -> None:
    whole = written().seen[SEGMENT]
    good = [FOUNDING, entry(2), entry(3), entry(4)]
    cut = 0
    for position in range(len(whole)):
        files = written().after_power_loss()
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        files.seen[SEGMENT] = bytes(flipped)
        try:
            stored = found(files)
        except StorageDamagedError:
            continue
        cut += 1
        assert stored.entries == good[:2], "of a crash the last frame alone may be taken for a torn write"
    last_frame = len(whole) - whole.rindex(b"\xf7TKf")
    assert cut == last_frame


def test_after_a_stop_in_order_damage_of_the_last_frame_is_no_torn_write() -> None:
    files = FaultFiles()
    disk = begun(files)
    disk.persist(HardState(3, ONE, 1), None, [entry(2)])
    disk.close(commit=2)
    whole = files.seen[SEGMENT]
    assert found(FaultFiles(files.seen)).hard == HardState(3, ONE, 2)
    last_data = whole.rindex(b"2 of 1")
    files.seen[SEGMENT] = whole[:last_data] + b"X" + whole[last_data + 1 :]
    with pytest.raises(StorageDamagedError, match="not what was written"):
        found(files)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda seen: seen.pop("identity"), "identity is missing"),
        (lambda seen: seen.pop(SEGMENT), "segments are missing"),
        (lambda seen: seen.update(identity=b"?" + seen["identity"][1:]), "identity is damaged"),
        (lambda seen: seen.pop(f"{3:020}.raft"), "segment 3 is missing"),
        (lambda seen: seen.pop(f"{9:020}.raft"), "committed and is missing|not in the log"),
    ],
)
def test_missing_files_are_damage_and_never_an_empty_disk(
    spoil: Callable[[dict[str, bytes]], object], message: str
) -> None:
    files = FaultFiles()
    disk = begun(
        files, segment_bytes=1 if "segment 3 is missing" in message or "committed" in message else 1 << 20
    )
    for index in range(2, 9):
        disk.persist(HardState(1, None, index - 1), None, [entry(index)])
    if "committed" in message:
        disk.save_snapshot(snapshot(8))
        spoiled = sorted(name for name in files.seen if name.endswith(".raft"))[-1]
        files.seen.pop(spoiled)
    else:
        spoil(files.seen)
    with pytest.raises(StorageDamagedError, match=message):
        found(files)


def test_folders_of_two_clusters_are_not_mixed() -> None:
    files, other = FaultFiles(), FaultFiles()
    begun(files)
    foreign = storage(other)
    foreign.open()
    foreign.begin("d", HardState(), [])
    files.seen[SEGMENT] = other.seen[SEGMENT]
    with pytest.raises(StorageDamagedError, match="folders were mixed"):
        found(files)


def test_records_are_read_back_and_never_in_part() -> None:
    for record in (HardState(3, TWO, 9), HardState(), entry(7, 2), records.Base(4, 2, MEMBERS, True)):
        data = records.encode(record)
        assert records.decode(data) == record
    for damaged in (b"", b"\x09", records.encode(HardState(3, TWO, 9))[:-1], records.encode(entry(1))[:9]):
        with pytest.raises(JournalDamagedError):
            records.decode(damaged)


# --- A disk that fails ---


def test_a_full_disk_takes_nothing_and_the_same_may_be_tried_again() -> None:
    files = FaultFiles()
    disk = begun(files)
    files.room_bytes = 3
    with pytest.raises(StorageFullError, match="make room"):
        disk.persist(HardState(2, TWO, 1), None, [entry(2)])
    files.room_bytes = None
    disk.persist(HardState(2, TWO, 1), None, [entry(2)])
    assert found(files).entries == [FOUNDING, entry(2)]


@pytest.mark.parametrize("what", ["fsync", "taking a write back", "snapshot"])
def test_after_an_error_of_fsync_nothing_is_taken_any_more(what: str) -> None:
    files = FaultFiles()
    disk = begun(files)
    if what == "taking a write back":
        files.room_bytes, files.fail_truncate = 3, True
    else:
        files.fail_sync = True
    with pytest.raises(StorageFailedError, match="check the disk"):
        if what == "snapshot":
            disk.save_snapshot(snapshot(1))
        else:
            disk.persist(HardState(2, TWO, 1), None, [entry(2)])
    files.room_bytes, files.fail_sync, files.fail_truncate = None, False, False
    with pytest.raises(StorageFailedError):
        disk.persist(HardState(2, TWO, 1), None, [entry(2)])


def test_a_folder_that_cannot_be_read_says_what_to_do() -> None:
    class Unreadable(FaultFiles):
        def names(self, folder: Path) -> list[str]:
            raise PermissionError(13, "Permission denied")

    with pytest.raises(RaftStorageError, match="check disk and rights"):
        storage(Unreadable()).open()


# --- Power failures between any two operations ---


def story(disk: RaftStorage, done: list[tuple[HardState, list[Entry], int]]) -> None:
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


def fits(stored: Stored, promised: tuple[HardState, list[Entry], int]) -> bool:
    """Whether the disk holds what was promised; entries that a snapshot holds may be gone."""
    hard, entries, snapped = promised
    kept = [e for e in entries if e.index > stored.base[0]]
    return content(stored) == (hard, kept, snapped)


@pytest.mark.parametrize("segment_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("torn_bytes", [None, 0, 1, 17, 40])
def test_after_a_power_failure_at_any_operation_it_is_what_was_promised_or_what_was_under_way(
    segment_bytes: int, torn_bytes: int | None
) -> None:
    whole: list[tuple[HardState, list[Entry], int]] = []
    undisturbed = FaultFiles()
    story(storage(undisturbed, segment_bytes), whole)
    for at in range(undisturbed.operations):
        files = FaultFiles()
        files.power_lost_at, files.torn_bytes = at, torn_bytes
        done: list[tuple[HardState, list[Entry], int]] = []
        with pytest.raises(PowerLostError):
            story(storage(files, segment_bytes), done)
        check_restart(files.after_power_loss(), whole, len(done), segment_bytes, at)


def check_restart(
    files: FaultFiles, whole: list[tuple[HardState, list[Entry], int]], done: int, segment_bytes: int, at: int
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
        done: list[tuple[HardState, list[Entry], int]] = []
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


def test_it_is_the_same_on_a_real_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_storage, "MIN_SNAPSHOT_AFTER_BYTES", 100)
    folder = tmp_path / "raft"
    disk = RaftStorage(folder, segment_bytes=300)
    done: list[tuple[HardState, list[Entry], int]] = []
    story(disk, done)
    disk.close(commit=23)
    assert not disk.snapshot_due or disk.failed is None
    again = RaftStorage(folder)
    stored = again.open()
    assert stored is not None
    assert fits(stored, (HardState(4, ONE, 23), done[-1][1], 20))
    assert again.disk == disk.disk
