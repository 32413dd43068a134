"""Reading stored batches back, to see whether records and bytes still belong together: for recovery, for
mending and for the scrub."""

from collections.abc import Iterator

from tank_node.log.errors import DiskFailed
from tank_node.log.index import SCAN_RECORDS
from tank_node.log.record import Record, matches
from tank_node.log.segment import Segment

READ_BYTES = 4 * 1024 * 1024
"""Read from a log file at once while checking."""

SMALLEST_BATCH_BYTES = 32
"""About. How many records are read at once hangs on it, and nothing else."""


def batches(
    segment: Segment, start: int, log_bytes: int, read_bytes: int = READ_BYTES
) -> Iterator[tuple[int, Record, memoryview]]:
    """Each record from `start` on with the bytes it points to (fewer where the file ends before).

    read_bytes: read from the log at once, or one batch if it is longer. Of records no more are read than so
    many bytes can hold batches for.
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
    """Where the bytes of the first `count` batches end."""
    return segment.index.record(count - 1).end if count else 0


def good_in_a_row(segment: Segment, start: int, last: int, log_bytes: int) -> Iterator[Record]:
    """The records from `start` on, up to the first that is not good: out of order, or not of its bytes.

    last: the number that the first of them must be above.
    """
    position = end_of(segment, start)
    for _, record, batch in batches(segment, start, log_bytes):
        if record.first <= last or record.position != position or not matches(record, batch):
            return
        yield record
        last, position = record.last, record.end


def is_good_behind(segment: Segment, bad: int, log_bytes: int) -> bool:
    """Whether a record behind the bad one matches its bytes."""
    return any(matches(record, batch) for _, record, batch in batches(segment, bad + 1, log_bytes))
