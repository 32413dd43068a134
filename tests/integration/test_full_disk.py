"""A disk that is really full: a small tmpfs, which needs the right to mount."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.disk import OsDisk
from tank_node.log.errors import DiskFull, StorageError
from tank_node.log.log import LogState
from tank_node.log.settings import LogSettings
from tests.support.logs import Folder, append, read_all

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
    ballast = small_disk / "ballast"
    with pytest.raises(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    log = folder.reopen()
    assert not folder.data.recovered.clean
    assert read_all(log)[1] == b"a"
    ballast.unlink()
    assert read_all(log) == {1: b"a", 2: b"b"}
    folder.data.close()
