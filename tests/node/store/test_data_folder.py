"""The data folder: whose it is, one process at a time, strays, deleted topics."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tank_node.clock import SystemClock
from tank_node.disk import OsDisk
from tank_node.log.recovery.checkpoint import Checkpoint, CheckpointEntry, decode, encode
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import DataFolderError, DataFolderInUse, LogClosed, NewerFormat, StorageError
from tank_node.store.data_folder import DataFolder
from tests.support.storage.logs import DATA, TOPIC, Folder, append, error_of, read_all


def test_a_new_folder_says_whose_it_is() -> None:
    folder = Folder()
    folder.data.mark_registered(7)
    meta = json.loads(folder.fault.content(f"{DATA}/meta.json"))
    assert meta["format"] == 1
    assert meta["disk_uuid"] == folder.data.meta.disk_uuid != ""
    assert meta["boot_id"] == "boot-1", "while it is in use, and its cluster knows what it claims"
    uuid, cluster = meta["disk_uuid"], meta["cluster_id"]
    folder.reopen()
    assert (folder.data.meta.disk_uuid, folder.data.meta.cluster_id) == (uuid, cluster)
    folder.data.close()
    assert json.loads(folder.fault.content(f"{DATA}/meta.json"))["boot_id"] == ""


def test_a_newer_format_is_refused_in_one_sentence() -> None:
    folder = Folder()
    folder.data.close()
    meta = json.loads(folder.fault.content(f"{DATA}/meta.json"))
    folder.fault.overwrite(f"{DATA}/meta.json", json.dumps(meta | {"format": 3}).encode())
    with pytest.raises(NewerFormat) as caught:
        folder.open()
    assert str(caught.value).count(". ") == 0
    assert "format 3" in str(caught.value)
    assert "start the newer version" in str(caught.value)


KAFKAS = LogSettings(format=1)


def layout_of(folder: Folder) -> int:
    """The layout that an older version would find in the folder's `meta.json`."""
    layout = json.loads(folder.fault.content(f"{DATA}/meta.json"))["format"]
    assert isinstance(layout, int)
    return layout


def test_a_folder_is_of_the_next_layout_from_its_first_log_of_record_batches_on() -> None:
    folder = Folder()
    append(folder.log(), b"a")
    assert layout_of(folder) == 1, "older versions read it"
    folder.data.open_log(8, 0, KAFKAS)
    assert layout_of(folder) == 2
    folder.reopen()
    folder.data.mark_registered(9)
    assert layout_of(folder) == 2, "it stays so"
    assert folder.data.meta.broker_epoch == 9


def test_no_log_of_record_batches_is_made_where_the_layout_can_not_be_said() -> None:
    folder = Folder()
    folder.fault.fail_sync = lambda path: path.startswith(f"{DATA}/meta.json")
    with pytest.raises(StorageError, match=r"cannot write .*meta\.json"):
        folder.data.open_log(8, 0, KAFKAS)
    assert (8, 0) not in folder.data.logs
    assert layout_of(folder) == 1
    folder.fault.fail_sync = lambda path: False
    folder.data.open_log(8, 0, KAFKAS)
    assert layout_of(folder) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"format": "1"}'])
def test_a_spoiled_meta_file_is_refused(content: bytes) -> None:
    folder = Folder()
    folder.data.close()
    folder.fault.overwrite(f"{DATA}/meta.json", content)
    with pytest.raises(DataFolderError, match="restore it"):
        folder.open()
    folder.fault.delete(f"{DATA}/meta.json")
    append_nothing = folder.open()
    append_nothing.close()


def test_a_missing_meta_file_beside_topics_is_refused() -> None:
    folder = Folder()
    append(folder.log(), b"a")
    folder.data.close()
    folder.fault.delete(f"{DATA}/meta.json")
    with pytest.raises(DataFolderError, match="missing though there are topics"):
        folder.open()


def test_the_folder_of_another_cluster_or_broker_is_refused() -> None:
    folder = Folder()
    folder.data.close()
    for wanted in ({"cluster_id": "another"}, {"broker_id": 5}):
        with pytest.raises(DataFolderError, match="belongs to"):
            DataFolder.open(DATA, folder.disk, folder.clock, **wanted)
    DataFolder.open(
        DATA, folder.disk, folder.clock, cluster_id=folder.data.meta.cluster_id, broker_id=0
    ).close()


def test_topics_that_nobody_knows_are_set_aside_and_never_appended_to() -> None:
    folder = Folder()
    append(folder.log(), b"mine")
    folder.data.open_log(99, 0, LogSettings())
    append(folder.data.open_log(99, 0, LogSettings()), b"stray")
    folder.disk.make_folders(f"{DATA}/topics/notes")
    folder.fault.kill_process()
    folder.data = folder.open()
    assert folder.data.set_aside_unknown({TOPIC}) == [".stray-99-1", ".stray-notes-1"]
    assert folder.fault.paths(".log") == [
        f"{DATA}/topics/.stray-99-1/0/{1:020d}.log",
        f"{DATA}/topics/7/0/{1:020d}.log",
    ]
    fresh = folder.data.open_log(99, 0, LogSettings())
    assert fresh.last == 0
    append(fresh, b"a new topic")
    folder.fault.kill_process()
    folder.data = folder.open()
    assert folder.data.set_aside_unknown({TOPIC}) == [".stray-99-1", ".stray-99-2", ".stray-notes-1"]
    assert read_all(folder.log()) == {1: b"mine"}


def test_a_deleted_topic_is_gone_and_its_logs_take_nothing() -> None:
    folder = Folder()
    log, other = folder.log(), folder.data.open_log(8, 0, LogSettings())
    append(log, b"a")
    append(other, b"b")
    log.flush()
    folder.data.write_checkpoint()
    folder.data.delete_topic(TOPIC)
    assert isinstance(error_of(log), LogClosed)
    assert log.read(1, 100, 1) is None
    assert folder.fault.paths(".log") == [f"{DATA}/topics/8/0/{1:020d}.log"]
    again = folder.log()
    assert (again.last, append(again, b"new")) == (0, (1, 1))
    assert read_all(folder.kill()) == {1: b"new"}


def test_a_topic_half_deleted_is_not_found_again() -> None:
    folder = Folder()
    append(folder.log(), b"a")
    folder.disk.rename(f"{DATA}/topics/{TOPIC}", f"{DATA}/topics/.deleted-{TOPIC}")
    folder.fault.kill_process()
    folder.data = folder.open()
    assert folder.data.set_aside_unknown({TOPIC}) == []
    assert folder.fault.paths(".log") == []


def test_the_checkpoint_comes_back_as_it_was_and_every_spoiled_one_is_refused() -> None:
    entries = [
        CheckpointEntry(7, 0, 5, 6, 1, 2, 3, 4, 5, False, ((1, 1), (2, 4))),
        CheckpointEntry(7, 1, damaged=True),
        CheckpointEntry(
            2**64 - 1, 2**32 - 1, 2**63, 2**63, 2**63, 2**63, 2**63, 2**32 - 1, 2**32 - 1, True, ((9, 2**63),)
        ),
    ]
    content = encode(True, [entry.pack() for entry in entries])
    assert decode(content) == Checkpoint(True, {(e.topic_id, e.partition): e for e in entries})
    for length in range(len(content)):
        with pytest.raises(ValueError):
            decode(content[:length])
    for at in range(len(content)):
        spoiled = bytearray(content)
        spoiled[at] ^= 1
        with pytest.raises(ValueError):
            decode(bytes(spoiled))


def test_a_checkpoint_of_an_earlier_orderly_stop_does_not_make_the_last_one_orderly() -> None:
    """The newest was spoiled since: the one before it knows nothing of what came between the two stops."""
    folder = Folder()
    append(folder.log(), b"before the first stop")
    log = folder.reopen()
    append(log, b"between the stops")
    folder.data.close()
    content = bytearray(folder.fault.content(f"{DATA}/checkpoint"))
    content[len(content) // 2] ^= 1
    folder.fault.overwrite(f"{DATA}/checkpoint", bytes(content))
    folder.data = folder.open()
    assert not folder.data.recovered.clean
    assert not folder.data.claims().tail_sure, "the cluster is told that something may be missing"
    assert read_all(folder.log()) == {1: b"before the first stop", 2: b"between the stops"}


def test_a_folder_whose_first_start_was_cut_short_was_never_used() -> None:
    folder = Folder()
    assert not folder.data.was_used
    folder.fault.kill_process()
    folder.data = folder.open()
    assert not folder.data.was_used, "the checkpoint of its first start tells of nothing"
    folder.log()
    folder.data.write_checkpoint()
    folder.fault.kill_process()
    assert folder.open().was_used, "it told of a log, though that has no file"


def test_a_folder_that_was_stopped_in_order_or_whose_checkpoint_is_spoiled_was_used(tmp_path: Path) -> None:
    def opened(name: str) -> DataFolder:
        return DataFolder.open(str(tmp_path / name), OsDisk(), SystemClock())

    opened("stopped").close()
    assert opened("stopped").was_used
    opened("spoiled").abandon()
    (tmp_path / "spoiled/checkpoint").write_bytes(b"?")
    assert opened("spoiled").was_used


def test_an_old_open_of_the_same_partition_gives_the_same_log() -> None:
    folder = Folder()
    assert folder.log() is folder.log()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    data = DataFolder.open(path, OsDisk(), SystemClock())
    program = (
        "import sys; from tank_node.clock import SystemClock; from tank_node.disk import OsDisk\n"
        "from tank_node.store.data_folder import DataFolder\n"
        "from tank_node.segment.errors import DataFolderInUse\n"
        "try: DataFolder.open(sys.argv[1], OsDisk(), SystemClock()).close()\n"
        "except DataFolderInUse as error: print(error); sys.exit(3)\n"
    )
    refused = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 3
    assert f"another process uses the data folder {path}" in refused.stdout
    with pytest.raises(DataFolderInUse):
        DataFolder.open(path, OsDisk(), SystemClock())
    data.close()
    subprocess.run([sys.executable, "-c", program, path], check=True)


def test_the_real_disk_does_what_the_one_for_tests_does(tmp_path: Path) -> None:
    folder = Folder(OsDisk(), str(tmp_path / "data"), LogSettings(segment_bytes=100_000))
    log = folder.log()
    for n in range(300):
        append(log, bytes([n % 256]) * 1000, producer=(9, 0, n))
    assert len(log.segments) == 4
    log.truncate_to(250)
    log.flush()
    assert read_all(log) == {n + 1: bytes([n % 256]) * 1000 for n in range(250)}
    log = folder.reopen()
    assert folder.data.recovered.clean
    assert read_all(log) == {n + 1: bytes([n % 256]) * 1000 for n in range(250)}
    assert append(log, b"next", producer=(9, 0, 250)) == (251, 251)
    folder.data.delete_topic(TOPIC)
    assert os.listdir(tmp_path / "data" / "topics") == []
    folder.data.close()


def test_space_allocated_ahead_is_given_back_when_a_segment_is_sealed(tmp_path: Path) -> None:
    folder = Folder(OsDisk(), str(tmp_path / "data"))
    log = folder.log()
    for _ in range(100):
        append(log, b"x" * 10_000)
    path = log.segments[0].path(".log")
    log.roll()
    log.flush()
    status = os.stat(path)
    assert status.st_size == log.size_bytes
    assert status.st_blocks * 512 <= status.st_size + 64 * 1024
    folder.data.close()


def test_a_folder_goes_at_once_and_its_files_when_there_is_time() -> None:
    folder = Folder()
    waiting: list[Callable[[], None]] = []
    folder.data.removal.run = waiting.append
    for _ in range(3):  # moved away, back, and away again, faster than the files can go
        append(folder.log(), b"x")
        folder.data.delete_partition(TOPIC, 0)
        assert folder.log().last == 0
    left = {path.split("/")[3] for path in folder.fault.paths(".log")}
    assert left == {f".deleted-{TOPIC}-0-{n}" for n in (1, 2, 3)}
    for job in waiting:
        job()
    assert folder.fault.paths(".log") == []


def test_what_can_not_be_removed_does_not_keep_the_node_from_starting() -> None:
    folder = Folder()
    append(folder.log(), b"x")
    waiting: list[Callable[[], None]] = []
    folder.data.removal.run = waiting.append
    folder.data.delete_topic(TOPIC)
    folder.data.close()

    def fails(path: str) -> None:
        raise OSError(5, "Input/output error")

    folder.data = folder.open()
    removes, folder.fault.remove_tree = folder.fault.remove_tree, fails  # type: ignore[method-assign]
    assert folder.data.set_aside_unknown(set()) == []
    folder.fault.remove_tree = removes  # type: ignore[method-assign]
    assert folder.data.set_aside_unknown(set()) == []
    assert folder.fault.paths(".log") == []
