"""The batches of a segment or a folder of them, read straight from the files: for `tank log dump` and
`verify`.

Changes nothing and needs no data folder: it may look at a copy, or beside a running broker (whose last batch
may then be half written).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from tank_node.disk import Disk
from tank_node.log.record import RECORD_BYTES, Record, matches, read_record
from tank_node.log.segment import INDEX, LOG

_RECORDS = 4096
"""Read from an index at once."""


@dataclass(slots=True, frozen=True)
class DumpedBatch:
    """One index record and the bytes that it points to."""

    segment: int
    """The number in the files' names."""
    record: Record
    batch: bytes
    """Length prefix and bundle; shorter than `record.length` where the log file ends before."""
    problem: str
    """Why it must not be believed; empty when record and bytes agree."""


@dataclass(slots=True, frozen=True)
class DumpedProblem:
    """Something wrong with a segment that is not one batch's."""

    segment: int
    problem: str


def segment_bases(disk: Disk, path: str) -> list[int]:
    """The segments of a partition's folder, by the numbers in their names. Raises OSError."""
    names = [os.path.splitext(entry.name) for entry in disk.entries(path)]
    return sorted({int(stem) for stem, suffix in names if stem.isdigit() and suffix in (LOG, INDEX)})


def dump(disk: Disk, path: str, first: int = 0) -> Iterator[DumpedBatch | DumpedProblem]:
    """Everything in a partition's folder, or in the segment whose .log or .index file `path` is.

    Batches that end before number `first` are left out. Raises OSError when a file cannot be read.
    """
    stem, suffix = os.path.splitext(os.path.basename(path))
    if suffix in (LOG, INDEX) and stem.isdigit():
        folder, bases = os.path.dirname(path), [int(stem)]
    else:
        folder, bases = path, segment_bases(disk, path)
    last = 0
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        if following is not None and following <= first:
            continue
        for found in _dump_segment(disk, folder, base, first, last):
            if isinstance(found, DumpedBatch) and not found.problem:
                last = found.record.last
            yield found


def _dump_segment(
    disk: Disk, folder: str, base: int, first: int, last: int
) -> Iterator[DumpedBatch | DumpedProblem]:
    stem = os.path.join(folder, f"{base:020d}")
    for suffix in (LOG, INDEX):
        if not disk.exists(stem + suffix):
            yield DumpedProblem(base, f"the file {stem}{suffix} is missing")
            return
    log_fd = disk.open(stem + LOG)
    try:
        index_fd = disk.open(stem + INDEX)
        try:
            yield from _dump_files(disk, log_fd, index_fd, base, first, last)
        finally:
            disk.close(index_fd)
    finally:
        disk.close(log_fd)


def _dump_files(
    disk: Disk, log_fd: int, index_fd: int, base: int, first: int, last: int
) -> Iterator[DumpedBatch | DumpedProblem]:
    log_bytes, index_bytes = disk.size(log_fd), disk.size(index_fd)
    position = 0
    for start in range(0, index_bytes - RECORD_BYTES + 1, _RECORDS * RECORD_BYTES):
        piece = disk.read_at(index_fd, _RECORDS * RECORD_BYTES, start)
        for at in range(0, len(piece) - RECORD_BYTES + 1, RECORD_BYTES):
            record = read_record(piece, at)
            length = min(record.length, max(log_bytes - record.position, 0))
            skipped = record.last < first and record.position == position
            batch = b"" if skipped else disk.read_at(log_fd, length, record.position)
            problem = "" if skipped else _problem(record, batch, position, max(last, base - 1))
            if not skipped:
                yield DumpedBatch(base, record, batch, problem)
            if not problem:
                last, position = record.last, record.end
    if index_bytes % RECORD_BYTES:
        yield DumpedProblem(base, f"the index ends with {index_bytes % RECORD_BYTES} bytes of a torn record")
    if position < log_bytes:
        yield DumpedProblem(base, f"{log_bytes - position} bytes behind number {last} have no good record")


def _problem(record: Record, batch: bytes, position: int, last: int) -> str:
    if record.position != position:
        return f"begins at byte {record.position}, though the batch before it ends at {position}"
    if record.first <= last:
        return f"begins at number {record.first}, though {last} came before it"
    if len(batch) < record.length:
        return f"the log has {len(batch)} of its {record.length} bytes"
    return "" if matches(record, batch) else "does not match its checksum"
