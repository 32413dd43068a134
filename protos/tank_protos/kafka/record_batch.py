"""Record batches of magic 2, the format of Kafka's clients since 2017: reads, checks and writes headers.

Big-endian: `i64 base_offset, i32 batch_length` (of the bytes behind it), `i32 leader_epoch, i8 magic, u32
crc32c` (of the bytes behind it), `i16 attributes, i32 last_offset_delta, i64 base_timestamp, i64
max_timestamp, i64 producer_id, i16 producer_epoch, i32 base_sequence, i32 records_count`, then the records.
If the attributes name a codec, the records are compressed as a whole. A broker checks the header (`check`),
writes two fields of its own into it (`patch`), and stores and serves all other bytes as they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from tank_protos.kafka import records as _records
from tank_protos.kafka.codecs import KafkaCodec, codec_of, pack, unpack
from tank_protos.kafka.errors import InvalidRecords, RecordsFault, corrupt, invalid, too_large
from tank_protos.kafka.limits import MAX_BATCH_BYTES, MAX_CONVERTED_RECORDS, MAX_UNPACKED_BYTES
from tank_protos.kafka.records import KafkaRecord, RecordColumns
from tank_protos.kernel import twin
from tank_protos.wire.buffer import Buffer

MAGIC: Final = 2
MAGIC_AT: Final = 16
"""The place of the magic in all of Kafka's formats, so that it tells them apart."""
_HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = _HEADER.size
_LENGTH_END: Final = 12
"""The place behind the length field, from which the length counts."""
_LENGTH: Final = Struct(">qi")
_PLACE: Final = Struct(">qii")
_CRC_AT: Final = 17
_COVERED_FROM: Final = 21
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35

# The attributes, besides the codec in bits 0-2.
LOG_APPEND_TIME: Final = 0x08
"""All records have the batch's greatest timestamp, which is the time of the append."""
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
"""The batch has one record, which ends a transaction."""
DELETE_HORIZON: Final = 0x40
"""The base timestamp is the time at which compaction may remove the batch's tombstones."""
_KNOWN: Final = 0x7F

NO_TIMESTAMP: Final = -1
_I64_END: Final = 2**63
NO_EPOCH: Final = -1
ANY_TIME: Final = 2**63 - 1
"""The greatest timestamp: as the latest time of a topic it refuses none."""


class ProducerFields(NamedTuple):
    """The producer that wrote a batch, and the batch's place in the producer's sequence."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


NO_PRODUCER: Final = ProducerFields(-1, -1, -1)


class RecordBatchHeader(NamedTuple):
    """The fields of a batch's header. It is a tuple for speed: the broker makes one for each batch."""

    base_offset: int
    batch_length: int
    """The number of bytes behind this field."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def codec(self) -> KafkaCodec:
        """The codec of the records. Raises InvalidRecords if the number is that of no codec."""
        return codec_of(self.attributes)

    @property
    def last_offset(self) -> int:
        """The offset of the last record. Compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    def timestamp_ms(self, timestamp_delta: int) -> int:
        """Returns the timestamp of a record with this delta, or NO_TIMESTAMP if it does not fit an i64."""
        if self.attributes & LOG_APPEND_TIME:
            return self.max_timestamp_ms
        stamp = self.base_timestamp_ms + timestamp_delta
        return stamp if -_I64_END <= stamp < _I64_END else NO_TIMESTAMP


def batch_bytes(head: Buffer) -> int:
    """Returns the size of the batch that begins with these bytes, of which 12 are needed. Raises
    InvalidRecords."""
    if len(head) < _LENGTH_END:
        raise corrupt(f"{len(head)} bytes are no header of a batch")
    _, length = _LENGTH.unpack_from(head, 0)
    if length < HEADER_BYTES - _LENGTH_END:
        raise corrupt(f"a batch of {length} bytes behind its length, where its header alone has 49")
    return _LENGTH_END + int(length)


def batches(chunk: Buffer) -> Iterator[memoryview]:
    """Yields the batches of a chunk as slices of it. A partial batch at the end is left out, since an answer
    may be cut anywhere. Raises InvalidRecords for a length below that of a header."""
    view = memoryview(chunk)
    at, end = 0, len(view)
    while end - at >= _LENGTH_END:
        stop = at + batch_bytes(view[at : at + _LENGTH_END])
        if stop > end:
            return
        yield view[at:stop]
        at = stop


def read_header(batch: Buffer) -> RecordBatchHeader:
    """Returns the header, unchecked. Raises InvalidRecords if the bytes end inside it."""
    if len(batch) < HEADER_BYTES:
        raise corrupt(f"{len(batch)} bytes are no batch: its header has {HEADER_BYTES}")
    # RecordBatchHeader(...) takes twice the time, and this runs for each batch.
    return tuple.__new__(RecordBatchHeader, _HEADER.unpack_from(batch, 0))


@twin("kafka_batch")
def verify(batch: memoryview) -> RecordBatchHeader:
    """Returns the header of a batch that a log may hold.

    Raises InvalidRecords if length, magic or checksum are wrong, an attribute or the codec is unknown, or the
    batch has more records than offsets. Compaction leaves fewer.
    """
    header = read_header(batch)
    if header.batch_length != len(batch) - _LENGTH_END:
        raise _wrong_length(batch, header)
    if header.magic != MAGIC:
        raise invalid(f"a batch of magic {header.magic}, where {MAGIC} is wanted")
    if crc32c(batch[_COVERED_FROM:]) != header.crc:
        raise corrupt("the batch doesn't match its checksum")
    attributes, count = header.attributes, header.records_count
    if attributes & ~_KNOWN:
        raise invalid(f"a batch with the unknown attributes {attributes & 0xFFFF:#06x}")
    codec = codec_of(attributes)
    if count < 0 or header.last_offset_delta < count - 1 or header.last_offset_delta < 0:
        raise invalid(f"{count} records do not fit offsets from 0 to {header.last_offset_delta}")
    if not codec and count * _records.RECORD_BYTES > len(batch) - HEADER_BYTES:
        raise invalid(f"{count} records in {len(batch) - HEADER_BYTES} bytes")
    return header


def _wrong_length(batch: memoryview, header: RecordBatchHeader) -> InvalidRecords:
    length = header.batch_length + _LENGTH_END
    if HEADER_BYTES <= length < len(batch):
        return invalid(f"{len(batch) - length} bytes follow the batch, where one batch is wanted")
    return corrupt(f"the batch says {length} bytes and brings {len(batch)}")


@twin("kafka_batch")
def check(
    batch: memoryview, *, max_bytes: int = MAX_BATCH_BYTES, latest_ms: int = ANY_TIME
) -> RecordBatchHeader:
    """Checks a batch from a producer by its header and checksum, and returns the header. The records are not
    read.

    `max_bytes` is the topic's limit for a batch, `latest_ms` the latest timestamp that the topic accepts. The
    caller checks the producer's epoch and sequence, and whether the request's version has the codec. Raises
    InvalidRecords.
    """
    if len(batch) > max_bytes:
        raise too_large(f"a batch of {len(batch)} bytes; the topic takes {max_bytes}")
    header = verify(batch)
    attributes = header.attributes
    if attributes & (LOG_APPEND_TIME | CONTROL | DELETE_HORIZON):
        if attributes & (CONTROL | DELETE_HORIZON):
            raise invalid("a client's batch ends a transaction, or was compacted, by its attributes")
        raise InvalidRecords(
            RecordsFault.INVALID_TIMESTAMP, "a client's batch has the time of its append, by its attributes"
        )
    if header.records_count < 1 or header.last_offset_delta != header.records_count - 1:
        raise invalid(
            f"{header.records_count} records, whose last has the offset delta {header.last_offset_delta}"
        )
    if header.max_timestamp_ms > latest_ms:
        raise InvalidRecords(
            RecordsFault.INVALID_TIMESTAMP,
            f"the timestamp {header.max_timestamp_ms} is above {latest_ms}, the latest that the topic takes",
        )
    producer_id = header.producer_id
    if producer_id >= 0:
        if not producer_id or header.producer_epoch < 0 or header.base_sequence < 0:
            raise invalid(
                f"producer {producer_id} with epoch {header.producer_epoch}, sequence {header.base_sequence}"
            )
    elif producer_id != NO_PRODUCER.producer_id or attributes & TRANSACTIONAL:
        raise invalid(f"a batch of producer {producer_id}, which is none, or of none in a transaction")
    return header


@twin("kafka_batch")
def patch(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch into a batch that was checked. The checksum does not cover them."""
    _PLACE.pack_into(batch, 0, base_offset, len(batch) - _LENGTH_END, leader_epoch)


def patch_append_time(batch: memoryview, header: RecordBatchHeader, append_ms: int) -> None:
    """Writes the time of the append into a batch, as the timestamp of all its records, and the new checksum.
    `header` is the batch's own."""
    _ATTRIBUTES.pack_into(batch, _COVERED_FROM, header.attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, append_ms)
    _CRC.pack_into(batch, _CRC_AT, crc32c(batch[_COVERED_FROM:]))


def payload_of(batch: Buffer, header: RecordBatchHeader, *, max_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """Returns the records of a batch, uncompressed, for the functions of `records`. Raises InvalidRecords."""
    return unpack(header.codec, memoryview(batch)[HEADER_BYTES:], max_bytes=max_bytes)


def columns_of(
    batch: Buffer, header: RecordBatchHeader, max_bytes: int, payload: bytes | None = None
) -> RecordColumns:
    """Returns the records of a batch that is converted to another format. payload: the records, if the caller
    has unpacked them. Raises InvalidRecords, also for more than MAX_CONVERTED_RECORDS."""
    if header.records_count > MAX_CONVERTED_RECORDS:
        raise too_large(f"a batch of {header.records_count} records, which are too many to be converted")
    if payload is None:
        payload = payload_of(batch, header, max_bytes=max_bytes)
    return _records.read_columns(payload, header.records_count)


def seal(header: RecordBatchHeader, payload: bytes) -> bytes:
    """Returns a batch with this header, whose magic, length and checksum are computed, and these records,
    which are compressed already if the header names a codec."""
    length = HEADER_BYTES - _LENGTH_END + len(payload)
    head = bytearray(_HEADER.pack(*header[:1], length, header.leader_epoch, MAGIC, 0, *header[5:]))
    _CRC.pack_into(head, _CRC_AT, crc32c(payload, crc32c(head[_COVERED_FROM:])))
    return b"".join((head, payload))


def encode(
    records: Sequence[KafkaRecord],
    *,
    base_timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    codec: KafkaCodec = KafkaCodec.NONE,
    producer: ProducerFields = NO_PRODUCER,
    transactional: bool = False,
    append_ms: int | None = None,
) -> bytes:
    """Returns a batch of these records, at least one, with rising offset deltas. append_ms: the time of the
    append, as the timestamp of all records."""
    attributes = int(codec)
    if transactional:
        attributes |= TRANSACTIONAL
    if append_ms is None:
        greatest_ms = base_timestamp_ms + max(record.timestamp_delta for record in records)
    else:
        greatest_ms = append_ms
        attributes |= LOG_APPEND_TIME
    header = RecordBatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        records[-1].offset_delta,
        base_timestamp_ms,
        greatest_ms,
        *producer,
        len(records),
    )
    return seal(header, pack(codec, _records.encode(records)))
