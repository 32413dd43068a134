"""Reading the groups of a partition from its log, in steps that are short enough for an event loop."""

from collections.abc import Callable, Iterator
from typing import Final

from tank_node.coordinators import group_records
from tank_node.coordinators.group_records import GroupRecord, OffsetRecord
from tank_node.partition.numbering import FIRST_AVAILABLE
from tank_node.partition.partition import Partition
from tank_node.partition.reach import Reach
from tank_node.segment.errors import LogFailed
from tank_node.segment.reading import bytes_of
from tank_protos.kafka import record_batch, records
from tank_protos.kafka.errors import InvalidRecords

_READ_BYTES: Final = 256 * 1024
"""The most bytes of one read, but for a longer batch."""
_STEP_RECORDS: Final = 32
"""How many records a step reads: some 300 µs."""


class GroupLoad:
    """The reading of one partition, from its first record to the high-water mark at the beginning."""

    __slots__ = ("_partition", "_take", "skipped")

    def __init__(self, partition: Partition, take: Callable[[OffsetRecord | GroupRecord], None]) -> None:
        """take: called with each record, the oldest first. A later one replaces an earlier one of its key."""
        self._partition = partition
        self._take = take
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
            number = found.last + 1
            for batch in record_batch.batches(data):
                yield from self._batch(batch)

    def _batch(self, batch: memoryview) -> Iterator[None]:
        done = 0
        try:
            header = record_batch.read_header(batch)
            if header.attributes & record_batch.CONTROL:
                return
            payload = record_batch.payload_of(batch, header)
            for record in records.iterate(payload, header.records_count):
                read = group_records.read(record.key, record.value)
                if read is None:
                    self.skipped += 1
                else:
                    self._take(read)
                done += 1
                if done % _STEP_RECORDS == 0:
                    yield
        except InvalidRecords:
            self.skipped += 1
        yield
