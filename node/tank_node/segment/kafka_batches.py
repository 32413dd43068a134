"""The batch format of Kafka's clients: record batches of magic 2 (`tank_protos.kafka.record_batch`). They are
stored as the clients sent them, except for base offset and leader epoch. An offset is the number less 1."""

from collections.abc import Sequence
from typing import ClassVar, Final

from tank_node.segment.batch_format import (
    BatchFormat,
    BatchInfo,
    FoundBatch,
    InvalidBatch,
    KeyedEntry,
    NumberedBatch,
    NumberTaken,
    Times,
)
from tank_node.segment.record import MARKER, SPARSE, TRANSACTIONAL
from tank_protos.bundle import MAX_SEQUENCE_NUMBER
from tank_protos.kafka import record_batch, records
from tank_protos.kafka.codecs import pack
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.limits import MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import RecordBatchHeader
from tank_protos.kafka.records import KafkaRecord, RecordColumns
from tank_protos.wire.buffer import Buffer

_LENGTH_END: Final = 12
"""The place behind the length field, from which the length counts."""
_I64_END: Final = 2**63
_ATTRIBUTES_AT: Final = 22
"""The lower byte of the attributes, which has all that are known."""


class KafkaBatches(BatchFormat):
    """The batch format of topics with `log.format=kafka`. All records have SPARSE, because a record batch
    carries its numbers wherever it is in a chunk."""

    __slots__ = ()

    tells_greatest_time: ClassVar[bool] = True

    def judge(self, batch: memoryview, walks: bool) -> BatchInfo:
        """Checks what a log relies on: that the bytes are one batch, and its numbers. The caller has checked
        all else (`record_batch.check`), with the checksum, which is not computed twice."""
        try:
            header = record_batch.read_header(batch)
        except InvalidRecords as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid
        delta, count = header.last_offset_delta, header.records_count
        if header.magic != record_batch.MAGIC or header.batch_length != len(batch) - _LENGTH_END:
            raise InvalidBatch("the bytes are not one batch of magic 2", "invalid_records")
        if not 1 <= count <= delta + 1:
            raise InvalidBatch(f"{count} records do not fit offsets from 0 to {delta}", "invalid_records")
        return info_of(header)

    def number(
        self, batch: memoryview, info: BatchInfo, first: int | None, end: int, leader_epoch: int
    ) -> NumberedBatch:
        """As `BatchFormat.number`. Writes number and epoch into the batch's own bytes, or those of a copy
        where they can't be changed. The base offset that a client sent means nothing."""
        span = info.last - info.first
        if first is None:
            first = end + 1
        if not end < first <= MAX_SEQUENCE_NUMBER - span:
            raise NumberTaken(f"number {first} is not above the end, {end}, or too large")
        if batch.readonly:
            batch = memoryview(bytearray(batch))
        record_batch.patch(batch, first - 1, leader_epoch)
        return batch, first, span, _flags(batch[_ATTRIBUTES_AT])

    def last_in(self, batch: Buffer) -> int:
        header, _, deltas = _read(memoryview(batch), MAX_UNPACKED_BYTES)
        return header.base_offset + 1 + deltas[-1] if deltas else header.base_offset

    def entries(self, batch: memoryview, first: int) -> list[KeyedEntry]:
        header, columns, deltas = _read(batch, MAX_UNPACKED_BYTES)
        first = header.base_offset + 1
        return [
            KeyedEntry(first + delta, key, value is None)
            for delta, key, value in zip(deltas, columns.keys, columns.values, strict=True)
        ]

    def times(self, batch: memoryview, first: int, max_bytes: int) -> Times:
        header, columns, deltas = _read(batch, max_bytes)
        first = header.base_offset + 1
        return Times(
            [first + delta for delta in deltas],
            [header.timestamp_ms(delta) for delta in columns.timestamp_deltas],
        )

    def rewritten(self, batch: memoryview, first: int, kept: Sequence[int], horizon_ms: int = 0) -> bytes:
        """As `BatchFormat.rewritten`. The header keeps its offsets, epoch and producer, and the records are
        compressed as before. A horizon takes the place of the base timestamp, with other deltas to the same
        timestamps; it is left out where a delta does not fit."""
        header, columns, deltas = _read(batch, MAX_UNPACKED_BYTES)
        times = [columns.timestamp_deltas[place] for place in kept]
        greatest_ms = max(header.timestamp_ms(delta) for delta in times)
        header = header._replace(records_count=len(kept), max_timestamp_ms=greatest_ms)
        shift = header.base_timestamp_ms - horizon_ms
        if horizon_ms and min(times) + shift >= -_I64_END and max(times) + shift < _I64_END:
            times = [delta + shift for delta in times]
            attributes = header.attributes | record_batch.DELETE_HORIZON
            header = header._replace(attributes=attributes, base_timestamp_ms=horizon_ms)
        stay = [
            KafkaRecord(
                columns.keys[place],
                columns.values[place],
                deltas[place],
                delta,
                columns.headers.get(place, ()),
            )
            for place, delta in zip(kept, times, strict=True)
        ]
        return record_batch.seal(header, pack(header.codec, records.encode(stay)))

    def horizon_ms(self, batch: memoryview) -> int | None:
        header = record_batch.read_header(batch)
        return header.base_timestamp_ms if header.attributes & record_batch.DELETE_HORIZON else 0

    def given_epoch(self, batch: bytes, leader_epoch: int) -> bytes:
        """As `BatchFormat.given_epoch`: readers compare the epoch in a batch with the history of epochs."""
        header = record_batch.read_header(batch)
        if header.leader_epoch == leader_epoch:
            return batch
        changed = bytearray(batch)
        record_batch.patch(memoryview(changed), header.base_offset, leader_epoch)
        return bytes(changed)

    def batch_bytes(self, head: memoryview) -> int:
        try:
            return record_batch.batch_bytes(head)
        except InvalidRecords as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid

    def find(self, batch: memoryview, last: int) -> FoundBatch:
        """As `BatchFormat.find`. The checksum in the header says that nothing is chance: the records are not
        decoded."""
        try:
            header = record_batch.verify(batch)
        except InvalidRecords as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid
        found = FoundBatch(
            header.base_offset + 1,
            header.last_offset_delta,
            header.records_count,
            max(header.max_timestamp_ms, 0),
            _flags(header.attributes),
            append_ms=header.max_timestamp_ms if header.attributes & record_batch.LOG_APPEND_TIME else 0,
        )
        if header.producer_id <= 0 or header.producer_epoch < 0 or header.base_sequence < 0:
            return found
        return found._replace(
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            producer_sequence=header.base_sequence,
        )


def info_of(header: RecordBatchHeader) -> BatchInfo:
    """The info of a checked batch with this header, as `judge` returns it."""
    first = header.base_offset + 1
    last = first + header.last_offset_delta
    return BatchInfo(header.records_count, max(header.max_timestamp_ms, 0), True, first, last)


def _flags(attributes: int) -> int:
    """The flags of the index record of a batch with these attributes."""
    flags = SPARSE
    if attributes & record_batch.TRANSACTIONAL:
        flags |= TRANSACTIONAL
    if attributes & record_batch.CONTROL:
        flags |= MARKER
    return flags


def _read(batch: memoryview, max_bytes: int) -> tuple[RecordBatchHeader, RecordColumns, Sequence[int]]:
    """Returns a stored batch's header, its records, and their offset deltas, which rise. Raises
    InvalidBatch."""
    try:
        header = record_batch.read_header(batch)
        columns = record_batch.columns_of(batch, header, max_bytes)
    except InvalidRecords as invalid:
        raise InvalidBatch(str(invalid), invalid.reason) from invalid
    return header, columns, records.placed_deltas(columns.offset_deltas, header.last_offset_delta)
