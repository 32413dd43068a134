"""Dumping a log's files: every batch, and every problem, without changing anything."""

import pytest

from tank_node.log.dump import DumpedBatch, DumpedProblem, dump
from tank_node.log.record import RECORD_BYTES
from tank_node.log.settings import LogSettings
from tests.support.logs import FOLDER, Folder, append, batch


@pytest.fixture
def folder() -> Folder:
    folder = Folder(settings=LogSettings(segment_bytes=60))
    for n in range(10):
        append(folder.log(), b"%d" % n * 10)
    return folder


def problems(folder: Folder, path: str = FOLDER, first: int = 0) -> list[str]:
    return [found.problem for found in dump(folder.disk, path, first) if found.problem]


def test_every_batch_comes_in_order_with_its_bytes(folder: Folder) -> None:
    changes = folder.fault.changes
    found = [one for one in dump(folder.disk, FOLDER) if isinstance(one, DumpedBatch)]
    assert [one.record.first for one in found] == list(range(1, 11))
    assert [one.batch for one in found] == [bytes(batch(b"%d" % n * 10)) for n in range(10)]
    assert problems(folder) == []
    assert folder.fault.changes == changes
    assert folder.fault.open_files == len(folder.data.files) + 1, (
        "only the log's own files and the lock are open"
    )


def test_one_segment_or_a_number_to_begin_at(folder: Folder) -> None:
    bases = [segment.base for segment in folder.log().segments]
    one = list(dump(folder.disk, f"{FOLDER}/{bases[1]:020d}.index"))
    assert [b.record.first for b in one if isinstance(b, DumpedBatch)] == list(range(bases[1], bases[2]))
    later = [b.record.first for b in dump(folder.disk, FOLDER, 7) if isinstance(b, DumpedBatch)]
    assert later == [7, 8, 9, 10]


def test_every_flipped_byte_is_reported(folder: Folder) -> None:
    for suffix in (".log", ".index"):
        path = f"{FOLDER}/{1:020d}{suffix}"
        content = folder.fault.content(path)
        for at in range(len(content)):
            flipped = bytearray(content)
            flipped[at] ^= 0x40
            folder.fault.overwrite(path, bytes(flipped))
            assert problems(folder), f"byte {at} of {suffix}"
        folder.fault.overwrite(path, content)
    assert problems(folder) == []


def test_what_is_missing_is_reported(folder: Folder) -> None:
    index = f"{FOLDER}/{1:020d}.index"
    content = folder.fault.content(index)
    folder.fault.overwrite(index, content[: RECORD_BYTES + 3])
    assert any("torn record" in problem for problem in problems(folder))
    assert any("have no good record" in problem for problem in problems(folder))
    folder.fault.delete(index)
    [problem] = [found for found in dump(folder.disk, FOLDER) if isinstance(found, DumpedProblem)]
    assert "is missing" in problem.problem
