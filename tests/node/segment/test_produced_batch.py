"""A producer's record batch is judged by its topic's settings: its times, and which records are read."""

from dataclasses import replace

import pytest

from tank_node.segment import produced_batch
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.errors import InvalidRecords, RecordsFault
from tank_protos.kafka.record_batch import NO_TIMESTAMP, RecordBatchHeader
from tank_protos.kafka.records import KafkaRecord
from tank_protos.topic_settings import (
    UNLIMITED_MS,
    CleanupPolicy,
    RecordValidation,
    TimestampType,
    TopicSettings,
)
from tests.support.values.kafka_records import STAMP_MS

NOW_MS = STAMP_MS + 1_000
SETTINGS = TopicSettings(timestamp_before_max_ms=1_000, timestamp_after_max_ms=500)
APPEND_TIME = replace(SETTINGS, timestamp_type=TimestampType.LOG_APPEND_TIME)


def header_of(base_ms: int, codec: KafkaCodec = KafkaCodec.NONE) -> RecordBatchHeader:
    """Of a batch with one record of this time."""
    record = KafkaRecord(None, b"v" * 100, 0, 0)
    return record_batch.read_header(record_batch.encode([record], base_timestamp_ms=base_ms, codec=codec))


def checked(stamp_ms: int, settings: TopicSettings) -> RecordBatchHeader:
    batch = record_batch.encode([KafkaRecord(None, b"v", 0, 0)], base_timestamp_ms=stamp_ms)
    header = produced_batch.checked_header(memoryview(batch), settings, NOW_MS, len(batch))
    produced_batch.check_earliest(header, settings, NOW_MS)
    return header


@pytest.mark.parametrize("stamp_ms", [NOW_MS - 1_000, NOW_MS, NOW_MS + 500, NO_TIMESTAMP])
def test_times_up_to_the_bounds_are_taken_and_so_is_none(stamp_ms: int) -> None:
    assert checked(stamp_ms, SETTINGS).base_timestamp_ms == stamp_ms


@pytest.mark.parametrize("stamp_ms", [NOW_MS - 1_001, NOW_MS + 501])
def test_times_beyond_the_bounds_are_refused_unless_the_append_gives_another(stamp_ms: int) -> None:
    with pytest.raises(InvalidRecords) as refused:
        checked(stamp_ms, SETTINGS)
    assert refused.value.fault is RecordsFault.INVALID_TIMESTAMP
    header = checked(stamp_ms, APPEND_TIME)
    assert produced_batch.stored_time_ms(header, APPEND_TIME, NOW_MS) == NOW_MS


def test_without_an_earliest_time_every_old_one_is_taken() -> None:
    assert checked(0, replace(SETTINGS, timestamp_before_max_ms=UNLIMITED_MS)).base_timestamp_ms == 0


def test_records_without_a_time_count_as_of_no_time() -> None:
    assert produced_batch.stored_time_ms(header_of(NO_TIMESTAMP), SETTINGS, NOW_MS) == 0
    assert produced_batch.stored_time_ms(header_of(7), SETTINGS, NOW_MS) == 7


@pytest.mark.parametrize(
    ("validation", "compacts", "plain", "packed"),
    [
        (RecordValidation.HEADER, False, False, False),
        (RecordValidation.RECORDS, False, True, False),
        (RecordValidation.FULL, False, True, True),
        (RecordValidation.HEADER, True, True, True),
    ],
)
def test_the_topic_says_whose_records_are_read(
    validation: RecordValidation, compacts: bool, plain: bool, packed: bool
) -> None:
    policy = CleanupPolicy.CLEANUP if compacts else CleanupPolicy.DELETE
    settings = replace(SETTINGS, record_validation=validation, cleanup_policy=policy)
    assert produced_batch.walks_records(header_of(7), settings) is plain
    assert produced_batch.walks_records(header_of(7, KafkaCodec.GZIP), settings) is packed
