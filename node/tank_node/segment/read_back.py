"""Reading stored batches back and checking them against their records: for recovery, mending and the
scrub."""

from collections.abc import Iterator

from tank_node.segment.errors import DiskFailed
from tank_node.segment.index import SCAN_RECORDS
from tank_node.segment.record import Record, matches
from tank_node.segment.segment import Segment

READ_BYTES = 4 * 1024 * 1024
"""Bytes of one read of a log file while checking."""

SMALLEST_BATCH_BYTES = 32
"""A rough lower bound: only the number of records per read depends on it."""


def batches(
    segment: Segment, start: int, log_bytes: int, read_bytes: int = READ_BYTES
) -> Iterator[tuple[int, Record, memoryview]]:
    """Yields (record number, record, batch) from record `start` on. A batch has fewer bytes than its record
    says where the file ends before. read_bytes: the size of one read of the log; a longer batch is read
    whole.
    """
    disk = segment.log_end.file.files.disk
    file = segment.log_end.file
    window, begin = memoryview(b""), 0
    at_once = min(read_bytes // SMALLEST_BATCH_BYTES + 1, SCAN_RECORDS)
    for i, record in enumerate(segment.index.records(start, at_once=at_once), start):
        if record.position < begin or record.end > begin + len(window):
            begin = record.position
            wanted = min(max(read_bytes, record.length), max(log_bytes - begin, 0))
            try:
                window = memoryview(disk.read_at(file.files.use(file), wanted, begin))
            except OSError as error:
                raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
        at = record.position - begin
        yield i, record, window[at : at + record.length]


def end_of(segment: Segment, count: int) -> int:
    """The position in the log file behind the first `count` batches."""
    return segment.index.record(count - 1).end if count else 0


def good_in_a_row(segment: Segment, start: int, last: int, log_bytes: int) -> Iterator[Record]:
    """Yields the records from `start` on, up to the first that is out of order or does not match its batch.

    last: the number that the first record must be above.
    """
    position = end_of(segment, start)
    for _, record, batch in batches(segment, start, log_bytes):
        if record.first <= last or record.position != position or not matches(record, batch):
            return
        yield record
        last, position = record.last, record.end


def is_good_behind(segment: Segment, bad: int, log_bytes: int) -> bool:
    """Whether any record behind the bad one matches its batch."""
    return any(matches(record, batch) for _, record, batch in batches(segment, bad + 1, log_bytes))
