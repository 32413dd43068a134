"""Finding batches by the time of their append, and the newest messages of a log, by index records alone."""

from collections.abc import Iterator
from typing import Final

from tank_node.limits import WALKED_BYTES
from tank_node.log.log import PartitionLog
from tank_node.segment.batch_format import InvalidBatch
from tank_node.segment.batch_formats import format_of
from tank_node.segment.errors import DiskFailed
from tank_node.segment.record import MARKER, Record
from tank_node.segment.segment import Segment

_AT_ONCE: Final = 64
"""The records that a walk to older batches reads at a time: a page of the page cache."""


def first_appended_at(log: PartitionLog, append_ms: int) -> int:
    """The first number of the first batch that was appended at or after a time, or the log start if that lies
    within it; the log's written end + 1 when there is none. Append times never fall from one batch to the
    next. Raises StorageError."""
    for segment in log.segments.list:
        if not segment.count or segment.last_append_ms < append_ms:
            continue
        record = segment.index.record(segment.index.first_appended_at(append_ms))
        return max(record.first, log.first_available)
    return log.written + 1


def first_of_newest(log: PartitionLog, count: int, max_bytes: int, through: int) -> int:
    """The number with which the `count` newest messages begin that can be read up to `through`: fewer if
    these batches have more than `max_bytes`, but for one batch. `through` + 1 when there are none. Raises
    StorageError."""
    lowest = max(log.first_available, 1)
    number, missing, size = through + 1, count, 0
    for segment, record in _backwards(log, through):
        if record.last < lowest or missing <= 0:
            break
        if record.flags & MARKER:
            continue
        if size and size + record.length > max_bytes:
            break
        size += record.length
        first = max(record.first, lowest)
        if record.messages == record.span + 1 and record.last - first + 1 <= missing:
            number = first
            missing -= record.last - first + 1
        elif record.messages == record.span + 1:
            return record.last - missing + 1
        else:
            numbers = [each for each in _numbers(segment, record) if lowest <= each <= through]
            if len(numbers) > missing:
                return numbers[-missing]
            number = numbers[0] if numbers else number
            missing -= len(numbers)
    return number


def _backwards(log: PartitionLog, through: int) -> Iterator[tuple[Segment, Record]]:
    """The batches that begin at or below `through`, the newest first."""
    for segment in reversed(log.segments.list):
        index = segment.index
        if not index.count or segment.first > through:
            continue
        stop = index.last_beginning_by(through, 0, segment.first) + 1
        while stop:
            start = max(stop - _AT_ONCE, 0)
            for record in reversed(list(index.records(start, stop))):
                yield segment, record
            stop = start


def _numbers(segment: Segment, record: Record) -> list[int]:
    """The numbers of the messages in a batch that lacks some; its first number alone, if it can't be
    decoded."""
    file = segment.log_end.file
    try:
        batch = file.files.disk.read_at(file.files.use(file), record.length, record.position)
    except OSError as error:
        raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
    try:
        return list(format_of(record.format).times(memoryview(batch), record.first, WALKED_BYTES).numbers)
    except InvalidBatch:
        return [record.first]
