"""The log of a controller that is alone: made, opened, taken over from a journal, whenever it is killed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tank_controller.app.standalone import Standalone, open_alone
from tank_controller.raft.core import Raft
from tank_controller.raft_node.files import AppendFile, OsFiles
from tank_controller.raft_node.replay import RaftStorageError
from tank_controller.raft_node.storage import RaftStorage
from tank_controller.state.state import ClusterState

CLUSTER = "6f1c3f0e-golden-cluster"
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "metadata"
T = TypeVar("T")


class Killed(BaseException):
    """The process ends here."""


class KilledFiles(OsFiles):
    """Real files; the process is killed at the change number `at`, before it or in the middle of it."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.changes = 0

    def change(self, call: Callable[[], T]) -> T:
        self.changes += 1
        if self.changes == self.at:
            raise Killed
        return call()

    def replace(self, path: Path, content: bytes) -> None:
        self.change(lambda: path.with_name(path.name + ".new").write_bytes(content[: len(content) // 2]))
        self.change(lambda: super(KilledFiles, self).replace(path, content))

    def rewrite(self, path: Path, content: bytes) -> None:
        self.change(lambda: super(KilledFiles, self).rewrite(path, content))

    def remove(self, path: Path) -> None:
        self.change(lambda: super(KilledFiles, self).remove(path))

    def rename(self, path: Path, to: Path) -> None:
        self.change(lambda: super(KilledFiles, self).rename(path, to))

    def open_append(self, path: Path) -> AppendFile:
        return self.change(lambda: super(KilledFiles, self).open_append(path))


def opened(data: Path, *, may_be_new: bool = False, files: OsFiles | None = None) -> Standalone:
    return open_alone(data / "controller", data / "metadata", CLUSTER, may_be_new=may_be_new, files=files)


def old_folder(data: Path) -> Path:
    """A data folder's part that an earlier version wrote."""
    shutil.copytree(GOLDEN, data / "metadata")
    return data


def topics(alone: Standalone) -> dict[str, int]:
    assert alone.stored.snapshot is not None
    return ClusterState.load(alone.stored.snapshot.data).topic_ids


def test_a_journals_state_is_the_first_snapshot_and_its_folder_is_set_aside(tmp_path: Path) -> None:
    alone = opened(old_folder(tmp_path))
    assert topics(alone) == {"orders": 2, "payments": 4}
    assert alone.stored.snapshot is not None
    assert alone.stored.snapshot.meta.index == alone.stored.hard.commit == 8, "new ids go on behind the old"
    assert alone.stored.snapshot.meta.configuration.voters == (alone.own,)
    assert not (tmp_path / "metadata").exists()
    assert sorted(p.name for p in (tmp_path / "metadata-before-raft").iterdir()) == sorted(
        p.name for p in GOLDEN.iterdir()
    )
    again = opened(tmp_path)
    assert topics(again) == topics(alone)
    assert again.own == alone.own


def test_killed_between_any_two_changes_nothing_is_lost(tmp_path: Path) -> None:
    counted = KilledFiles(0)
    whole = opened(old_folder(tmp_path / "whole"), files=counted)
    assert counted.changes > 6
    for at in range(1, counted.changes + 1):
        data = old_folder(tmp_path / str(at))
        with pytest.raises(Killed):
            opened(data, files=KilledFiles(at))
        for again_at in (1, 3, 0):
            try:
                found = opened(data, files=KilledFiles(again_at))
            except Killed:
                continue
        assert topics(found) == topics(whole), f"killed at {at}"
        assert not (data / "metadata").exists()
        assert (data / "metadata-before-raft").exists()
        stored = found.stored
        Raft(found.own, CLUSTER, stored.hard, stored.snapshot, stored.entries, int, base=stored.base)


def test_a_snapshot_without_a_segment_is_of_a_beginning_that_a_crash_interrupted(tmp_path: Path) -> None:
    data = old_folder(tmp_path)
    counted = KilledFiles(0)
    opened(old_folder(tmp_path / "whole"), files=counted)
    for at in range(1, counted.changes + 1):
        shutil.rmtree(data / "controller", ignore_errors=True)
        with pytest.raises(Killed):
            opened(data, files=KilledFiles(at))
        if list((data / "controller").glob("*.snapshot")):
            break
    assert not list((data / "controller").glob("*.raft"))
    assert RaftStorage(data / "controller").open() is None
    assert not list((data / "controller").glob("*.snapshot"))


def test_a_journal_without_entries_becomes_a_new_log(tmp_path: Path) -> None:
    data = old_folder(tmp_path)
    for path in (data / "metadata").iterdir():
        path.unlink()
    alone = opened(data, may_be_new=True)
    assert alone.stored.snapshot is None
    assert alone.stored.base[2].voters == ()
    assert len(alone.stored.entries) == 1


def test_nothing_in_a_folder_that_was_in_use_is_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(RaftStorageError, match=r"has been in use.*backup"):
            opened(tmp_path)


def test_another_clusters_log_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, may_be_new=True)
    with pytest.raises(RaftStorageError, match=f"belongs to cluster {CLUSTER}, this data folder to other"):
        open_alone(tmp_path / "controller", tmp_path / "metadata", "other", may_be_new=True)


def test_what_an_earlier_version_changed_after_the_take_over_is_not_lost_in_silence(tmp_path: Path) -> None:
    opened(old_folder(tmp_path))
    old_folder(tmp_path)
    with pytest.raises(RaftStorageError, match="written by an earlier version after"):
        opened(tmp_path)
    assert (tmp_path / "metadata").exists()
