"""Copies that differ are told, and where. Folders as brokers leave them, one change at a time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tank_protos.storage.index_record import POSITION_AT, RECORD_BYTES
from tests.chaos.copies import differing

NAMES = ("broker 1", "broker 2", "broker 3")


def record(first: int, position: int) -> bytes:
    """One that begins with this number and says that its batch lies there."""
    content = bytearray(RECORD_BYTES)
    content[0] = first
    content[POSITION_AT] = position
    return bytes(content)


def write(folder: Path, base: int, batches: bytes, records: bytes) -> None:
    partition = folder / "topics" / "1" / "0"
    partition.mkdir(parents=True, exist_ok=True)
    (partition / f"{base:020d}.log").write_bytes(batches)
    (partition / f"{base:020d}.index").write_bytes(records)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Two batches each; the third broker rolled its segment between them."""
    found = {name: tmp_path / name for name in NAMES}
    for name in NAMES[:2]:
        write(found[name], 0, b"batch 1batch 2", record(1, 0) + record(2, 7))
    write(found[NAMES[2]], 0, b"batch 1", record(1, 0))
    write(found[NAMES[2]], 2, b"batch 2", record(2, 0))
    return found


def test_segments_may_end_elsewhere(folders: dict[str, Path]) -> None:
    assert list(differing(folders)) == []


def test_folders_without_a_partition_are_no_equal_copies(tmp_path: Path) -> None:
    assert list(differing({name: tmp_path / name for name in NAMES})) == [
        "DIFFERENT: no broker has a partition on its disk"
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda folder: write(folder, 2, b"batch X", record(2, 0)),
            "1/0: the batches of broker 1 (14 bytes) and broker 3 (14) differ from byte 13 on",
        ),
        (
            lambda folder: write(folder, 2, b"batch 2", record(3, 0)),
            "1/0: the records of broker 1 (128 bytes) and broker 3 (128) differ from byte 64 on",
        ),
        (
            lambda folder: write(folder, 3, b"batch 3", b""),
            "1/0: the batches of broker 1 (14 bytes) and broker 3 (21) differ from byte 14 on",
        ),
        (
            lambda folder: (folder / "topics" / "1").rename(folder / "gone"),
            "1/0: the batches of broker 1 (14 bytes) and broker 3 (0) differ from byte 0 on",
        ),
    ],
)
def test_each_difference_is_told(folders: dict[str, Path], change: Callable[[Path], None], told: str) -> None:
    change(folders[NAMES[2]])
    assert next(differing(folders)) == f"DIFFERENT: {told}"
