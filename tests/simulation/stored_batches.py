"""What a replica's log holds, batch by batch, as the books compare it."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from tank_node.log.log import LogState, PartitionLog
from tank_node.log.record import Record, matches
from tank_node.log.segment import Segment


@dataclass(slots=True, frozen=True)
class Batch:
    """What of a batch is the same on every replica: its record without the place in the file."""

    first: int
    last: int
    content: Record

    @classmethod
    def of(cls, record: Record) -> "Batch":
        """From an index record; its checksum covers the batch's bytes."""
        return cls(record.first, record.last, record._replace(position=0))


def records(log: PartitionLog, after: int, through: int) -> Iterator[Record]:
    """The index records of the batches that begin behind `after` and not behind `through`."""
    for _, record in _placed(log, after, through):
        yield record


def stored(log: PartitionLog, after: int, through: int) -> Iterator[tuple[Record, bytes]]:
    """The same with the batches' bytes."""
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
    for segment in log.segments[max(bisect_right(bases, after + 1) - 1, 0) :]:
        if segment.base > through:
            return
        index = segment.index
        start = index.containing(after + 1) if index.count else 0
        for record in index.records(max(start, 0)):
            if record.first > through:
                return
            if record.first > after:
                yield segment, record
