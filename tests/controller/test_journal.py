"""The journal on disk: what was appended is there again, whatever the crash or the disk did to the rest."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tank_controller import journal as journal_module
from tank_controller.files import OsFiles
from tank_controller.journal import Journal, JournalFailedError, JournalFullError, Recovered
from tank_controller.journal_format import JournalDamagedError, JournalError
from tests.controller.failing_files import FailingFiles

BATCHES = [[b"one"], [b"two", b"three"], [b""], [b"five" * 9]]
ENTRIES = [entry for batch in BATCHES for entry in batch]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about bytes; thousands of fsyncs would only be slow."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


def opened(
    folder: Path, files: FailingFiles | None = None, cluster_id: str = "c"
) -> tuple[Journal, Recovered]:
    journal = Journal(folder, cluster_id, files)
    return journal, journal.open(may_be_new=True)


def written(folder: Path, *, close: bool) -> Path:
    """A journal of all batches; the path of its file."""
    journal, _ = opened(folder)
    for batch in BATCHES:
        journal.append(batch)
    if close:
        journal.close()
    return folder / f"{1:020}.journal"


def test_the_folder_itself_is_durable_once_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(OsFiles, "_sync_folder", staticmethod(synced.append))
    opened(tmp_path / "metadata", FailingFiles())
    assert synced == [tmp_path, tmp_path / "metadata"]


def entries(recovered: Recovered) -> list[bytes]:
    return [entry for _, entry in recovered.entries]


@pytest.mark.parametrize("close", [True, False])
def test_what_was_appended_is_there_again_in_order(tmp_path: Path, close: bool) -> None:
    written(tmp_path, close=close)
    journal, recovered = opened(tmp_path)
    assert recovered.entries == list(enumerate(ENTRIES, 1))
    assert (recovered.cut_bytes, recovered.warnings) == (0, [])
    assert journal.append([b"six"]) == 6
    assert entries(opened(tmp_path)[1]) == [*ENTRIES, b"six"]


def test_cut_at_every_byte_it_keeps_the_whole_batches_before(tmp_path: Path) -> None:
    path = written(tmp_path / "j", close=False)
    whole = path.read_bytes()
    ends = {position: count for count, position in enumerate(frame_ends(whole))}
    header = min(ends)
    kept = 0
    for length in range(header, len(whole) + 1):
        kept = ends.get(length, kept)
        path.write_bytes(whole[:length])
        expected = [entry for batch in BATCHES[:kept] for entry in batch]
        journal, recovered = opened(tmp_path / "j")
        assert entries(recovered) == expected, f"cut at {length}"
        assert recovered.cut_bytes == length - max(end for end in ends if end <= length)
        journal.append([b"next"])
        assert entries(opened(tmp_path / "j")[1]) == [*expected, b"next"], "and it goes on from there"
    for length in range(header):
        path.write_bytes(whole[:length])
        with pytest.raises(JournalDamagedError, match="header"):
            opened(tmp_path / "j")


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    path = written(tmp_path / "j", close=False)
    whole = path.read_bytes()
    last_frame = sorted(frame_ends(whole))[-2]
    for position in range(len(whole)):
        path.write_bytes(flipped(whole, position))
        if position >= last_frame:
            # Nothing behind it says that its fsync ended: this is what a torn write looks like.
            assert entries(opened(tmp_path / "j")[1]) == ENTRIES[:-1]
            continue
        with pytest.raises(JournalDamagedError, match=r"damaged.*backup"):
            opened(tmp_path / "j")


def test_after_a_stop_in_order_even_the_last_entry_is_known_to_be_damaged(tmp_path: Path) -> None:
    path = written(tmp_path, close=True)
    whole = path.read_bytes()
    closing = sorted(frame_ends(whole))[-2]
    for position in range(len(whole)):
        path.write_bytes(flipped(whole, position))
        if position >= closing:
            assert entries(opened(tmp_path)[1]) == ENTRIES, "no entry was in there"
            continue
        with pytest.raises(JournalDamagedError):
            opened(tmp_path)


def test_zeros_behind_the_end_are_cut(tmp_path: Path) -> None:
    path = written(tmp_path, close=False)
    path.write_bytes(path.read_bytes() + bytes(5000))
    _, recovered = opened(tmp_path)
    assert entries(recovered) == ENTRIES
    assert recovered.cut_bytes == 5000


def test_an_entry_that_looks_like_a_frame_is_not_taken_for_one(tmp_path: Path) -> None:
    inner = written(tmp_path / "inner", close=False).read_bytes()
    journal, _ = opened(tmp_path / "j")
    journal.append([b"first"])
    journal.append([inner])
    path = tmp_path / "j" / f"{1:020}.journal"
    path.write_bytes(path.read_bytes()[:-1])
    assert entries(opened(tmp_path / "j")[1]) == [b"first"]


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=4), max_size=8), st.data())
@settings(max_examples=40, deadline=None)
def test_snapshots_anywhere_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal, _ = opened(folder)
    expected: list[bytes] = []
    for batch in batches:
        journal.append(batch)
        expected += batch
        if data.draw(st.booleans()):
            journal.snapshot(len(expected), repr(expected).encode())
        if data.draw(st.booleans()):
            if data.draw(st.booleans()):
                journal.close()
            journal, _ = opened(folder)
    _, recovered = opened(folder)
    kept = expected[: recovered.snapshot_index]
    assert recovered.snapshot == (repr(kept).encode() if kept else None)
    assert [*kept, *entries(recovered)] == expected
    assert recovered.last_index == len(expected)
    assert len(list(folder.iterdir())) <= 5


def snapshotted(folder: Path) -> None:
    """Entries 1 to 3, a snapshot, 4, a snapshot, 5."""
    journal, _ = opened(folder)
    journal.append([b"1", b"2", b"3"])
    journal.snapshot(3, b"123")
    journal.append([b"4"])
    journal.snapshot(4, b"1234")
    journal.append([b"5"])


def test_a_damaged_snapshot_is_replaced_by_the_one_before_and_the_entries_since(tmp_path: Path) -> None:
    snapshotted(tmp_path / "good")
    newest = f"{4:020}.snapshot"
    whole = (tmp_path / "good" / newest).read_bytes()
    for position in range(len(whole)):
        folder = tmp_path / "bad"
        shutil.copytree(tmp_path / "good", folder)
        (folder / newest).write_bytes(flipped(whole, position))
        _, recovered = opened(folder)
        assert (recovered.snapshot, entries(recovered)) == (b"123", [b"4", b"5"])
        assert "damaged" in recovered.warnings[0]
        shutil.rmtree(folder)


def without_the_journal_behind_a_snapshot(folder: Path) -> Path:
    """Entries 1 to 3 and their snapshot; the journal that begins behind it is gone."""
    journal, _ = opened(folder)
    journal.append([b"1", b"2"])
    journal.append([b"3"])
    journal.snapshot(3, b"123")
    (folder / f"{4:020}.journal").unlink()
    return folder / f"{1:020}.journal"


def test_what_the_snapshot_holds_may_be_damaged_in_the_journal(tmp_path: Path) -> None:
    path = without_the_journal_behind_a_snapshot(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    journal, recovered = opened(tmp_path)
    assert (recovered.snapshot, recovered.entries) == (b"123", [])
    assert journal.append([b"4"]) == 4
    assert opened(tmp_path)[1].entries == [(4, b"4")]


def test_what_only_a_damaged_snapshot_held_is_missed(tmp_path: Path) -> None:
    path = without_the_journal_behind_a_snapshot(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    snapshot = tmp_path / f"{3:020}.snapshot"
    snapshot.write_bytes(flipped(snapshot.read_bytes(), -1))
    with pytest.raises(JournalDamagedError, match="entry 3"):
        opened(tmp_path)


@pytest.mark.parametrize(
    "lost",
    [
        [f"{5:020}.journal", f"{4:020}.journal"],
        [f"{4:020}.snapshot", f"{4:020}.journal"],
        [f"{3:020}.snapshot", f"{4:020}.snapshot"],
    ],
)
def test_lost_files_are_missed(tmp_path: Path, lost: list[str]) -> None:
    snapshotted(tmp_path)
    for name in lost:
        (tmp_path / name).unlink()
    with pytest.raises(JournalError):
        opened(tmp_path)


def test_an_empty_folder_of_an_old_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="has been in use"):
        Journal(tmp_path, "c").open(may_be_new=False)
    written(tmp_path, close=True)
    assert entries(Journal(tmp_path, "c").open(may_be_new=False)) == ENTRIES


def test_another_clusters_metadata_is_refused(tmp_path: Path) -> None:
    written(tmp_path, close=True)
    with pytest.raises(JournalError, match="belongs to cluster c, this data folder to d"):
        opened(tmp_path, cluster_id="d")


def test_a_full_disk_takes_nothing_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    files = FailingFiles()
    journal, _ = opened(tmp_path, files)
    journal.append([b"one"])
    for room in range(30):
        files.room_bytes = room
        with pytest.raises(JournalFullError, match="No space left"):
            journal.append([b"lost" * 9])
    files.room_bytes = None
    assert journal.append([b"two"]) == 2
    assert entries(opened(tmp_path)[1]) == [b"one", b"two"]


def test_a_failed_fsync_is_final(tmp_path: Path) -> None:
    files = FailingFiles()
    journal, _ = opened(tmp_path, files)
    journal.append([b"one"])
    files.fail_sync = True
    with pytest.raises(JournalFailedError, match="disk failed"):
        journal.append([b"two"])
    files.fail_sync = False
    for attempt in (lambda: journal.append([b"three"]), lambda: journal.snapshot(1, b"")):
        with pytest.raises(JournalFailedError):
            attempt()
    journal.close()
    assert entries(opened(tmp_path)[1])[:1] == [b"one"]


def test_what_a_full_disk_left_and_cannot_be_cut_is_final(tmp_path: Path) -> None:
    files = FailingFiles()
    journal, _ = opened(tmp_path, files)
    files.room_bytes, files.fail_truncate = 3, True
    with pytest.raises(JournalFailedError):
        journal.append([b"one"])
    with pytest.raises(JournalFailedError):
        journal.append([b"two"])


def refuse_snapshots(files: FailingFiles) -> None:
    files.fail_replace = ".snapshot"


def refuse_journals(files: FailingFiles) -> None:
    files.fail_replace = ".journal"


def refuse_to_open(files: FailingFiles) -> None:
    files.fail_open = True


@pytest.mark.parametrize("refuse", [refuse_snapshots, refuse_journals, refuse_to_open])
@pytest.mark.parametrize("crash", [True, False])
def test_a_snapshot_that_fails_half_way_loses_nothing(
    tmp_path: Path, refuse: Callable[[FailingFiles], None], crash: bool
) -> None:
    files = FailingFiles()
    journal, _ = opened(tmp_path, files)
    journal.append([b"one"])
    refuse(files)
    with pytest.raises(JournalFullError):
        journal.snapshot(1, b"1")
    files.fail_replace, files.fail_open = "", False
    journal.append([b"two"])
    if crash:
        journal, recovered = opened(tmp_path, files)
        assert (recovered.snapshot, entries(recovered)) == (None, [b"one", b"two"])
    journal.append([b"three"])
    assert entries(opened(tmp_path)[1]) == [b"one", b"two", b"three"]
    journal.snapshot(3, b"123")
    journal.append([b"four"])
    recovered = opened(tmp_path)[1]
    assert (recovered.snapshot, entries(recovered)) == (b"123", [b"four"])
    (tmp_path / f"{3:020}.snapshot").write_bytes(b"damaged")
    assert entries(opened(tmp_path)[1]) == [b"one", b"two", b"three", b"four"]


def test_the_file_that_was_gone_on_with_is_made_durable_as_the_newest_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FailingFiles()
    journal, _ = opened(tmp_path, files)
    journal.append([b"one"])
    files.fail_open = True
    with pytest.raises(JournalFullError):
        journal.snapshot(1, b"1")
    journal.append([b"two"])
    rewritten: list[str] = []
    rewrite = OsFiles.rewrite

    def noted(files: OsFiles, path: Path, content: bytes) -> None:
        rewritten.append(path.name)
        rewrite(files, path, content)

    monkeypatch.setattr(OsFiles, "rewrite", noted)
    files.fail_open = False
    assert entries(opened(tmp_path, files)[1]) == [b"one", b"two"]
    assert rewritten == [f"{1:020}.journal"]


def test_what_is_written_again_is_synced_and_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    (tmp_path / "f").write_bytes(b"good and torn")
    OsFiles().rewrite(tmp_path / "f", b"good")
    assert (tmp_path / "f").read_bytes() == b"good"
    assert len(synced) == 1


def test_a_snapshot_is_due_when_the_journal_has_outgrown_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "MIN_SNAPSHOT_AFTER_BYTES", 1000)
    journal, _ = opened(tmp_path)
    journal.append([bytes(1000)])
    assert journal.snapshot_due
    journal.snapshot(1, bytes(3000))
    journal.append([bytes(2000)])
    due = [journal.snapshot_due]
    journal.append([bytes(2000)])
    due.append(journal.snapshot_due)
    assert due == [False, True]


def frame_ends(data: bytes) -> list[int]:
    """The header's end and each frame's, in order."""
    from tank_controller import journal_format as fmt

    header = fmt.read_journal_header(data)
    return [header.length, *(frame.end for frame in fmt.scan(data, header).frames)]


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 0x55
    return bytes(changed)
