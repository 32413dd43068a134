"""A disk that is really full: a small tmpfs, which needs the right to mount."""

import contextlib
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.disk import OsDisk
from tank_node.log.log import LogState
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import DiskFull, StorageError
from tank_protos.error_codes import CreateTopicError
from tests.integration.programs.served import create_topic, delete_topic, stored, write_one
from tests.support.processes.broker_process import running_broker
from tests.support.storage.logs import Folder, append, read_all

pytestmark = pytest.mark.integration


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("NOT TESTED ON A FULL DISK: there is no `mount` here")
    if done.returncode:
        pytest.skip(
            f"NOT TESTED ON A FULL DISK: mounting a small tmpfs is not allowed here ({done.stderr.strip()})"
        )
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(disk: Path, but_bytes: int) -> Path:
    """A file that leaves so much room."""
    ballast = disk / "ballast"
    with pytest.raises(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    os.truncate(ballast, max(ballast.stat().st_size - but_bytes, 0))
    return ballast


def noise(seed: int) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(32_000)


def test_errors_while_full_reads_go_on_and_writes_resume(small_disk: Path) -> None:
    folder = Folder(OsDisk(), str(small_disk / "data"), LogSettings(segment_bytes=200_000))
    log, other = folder.log(), folder.log(1)
    append(other, b"before")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    stored = 0
    with pytest.raises(DiskFull):
        for n in range(100):
            append(log, noise(n))
            stored += 1
    assert stored > 5
    expected = {n + 1: noise(n) for n in range(stored)}
    for _ in range(3):
        with pytest.raises(StorageError):
            append(log, noise(1000))
        assert (log.state, log.last) == (LogState.ACTIVE, stored)
        assert read_all(log) == expected
    assert read_all(other) == {1: b"before"}
    ballast.unlink()
    assert append(log, b"there is room again") == (stored + 1, stored + 1)
    log.flush()
    log = folder.reopen()
    assert read_all(log) == expected | {stored + 1: b"there is room again"}
    folder.data.close()


def test_a_full_disk_at_the_stop_keeps_what_was_synced(small_disk: Path) -> None:
    folder = Folder(OsDisk(), str(small_disk / "data"))
    log = folder.log()
    append(log, b"a")
    log.flush()
    folder.data.write_checkpoint()
    append(log, b"b")
    log.flush()
    ballast = fill(small_disk, 0)
    log = folder.reopen()
    assert not folder.data.recovered.clean
    assert read_all(log)[1] == b"a"
    ballast.unlink()
    assert read_all(log) == {1: b"a", 2: b"b"}
    folder.data.close()


@pytest.mark.parametrize("left_pages", range(7))
def test_a_broker_that_finds_no_room_at_its_start_says_so_and_changes_nothing(
    small_disk: Path, left_pages: int
) -> None:
    with running_broker(small_disk) as broker:
        assert create_topic(broker, "t") == CreateTopicError.NONE
        write_one(broker, "t")
        broker.kill()
        ballast = fill(small_disk, left_pages * 4096)
        before = len(broker.output())
        broker.start(wait=False)
        with contextlib.suppress(AssertionError):  # it ended, as it may: then it says why
            broker.wait_until_ready()
        said = broker.output()[before:]
        assert ("listening" in said) != ("No space left" in said and "make room there" in said), said
        broker.kill()
        ballast.unlink()
        broker.start()
        assert stored(broker, "t") == [b"one"]
        assert create_topic(broker, "t") == CreateTopicError.EXISTS
        assert create_topic(broker, "u") == CreateTopicError.NONE


def test_on_a_full_disk_a_topic_can_be_deleted_and_a_crashed_broker_starts(small_disk: Path) -> None:
    """Else nobody could make room by the broker's own means."""
    with running_broker(small_disk) as broker:
        for name in ("kept", "gone"):
            assert create_topic(broker, name) == CreateTopicError.NONE
            write_one(broker, name)
        fill(small_disk, 0)
        broker.kill()
        broker.start()
        assert stored(broker, "kept") == [b"one"]
        delete_topic(broker, "gone")
        write_one(broker, "kept")
        assert stored(broker, "kept") == [b"one", b"one"]
        broker.kill()
        broker.start()
        assert create_topic(broker, "kept") == CreateTopicError.EXISTS
