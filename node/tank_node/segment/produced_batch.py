"""Judges a producer's record batch by its topic's settings, whatever protocol brought it. Pure."""

from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import CODEC_MASK
from tank_protos.kafka.errors import InvalidRecords, RecordsFault
from tank_protos.kafka.record_batch import ANY_TIME, NO_TIMESTAMP, RecordBatchHeader
from tank_protos.topic_settings import UNLIMITED_MS, RecordValidation, TimestampType, TopicSettings


def checked_header(
    batch: memoryview, settings: TopicSettings, now_ms: int, max_bytes: int
) -> RecordBatchHeader:
    """Checks a batch of at most `max_bytes` by its header and checksum, and its greatest timestamp by the
    latest that the topic takes. Returns the header. Raises InvalidRecords."""
    latest_ms = ANY_TIME
    if not has_append_time(settings):
        latest_ms = min(now_ms + settings.timestamp_after_max_ms, ANY_TIME)
    return record_batch.check(batch, max_bytes=max_bytes, latest_ms=latest_ms)


def check_earliest(header: RecordBatchHeader, settings: TopicSettings, now_ms: int) -> None:
    """Raises InvalidRecords for a batch that begins before the earliest time that the topic takes."""
    if settings.timestamp_before_max_ms == UNLIMITED_MS or has_append_time(settings):
        return
    base_ms, earliest_ms = header.base_timestamp_ms, now_ms - settings.timestamp_before_max_ms
    if NO_TIMESTAMP != base_ms < earliest_ms:
        sentence = f"the timestamp {base_ms} is below {earliest_ms}, the earliest that the topic takes"
        raise InvalidRecords(RecordsFault.INVALID_TIMESTAMP, sentence)


def walks_records(header: RecordBatchHeader, settings: TopicSettings) -> bool:
    """Whether the topic demands a walk through the records of a batch with this header."""
    validation = settings.record_validation
    if settings.cleanup_policy.compacts or validation is RecordValidation.FULL:
        return True
    return validation is not RecordValidation.HEADER and not header.attributes & CODEC_MASK


def has_append_time(settings: TopicSettings) -> bool:
    """Whether the topic's records have the time of their append."""
    return settings.timestamp_type is TimestampType.LOG_APPEND_TIME


def stored_time_ms(header: RecordBatchHeader, settings: TopicSettings, now_ms: int) -> int:
    """Returns the greatest time of the batch's records as they are stored; 0: none has one."""
    return now_ms if has_append_time(settings) else max(header.max_timestamp_ms, 0)
