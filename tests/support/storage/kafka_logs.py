"""Logs of Kafka's record batches: appends as a leader does, and reads as a Kafka consumer does."""

from typing import NamedTuple

from tank_node.log.log import PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.segment.batch_formats import format_of
from tank_node.segment.record import FORMAT_KAFKA
from tank_node.segment.segment import FileRange
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.record_batch import NO_PRODUCER, ProducerFields, RecordBatchHeader
from tank_protos.kafka.records import KafkaRecord, placed_deltas
from tests.support.values.kafka_records import STAMP_MS

KAFKA = LogSettings(format=FORMAT_KAFKA)
ALONE = LogSettings(format=FORMAT_KAFKA, replication_factor=1)
REPLICATED = LogSettings(format=FORMAT_KAFKA, replication_factor=3)

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a message."""


class Content(NamedTuple):
    """One message of a log."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def append_batch(
    log: PartitionLog, batch: bytes, *, first: int | None = None, epoch: int = 1, now_ms: int = 1000
) -> tuple[int, int]:
    """Appends a client's batch, and writes it. Returns its first and last number."""
    batches = format_of(FORMAT_KAFKA)
    given = memoryview(bytearray(batch))
    info = batches.judge(given, True)
    stored, number, span, flags = batches.number(given, info, first, log.tail.last, epoch)
    header = record_batch.read_header(stored)
    is_produced = header.producer_id > 0
    found = log.tail.stage(
        stored,
        messages=info.messages,
        first=number,
        span=span,
        max_timestamp_ms=info.timestamp_ms,
        leader_epoch=epoch,
        now_ms=now_ms,
        flags=flags,
        producer_id=header.producer_id if is_produced else 0,
        producer_epoch=header.producer_epoch if is_produced else 0,
        producer_sequence=max(header.base_sequence, 0),
    )
    log.tail.write()
    return found


def append_pairs(
    log: PartitionLog,
    *pairs: Pair,
    codec: KafkaCodec = KafkaCodec.NONE,
    producer: ProducerFields = NO_PRODUCER,
    first: int | None = None,
    epoch: int = 1,
) -> tuple[int, int]:
    """Appends one batch of these messages, a millisecond apart."""
    made = [KafkaRecord(key, value, place, place) for place, (key, value) in enumerate(pairs)]
    batch = record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec, producer=producer)
    return append_batch(log, batch, first=first, epoch=epoch)


def stretch(log: PartitionLog, number: int, max_bytes: int = 1 << 20, through: int = 2**62) -> bytes | None:
    """The bytes of one read from this number on."""
    found = log.read(number, max_bytes, through)
    if found is None:
        return None
    assert isinstance(found, FileRange)
    try:
        return log.disk.read_at(found.file.fd, found.length, found.position)
    finally:
        found.file.release()


def headers(log: PartitionLog, max_bytes: int = 1 << 20) -> list[RecordBatchHeader]:
    """The headers of all batches, each of which is checked against its own checksum."""
    return [record_batch.verify(batch) for batch in _batches(log, max_bytes)]


def read_records(log: PartitionLog, max_bytes: int = 1 << 20) -> dict[int, Content]:
    """Number -> message of everything that can be read, as a Kafka consumer reads: the next request names the
    offset behind the last batch."""
    found: dict[int, Content] = {}
    for batch in _batches(log, max_bytes):
        header = record_batch.verify(batch)
        columns = record_batch.columns_of(batch, header, 1 << 24)
        deltas = placed_deltas(columns.offset_deltas, header.last_offset_delta)
        for place, delta in enumerate(deltas):
            stamp = header.timestamp_ms(columns.timestamp_deltas[place])
            number = header.base_offset + delta + 1
            assert number not in found, "each number once"
            found[number] = Content(columns.keys[place], columns.values[place], stamp)
    return found


def _batches(log: PartitionLog, max_bytes: int) -> list[memoryview]:
    batches: list[memoryview] = []
    number = log.first_available
    while (data := stretch(log, number, max_bytes)) is not None:
        batches += record_batch.batches(data)
        number = record_batch.read_header(batches[-1]).last_offset + 2
    return batches
