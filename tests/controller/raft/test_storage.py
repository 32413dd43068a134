"""The disk of a controller: what was persisted is there again; what is damaged is said, never guessed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tank_controller.raft.messages import Configuration, EntryKind, HardState, LogEntry
from tank_controller.raft_node import records
from tank_controller.raft_node.frames import JournalDamagedError
from tank_controller.raft_node.replay import (
    RaftStorageError,
    StorageDamagedError,
    StorageFailedError,
    StorageFullError,
)
from tank_controller.raft_node.storage import RaftStorage
from tests.controller.raft.fault_files import FaultFiles
from tests.controller.raft.stored import (
    FOLDER,
    FOUNDING,
    MEMBERS,
    ONE,
    SEGMENT,
    TWO,
    begun,
    content,
    entry,
    found,
    snapshot,
    storage,
)


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
    disk.persist(None, None, [LogEntry(2, 1, EntryKind.CONFIGURATION, alone.encode())])
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


def test_a_segment_that_cuts_entries_before_its_beginning_needs_those_before_it() -> None:
    files = FaultFiles()
    disk = begun(files, segment_bytes=1)
    for index in range(2, 8):
        disk.persist(HardState(1, None, 4), None, [entry(index)])
    disk.persist(HardState(2, None, 4), None, [entry(5, 2)])
    again = begun(files)
    again.persist(HardState(2, None, 8), None, [entry(6, 2), entry(7, 2), entry(8, 2)])
    again.save_snapshot(snapshot(7, 2))
    again.save_snapshot(snapshot(8, 2))
    stored = found(files)
    assert stored.entries[-4:] == [entry(n, 2) for n in range(5, 9)]
    assert stored.base[0] < 5


def test_only_the_last_segment_may_end_in_a_torn_write() -> None:
    files = FaultFiles()
    disk = begun(files, segment_bytes=1)
    disk.persist(HardState(2, TWO, 1), None, [entry(2)])
    files.seen[SEGMENT] += b"torn"
    with pytest.raises(StorageDamagedError, match="changed since"):
        found(files)


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


def killed() -> FaultFiles:
    """What a process leaves that was killed; the next one on the same run of the machine finds all of it."""
    files = written()
    assert storage(files, boot="a").open() is not None
    return files


def test_where_the_machine_has_run_on_a_flipped_bit_of_the_last_frame_is_damage_too() -> None:
    whole = killed().seen[SEGMENT]
    last_frame = whole.rindex(b"\xf7TKf")
    for position in range(last_frame, len(whole)):
        for bit in range(8):
            files = killed()
            flipped = bytearray(whole)
            flipped[position] ^= 1 << bit
            files.seen[SEGMENT] = bytes(flipped)
            with pytest.raises(StorageDamagedError, match="Where other controllers live, empty this folder"):
                storage(files, boot="a").open()
            assert files.seen[SEGMENT] == bytes(flipped), "nothing was cut"


def test_where_the_machine_has_run_on_a_write_that_a_kill_cut_short_is_cut_and_said() -> None:
    whole = killed().seen[SEGMENT]
    last_frame = whole.rindex(b"\xf7TKf")
    for length in range(last_frame + 1, len(whole)):
        files = killed()
        files.seen[SEGMENT] = whole[:length]
        stored = storage(files, boot="a").open()
        assert stored is not None
        assert (stored.hard.term, stored.cut_bytes) == (2, length - last_frame)
        assert f"{length - last_frame} bytes that a crash left unfinished" in stored.warnings[0]


def test_after_the_machine_was_restarted_a_bad_last_frame_is_a_torn_write_and_said() -> None:
    files = killed()
    files.seen[SEGMENT] = files.seen[SEGMENT][:-1] + b"?"
    stored = storage(files, boot="b").open()
    assert stored is not None
    assert stored.hard.term == 2
    assert "were cut" in stored.warnings[0]
    assert storage(files, boot="b").open() is not None, "what was cut is not damage at the next start"


def test_a_full_disk_keeps_no_controller_from_reading_what_it_has() -> None:
    files = killed()
    files.room_bytes = 0
    stored = storage(files, boot="b").open()
    assert stored is not None
    assert "boot can't be written" in stored.warnings[0]


def test_after_a_stop_in_order_damage_of_the_last_frame_is_no_torn_write() -> None:
    files = FaultFiles()
    disk = begun(files)
    disk.persist(HardState(3, ONE, 1), None, [entry(2)])
    disk.close(commit=2)
    whole = files.seen[SEGMENT]
    assert found(FaultFiles(files.seen)).hard == HardState(3, ONE, 2)
    last_data = whole.rindex(b"2 of 1")
    files.seen[SEGMENT] = whole[:last_data] + b"X" + whole[last_data + 1 :]
    with pytest.raises(StorageDamagedError, match="changed since"):
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

    with pytest.raises(RaftStorageError, match="check the disk and the permissions"):
        storage(Unreadable()).open()
