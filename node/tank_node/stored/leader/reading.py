"""Reading stored batches of a partition that this broker leads."""

from struct import Struct
from typing import Final

from tank_node.limits import STORED_BATCHES
from tank_node.log.append_search import first_appended_at, first_of_newest
from tank_node.log.log import PartitionLog
from tank_node.partition.partition import Partition
from tank_node.segment.reading import bytes_of
from tank_node.segment.record import FORMAT_TANK, MARKER, RECORD_BYTES
from tank_node.segment.segment import FileRange
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.places import stable_mark
from tank_node.stored.results import BatchAsStored, Fetched, StoredWanted
from tank_node.stored.strategy import StoredStrategy

_fields: Final = Struct("<QIII4xQ27xBI").iter_unpack
"""first, span, position, length, append_ms, flags and messages of records."""
_AT_ONCE: Final = 64
"""The records of one read of the index: a page of the page cache."""
_US_PER_MS: Final = 1_000


def read_stored(partition: Partition, wanted: StoredWanted) -> Fetched:
    """Reads what is wanted, up to the greatest number that readers may see; without batches when there is
    nothing. Raises StorageError."""
    most_bytes = partition.limits.iggy_poll_bytes
    max_bytes = min(wanted.max_bytes or most_bytes, most_bytes)
    mark, log = stable_mark(partition), partition.log
    start = _start(log, wanted, max_bytes, mark)
    read = _Read(log, start, wanted.count, max_bytes, mark)
    read.run()
    return Fetched(
        StoredOutcome.DONE,
        start,
        mark,
        max(log.first_available, 1),
        read.next,
        log.settings.format == FORMAT_TANK,
        read.batches,
    )


def _start(log: PartitionLog, wanted: StoredWanted, max_bytes: int, mark: int) -> int:
    """The number that a read begins with."""
    first = max(log.first_available, 1)
    match wanted.strategy:
        case StoredStrategy.NUMBER:
            return max(wanted.value, first)
        case StoredStrategy.TIME:
            return max(first_appended_at(log, -(-wanted.value // _US_PER_MS)), first)
        case StoredStrategy.LAST:
            return max(first_of_newest(log, wanted.count, max_bytes, mark), first)
        case _:
            return first


class _Read:
    """One read, stretch by stretch."""

    __slots__ = ("_left_bytes", "_log", "_mark", "_missing", "_start", "batches", "next")

    def __init__(self, log: PartitionLog, start: int, count: int, max_bytes: int, mark: int) -> None:
        self._log = log
        self._start = start
        self._missing = count
        self._left_bytes = max_bytes
        self._mark = mark
        self.next = start
        """The number behind the last batch that was looked at."""
        self.batches: list[BatchAsStored] = []

    def run(self) -> None:
        while self._missing > 0 and self._left_bytes > 0 and len(self.batches) < STORED_BATCHES:
            stretch = self._log.read(self.next, self._left_bytes, self._mark)
            if stretch is None:
                return
            try:
                self._take(stretch)
            finally:
                stretch.file.release()

    def _take(self, stretch: FileRange) -> None:
        """Takes as many batches of a stretch as are wanted; it has one at least."""
        if self.batches and stretch.length > self._left_bytes:
            self._left_bytes = 0
            return
        found = self._log.segments.find(stretch.first)
        assert found is not None, "a batch that was read has a record"
        segment, at = found
        base = stretch.position
        taken: list[tuple[int, int, int, int, int]] = []
        end = base
        while at < stretch.next_record and self._wants(len(taken)):
            stop = min(at + _AT_ONCE, stretch.next_record)
            records = segment.index.raw(at, stop)
            assert len(records) == (stop - at) * RECORD_BYTES, "the index has become shorter"
            for first, span, position, length, append_ms, flags, messages in _fields(records):
                last = first + span
                self.next = last + 1
                end = position + length
                if flags & MARKER:
                    continue
                taken.append((first, messages, append_ms, position - base, length))
                self._missing -= min(messages, last - max(first, self._start) + 1)
                if not self._wants(len(taken)):
                    break
            at = stop
        self._left_bytes -= end - base
        if taken:
            stretch.length = end - base
            data = memoryview(bytes_of(stretch))
            for first, messages, append_ms, position, length in taken:
                self.batches.append(
                    BatchAsStored(first, messages, append_ms, data[position : position + length])
                )

    def _wants(self, taken: int) -> bool:
        """Whether more batches are wanted, with so many of this stretch."""
        return self._missing > 0 and len(self.batches) + taken < STORED_BATCHES
