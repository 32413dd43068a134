"""The journal of an earlier version: what was acknowledged is read, or it is said what is missing."""

import shutil
from pathlib import Path

import pytest

from tank_controller.raft_node import old_journal
from tank_controller.raft_node.files import OsFiles
from tank_controller.raft_node.frames import JournalDamagedError, JournalError
from tank_controller.raft_node.old_journal import Journal
from tank_controller.state.machine import UnknownEntryError
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import register
from tests.support.old_journal import frame_ends, journal_file, snapshot_file

BATCHES = [[b"one"], [b"two", b"three"], [b""], [b"five" * 9]]
ENTRIES = [entry for batch in BATCHES for entry in batch]


def read(folder: Path, cluster_id: str | None = "c") -> Journal:
    found = old_journal.read(folder, cluster_id, OsFiles())
    assert found is not None
    return found


def entries(folder: Path) -> list[bytes]:
    return [entry for _, entry in read(folder).entries]


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 0x55
    return bytes(changed)


@pytest.mark.parametrize("stopped", [True, False])
def test_what_was_appended_is_there_in_order(tmp_path: Path, stopped: bool) -> None:
    journal_file(tmp_path, 1, BATCHES, stopped=stopped)
    found = read(tmp_path)
    assert found.entries == list(enumerate(ENTRIES, 1))
    assert (found.cut_bytes, found.warnings, found.last_index) == (0, [], 5)


def test_a_folder_without_files_holds_no_journal(tmp_path: Path) -> None:
    assert old_journal.read(tmp_path, "c", OsFiles()) is None


def test_cut_at_every_byte_it_holds_the_whole_batches_before(tmp_path: Path) -> None:
    path = journal_file(tmp_path, 1, BATCHES)
    whole, ends = path.read_bytes(), frame_ends(path)
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        if length < ends[0]:
            with pytest.raises(JournalDamagedError, match="header"):
                read(tmp_path)
            continue
        batches = sum(end <= length for end in ends) - 1
        assert entries(tmp_path) == [entry for batch in BATCHES[:batches] for entry in batch]
        assert read(tmp_path).cut_bytes == length - ends[batches]


@pytest.mark.parametrize("stopped", [True, False])
def test_every_flipped_byte_is_found(tmp_path: Path, stopped: bool) -> None:
    path = journal_file(tmp_path, 1, BATCHES, stopped=stopped)
    whole, last_frame = path.read_bytes(), frame_ends(path)[-2]
    for position in range(len(whole)):
        path.write_bytes(flipped(whole, position))
        if position >= last_frame:
            # Nothing behind it says that its fsync ended: this is what a torn write looks like.
            assert entries(tmp_path) == (ENTRIES if stopped else ENTRIES[:-1])
            continue
        with pytest.raises(JournalDamagedError, match=r"damaged.*backup"):
            read(tmp_path)


def snapshotted(folder: Path) -> None:
    """Entries 1 to 3, a snapshot, 4, a snapshot, 5; what both snapshots hold is gone."""
    folder.mkdir(exist_ok=True)
    snapshot_file(folder, 3, b"123")
    journal_file(folder, 4, [[b"4"]])
    snapshot_file(folder, 4, b"1234")
    journal_file(folder, 5, [[b"5"]])


def test_a_damaged_snapshot_is_replaced_by_the_one_before_and_the_entries_since(tmp_path: Path) -> None:
    snapshotted(tmp_path)
    assert (read(tmp_path).snapshot, entries(tmp_path)) == (b"1234", [b"5"])
    newest = tmp_path / f"{4:020}.snapshot"
    whole = newest.read_bytes()
    for position in range(len(whole)):
        newest.write_bytes(flipped(whole, position))
        found = read(tmp_path)
        assert (found.snapshot, entries(tmp_path)) == (b"123", [b"4", b"5"])
        assert "damaged" in found.warnings[0]


@pytest.mark.parametrize(
    "lost",
    [
        [f"{5:020}.journal", f"{4:020}.journal"],
        [f"{4:020}.snapshot", f"{4:020}.journal"],
        [f"{3:020}.snapshot", f"{4:020}.snapshot"],
        [f"{5:020}.journal", f"{4:020}.snapshot"],
    ],
)
def test_lost_files_are_missed(tmp_path: Path, lost: list[str]) -> None:
    snapshotted(tmp_path / "j")
    for name in lost:
        (tmp_path / "j" / name).unlink()
    if lost == [f"{5:020}.journal", f"{4:020}.snapshot"]:
        assert read(tmp_path / "j").last_index == 4, "nothing says that there was a fifth"
        return
    with pytest.raises(JournalError):
        read(tmp_path / "j")


def test_what_only_a_damaged_snapshot_held_is_missed(tmp_path: Path) -> None:
    path = journal_file(tmp_path, 1, [[b"1", b"2"], [b"3"]])
    path.write_bytes(path.read_bytes()[:-1])
    snapshot = snapshot_file(tmp_path, 3, b"123")
    assert (read(tmp_path).snapshot, read(tmp_path).entries) == (b"123", [])
    snapshot.write_bytes(flipped(snapshot.read_bytes(), -1))
    with pytest.raises(JournalDamagedError, match="entry 3"):
        read(tmp_path)


def test_another_clusters_metadata_is_refused(tmp_path: Path) -> None:
    journal_file(tmp_path, 1, BATCHES)
    with pytest.raises(JournalError, match="belongs to cluster c, this data folder to d"):
        read(tmp_path, "d")
    assert read(tmp_path, None).last_index == 5, "for whoever only looks"


@pytest.mark.parametrize(
    ("entry", "message"),
    [(pb.Command(now_ms=1).SerializeToString(), "newer version: start that one"), (b"\xff", "no command")],
)
def test_an_entry_that_this_version_can_not_apply_is_never_skipped(
    tmp_path: Path, entry: bytes, message: str
) -> None:
    journal_file(tmp_path, 1, [[register().SerializeToString()], [entry]])
    with pytest.raises(UnknownEntryError, match=message):
        read(tmp_path).state()


GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "metadata"


def test_a_folder_that_a_released_version_wrote_is_read(tmp_path: Path) -> None:
    for without in ("", f"{5:020}.snapshot"):
        folder = tmp_path / (without or "whole")
        shutil.copytree(GOLDEN, folder)
        if without:
            (folder / without).write_bytes(b"damaged")
        state = read(folder, "6f1c3f0e-golden-cluster").state()
        assert state.index == 8
        assert {name: len(state.topics[number].partitions) for name, number in state.topic_ids.items()} == {
            "orders": 3,
            "payments": 2,
        }
        assert state.topics[2].settings == {"flush": "replicated"}
        assert state.producers["loader"].producer_id == 6
        assert state.groups["readers"][2][1].sequence_number == 77
