"""The records of one partition in a Produce request: checked, and in the form in which the topic stores
them. Pure."""

from typing import Final

from tank_node.kafka.produce.request_room import RequestRoom
from tank_node.metrics import Metrics
from tank_node.partition.waiters import ProducerStamp
from tank_node.segment import produced_batch
from tank_protos.kafka import message_set, record_batch, records, transcode
from tank_protos.kafka.codecs import CODEC_MASK, KafkaCodec
from tank_protos.kafka.errors import InvalidRecords, RecordsFault, invalid, too_large
from tank_protos.kafka.record_batch import LOG_APPEND_TIME, MAGIC, MAGIC_AT, RecordBatchHeader
from tank_protos.topic_settings import LogFormat, TopicSettings, Transcoding
from tank_protos.wire.buffer import Buffer

_BATCHES_SINCE: Final = 3
"""The first version that brings record batches; before it are message sets."""
_ZSTD_SINCE: Final = 7
_SET_GROWTH: Final = 4
"""How many times as long as its record batch a message set may be: a message of a set takes 26 bytes besides
key and value, and a record at least 7."""
_NO_APPEND_TIME: Final = -1


class InTransaction(Exception):
    """A batch of a transaction."""


class CheckedBatch:
    """A batch that the topic may store."""

    __slots__ = ("append_ms", "data", "max_timestamp_ms", "producer")

    def __init__(
        self, data: memoryview, producer: ProducerStamp | None, max_timestamp_ms: int, append_ms: int
    ) -> None:
        self.data = data
        """In the topic's format, without numbers."""
        self.producer = producer
        """The idempotent producer; None: the batch has none."""
        self.max_timestamp_ms = max_timestamp_ms
        """The greatest time of its records; 0: none has one."""
        self.append_ms = append_ms
        """The time of the append, if the records have it; else -1."""


def checked_batch(
    given: Buffer | None,
    version: int,
    settings: TopicSettings,
    now_ms: int,
    metrics: Metrics,
    room: RequestRoom,
) -> CheckedBatch:
    """Checks the records that a request of this version brings for a topic with these settings, and converts
    them where the topic's format is another one. room: of the request. Raises InvalidRecords, InTransaction,
    and RequestIsFull.

    The broker's own fields are written into the batch's own bytes, unless it was converted.
    """
    room.begin()
    if version < _BATCHES_SINCE:
        batch = _from_message_set(given, settings.max_message_bytes, metrics, room)
    elif given is None or not len(given):
        raise invalid("a partition without a record batch, where one is wanted")
    else:
        batch = memoryview(given)
        if len(batch) > MAGIC_AT and batch[MAGIC_AT] < MAGIC:  # a message set may be shorter than a header
            raise invalid(f"records of magic {batch[MAGIC_AT]}, where a record batch is wanted")
    header = produced_batch.checked_header(batch, settings, now_ms, settings.max_message_bytes)
    if version < _ZSTD_SINCE and header.attributes & CODEC_MASK == KafkaCodec.ZSTD:
        fault = RecordsFault.UNSUPPORTED_CODEC
        raise InvalidRecords(fault, f"zstd is allowed from version {_ZSTD_SINCE} of Produce on")
    if header.attributes & record_batch.TRANSACTIONAL:
        raise InTransaction("transactions are not served")
    produced_batch.check_earliest(header, settings, now_ms)
    has_append_time = produced_batch.has_append_time(settings)
    if settings.log_format is LogFormat.KAFKA:
        _check_records(batch, header, settings, room, is_ours=version < _BATCHES_SINCE)
        if has_append_time:
            record_batch.patch_append_time(batch, header, now_ms)
    else:
        if has_append_time:
            attributes = header.attributes | LOG_APPEND_TIME
            header = header._replace(attributes=attributes, max_timestamp_ms=now_ms)
        batch = _as_bundle(batch, header, settings, now_ms, metrics, room)
    producer = None
    if header.producer_id > 0:
        producer = ProducerStamp(header.producer_id, header.producer_epoch, header.base_sequence)
    return CheckedBatch(
        batch,
        producer,
        produced_batch.stored_time_ms(header, settings, now_ms),
        now_ms if has_append_time else _NO_APPEND_TIME,
    )


def _from_message_set(
    given: Buffer | None, max_bytes: int, metrics: Metrics, room: RequestRoom
) -> memoryview:
    if given is None:
        raise invalid("a partition without a message set")
    if len(given) > _SET_GROWTH * max_bytes:
        raise too_large(f"a message set of {len(given)} bytes; the topic takes batches of {max_bytes}")
    batch = bytearray(message_set.to_record_batch(room.messages_of(given)))
    metrics.converted["produced_set"] += 1
    metrics.converted_bytes["produced_set"] += len(batch)
    return memoryview(batch)


def _check_records(
    batch: memoryview,
    header: RecordBatchHeader,
    settings: TopicSettings,
    room: RequestRoom,
    *,
    is_ours: bool,
) -> None:
    """Walks through the records as far as the topic demands. is_ours: whether this broker has encoded
    them."""
    compacts = settings.cleanup_policy.compacts
    if not produced_batch.walks_records(header, settings) or (is_ours and not compacts):
        return
    payload: Buffer = batch[record_batch.HEADER_BYTES :]
    if header.attributes & CODEC_MASK:
        payload = room.payload_of(batch, header)
    records.walk(payload, header.records_count, header.last_offset_delta, keyed=compacts)


def _as_bundle(
    batch: memoryview,
    header: RecordBatchHeader,
    settings: TopicSettings,
    now_ms: int,
    metrics: Metrics,
    room: RequestRoom,
) -> memoryview:
    room.convert(header.records_count)
    payload = room.payload_of(batch, header) if header.attributes & CODEC_MASK else None
    converted = transcode.produced_to_tank(
        batch,
        header,
        append_ms=now_ms,
        compacted=settings.cleanup_policy.compacts,
        lenient=settings.transcode is Transcoding.LENIENT,
        payload=payload,
    )
    metrics.converted["produced_batch"] += 1
    metrics.converted_bytes["produced_batch"] += len(converted.data)
    if any(converted.losses):
        metrics.converted["produced_lossy"] += 1
    return memoryview(converted.data)
