"""The batches in a replica's log, in the form that the books compare."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tank_node.log.log import LogState, PartitionLog
from tank_node.segment.record import BREAK, FORMAT_KAFKA, REWRITTEN, Record, matches
from tank_node.segment.segment import Segment
from tank_protos import bundle
from tank_protos.kafka import record_batch, records
from tank_protos.kafka.records import placed_deltas


@dataclass(slots=True, frozen=True)
class Batch:
    """What of a batch is the same on every replica: its record without the place in the file."""

    first: int
    last: int
    content: Record
    data: bytes

    @classmethod
    def of(cls, record: Record, data: bytes) -> "Batch":
        """From an index record, whose checksum covers the batch's bytes, and these."""
        return cls(record.first, record.last, record._replace(position=0), data)


def same(record: Record, data: bytes, other: Record, others: bytes) -> bool:
    """Whether two replicas hold one batch. A segment that was written anew, mended or compacted, says so in
    its records; what it kept is what it was."""
    if not (record.flags | other.flags) & REWRITTEN:
        return record._replace(position=0) == other._replace(position=0) and data == others
    return _without_marks(record) == _without_marks(other) and data == others


def _without_marks(record: Record) -> Record:
    return record._replace(position=0, crc=0, flags=record.flags & ~(REWRITTEN | BREAK))


class Message(NamedTuple):
    """A message of a batch, whatever the batch's format."""

    number: int
    key: bytes
    """Empty where it has none."""
    value: bytes


def messages(record: Record, data: bytes) -> Iterator[Message]:
    """The messages of a batch. Its record says which of the two formats it has."""
    if record.format == FORMAT_KAFKA:
        yield from kafka_messages(memoryview(data))
        return
    number = record.first
    for one in bundle.bundles(data):
        for message in bundle.decode(one, number):
            number = message.sequence_number + 1
            yield Message(message.sequence_number, bytes(message.key or b""), bytes(message.value))


def kafka_messages(batch: memoryview) -> Iterator[Message]:
    """The messages of a record batch, by our numbers. Raises InvalidRecords."""
    header = record_batch.verify(batch)
    columns = records.read_columns(record_batch.payload_of(batch, header), header.records_count)
    deltas = placed_deltas(columns.offset_deltas, header.last_offset_delta)
    for delta, key, value in zip(deltas, columns.keys, columns.values, strict=True):
        yield Message(header.base_offset + delta + 1, key or b"", value or b"")


def stored(log: PartitionLog, after: int, through: int) -> Iterator[tuple[Record, bytes]]:
    """The batches that begin behind `after` and not behind `through`: index records and bytes."""
    for segment, record in _placed(log, after, through):
        file = segment.log_end.file
        yield record, file.files.disk.read_at(file.files.use(file), record.length, record.position)


def is_whole(log: PartitionLog) -> bool:
    """Whether every stored batch is what its record says."""
    if log.state is not LogState.ACTIVE or log.is_impaired:
        return False
    for segment in log.segments:
        last, position = segment.base - 1, 0
        file = segment.log_end.file
        for record in segment.index.records(0):
            data = file.files.disk.read_at(file.files.use(file), record.length, record.position)
            if record.position != position or record.first <= last or not matches(record, data):
                return False
            last, position = record.last, record.end
    return True


def _placed(log: PartitionLog, after: int, through: int) -> Iterator[tuple[Segment, Record]]:
    bases = [segment.base for segment in log.segments]
    for segment in log.segments.list[max(bisect_right(bases, after + 1) - 1, 0) :]:
        if segment.base > through:
            return
        index = segment.index
        start = index.containing(after + 1) if index.count else 0
        for record in index.records(max(start, 0)):
            if record.first > through:
                return
            if record.first > after:
                yield segment, record
