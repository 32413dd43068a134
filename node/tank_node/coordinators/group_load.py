"""Reading the groups of a partition from its log, in steps that are short enough for an event loop."""

from collections.abc import Callable, Iterator
from typing import Final

from tank_node.coordinators.records.record_reader import GroupRecordReader, ReadRecord
from tank_node.partition.numbering import FIRST_AVAILABLE
from tank_node.partition.partition import Partition
from tank_node.partition.reach import Reach
from tank_node.segment.errors import LogFailed
from tank_node.segment.reading import bytes_of
from tank_protos.kafka import records
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.records import Headers

_READ_BYTES: Final = 256 * 1024
"""The most bytes of one read, but for a longer batch."""
_STEP_RECORDS: Final = 128
"""How many records a step takes over: some 200 µs. A batch has `Limits.group_batch_bytes` at most, whose
records are cut apart in one go: some 3 ms."""
_NO_HEADERS: Final[Headers] = ()


class GroupLoad:
    """The reading of one partition, from its first record to the high-water mark at the beginning."""

    __slots__ = ("_partition", "_reader", "_take", "skipped")

    def __init__(self, partition: Partition, take: Callable[[ReadRecord], None]) -> None:
        """take: called with each record, the oldest first. A later one replaces an earlier one of its key. A
        `ReadOffset` is the callee's until it returns."""
        self._partition = partition
        self._take = take
        self._reader = GroupRecordReader()
        self.skipped = 0
        """The records that could not be read: damaged, or of a kind that only later brokers know."""

    def steps(self) -> Iterator[None]:
        """Reads some records at each step. Raises StorageError."""
        partition = self._partition
        through = partition.high_water_mark
        number = FIRST_AVAILABLE
        while number <= through:
            found = partition.fetch(number, _READ_BYTES)
            if found is Reach.WAIT:
                return  # the log is empty
            if found is Reach.OUT_OF_BOUNDS:
                number = FIRST_AVAILABLE  # the log's first records were removed meanwhile
                continue
            if isinstance(found, Reach):
                raise LogFailed(f"{partition.topic_name}/{partition.number} can't be read")
            try:
                data = bytes_of(found)
            finally:
                found.file.release()
            from tank_protos.kafka import record_batch  # with its codecs, 2 MB: most brokers have no groups

            number = found.last + 1
            for batch in record_batch.batches(data):
                yield from self._batch(batch)

    def _batch(self, batch: memoryview) -> Iterator[None]:
        from tank_protos.kafka import record_batch

        try:
            header = record_batch.read_header(batch)
            if header.attributes & record_batch.CONTROL:
                return
            columns = records.read_columns(record_batch.payload_of(batch, header), header.records_count)
        except InvalidRecords:
            self.skipped += 1
            yield
            return
        keys, values, headers = columns.keys, columns.values, columns.headers
        for first in range(0, len(keys), _STEP_RECORDS):
            for place in range(first, min(first + _STEP_RECORDS, len(keys))):
                found = self._reader.read(keys[place], values[place], headers.get(place, _NO_HEADERS))
                if found is None:
                    self.skipped += 1
                else:
                    self._take(found)
            yield
