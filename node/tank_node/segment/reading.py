"""Finding the bytes of a segment that answer a read, by its records."""

from bisect import bisect_right
from struct import Struct
from typing import Final

from tank_node.segment.batch_formats import last_in
from tank_node.segment.errors import DiskFailed, LogDamaged
from tank_node.segment.record import FLAGS_AT, RECORD_BYTES, REWRITTEN, SPARSE
from tank_node.segment.segment import FileRange, Segment

_head: Final = Struct(f"<QIII{FLAGS_AT - 20}xB").unpack_from
"""first, span, position, length, flags of a record."""


def stretch_from(segment: Segment, i: int, max_bytes: int, through: int, last: int) -> FileRange | None:
    """Returns whole batches from record `i` on: at least one, otherwise at most `max_bytes`. None when record
    `i` begins above `through`.

    No batch of it begins above `through`, and none but the first has BREAK. last: the last number of this
    segment, or more. The file of the result is pinned. Raises StorageError.
    """
    index = segment.index
    data, start = index.holder(i)
    first, span, position, length, flags = _head(data, (i - start) * RECORD_BYTES)
    if first > through:
        return None
    log_bytes = segment.log_end.length
    limit = position + max_bytes
    if log_bytes <= limit:
        stop = index.count - 1
    else:
        positions = index.positions
        if data is index.block and positions[-1] > limit:
            # The first batch that begins behind the limit is excluded, and the one before it, which crosses
            # it.
            stop = start + bisect_right(positions, limit, i - start) - 2
        else:
            stop = index.last_ending_by(limit, i, position)
    if through < last and stop > i:
        stop = min(stop, index.last_beginning_by(through, i, first))
    if stop > i and flags & REWRITTEN:
        stop = index.first_break(i + 1, stop) - 1
    end = first + span
    if stop > i:
        data, start = index.holder(stop)
        to_first, to_span, to_position, to_length, _ = _head(data, (stop - start) * RECORD_BYTES)
        end = to_first + to_span
        length = to_position + to_length - position
    else:
        stop = i
    file = segment.log_end.file
    if not (first <= end and 0 < length <= log_bytes - position):
        raise LogDamaged(f"record {i} of {segment.index_end.file.path} points outside of its log")
    file.pin()
    return FileRange(file, position, length, first, end, flags & SPARSE != 0, stop + 1)


def bytes_of(stretch: FileRange) -> bytes:
    """Returns the bytes of a file range, for an answer that can't be sent from the file. The file stays
    pinned. Raises StorageError."""
    file = stretch.file
    try:
        data = file.files.disk.read_at(file.files.use(file), stretch.length, stretch.position)
    except OSError as error:
        raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
    if len(data) != stretch.length:
        raise LogDamaged(f"{file.path} is shorter than its index says")
    return bytes(data)


def behind_rewritten(segment: Segment, i: int, number: int) -> int:
    """Returns the number behind batch `i`, when compaction removed all its messages from `number` on;
    otherwise 0.

    A consumer of such a batch asks next for the number behind its last message, which the record still
    assigns to this batch. Raises StorageError.
    """
    record = segment.index.record(i)
    if number <= record.first or not record.flags & REWRITTEN or not record.flags & SPARSE:
        return 0
    is_last = i + 1 == segment.count
    if record.end != (segment.log_end.length if is_last else segment.index.record(i + 1).position):
        return 0  # a bad record, whose length may be gigabytes: the check before the read reports it
    file = segment.log_end.file
    try:
        batch = file.files.disk.read_at(file.files.use(file), record.length, record.position)
    except OSError as error:
        raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
    return record.last + 1 if 0 <= last_in(record, batch) < number <= record.last else 0
