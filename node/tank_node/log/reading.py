"""Which bytes of a segment answer a read: the records are looked at, and what compaction left of a batch."""

from bisect import bisect_right
from struct import Struct
from typing import Final

from tank_node.log.errors import DiskFailed, LogDamaged
from tank_node.log.record import FLAGS_AT, RECORD_BYTES, REWRITTEN, SPARSE, last_in
from tank_node.log.segment import Segment, Stretch

_head: Final = Struct(f"<QIII{FLAGS_AT - 20}xB").unpack_from
"""first, span, position, length, flags of a record."""


def stretch_from(segment: Segment, i: int, max_bytes: int, through: int, last: int) -> Stretch | None:
    """Whole batches from record `i` on: at least one, else at most `max_bytes`.

    None begins above `through`; `last` is not below the last number in this segment. No chunk goes past a
    BREAK. The stretch's file is pinned. Raises StorageError.
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
            # Where the first batch behind the limit begins; the one before it is over the limit's edge.
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
    return Stretch(file, position, length, first, end, flags & SPARSE != 0, stop + 1)


def behind_rewritten(segment: Segment, i: int, number: int) -> int:
    """Where to go on when compaction took all messages from `number` on out of batch `i`; 0: it didn't.

    Whoever has read such a batch asks next for the number behind its last message: only the record knows how
    far the batch once went. Raises StorageError.
    """
    record = segment.index.record(i)
    if number <= record.first or not record.flags & REWRITTEN or not record.flags & SPARSE:
        return 0
    is_last = i + 1 == segment.count
    if record.end != (segment.log_end.length if is_last else segment.index.record(i + 1).position):
        return 0  # spoiled, and perhaps gigabytes long: the check before it is read says so
    file = segment.log_end.file
    try:
        batch = file.files.disk.read_at(file.files.use(file), record.length, record.position)
    except OSError as error:
        raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
    return record.last + 1 if 0 <= last_in(record, batch) < number <= record.last else 0
