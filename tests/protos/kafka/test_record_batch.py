"""Record batches of magic 2: the worked example, what a producer's batch may be, what a broker writes."""

from contextlib import suppress
from struct import pack

import pytest
from fastcrc.crc32 import iscsi as crc32c
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.errors import InvalidRecords, RecordsFault
from tank_protos.kafka.record_batch import (
    HEADER_BYTES,
    ProducerFields,
    RecordBatchHeader,
    batch_bytes,
    batches,
    check,
    encode,
    patch,
    patch_append_time,
    payload_of,
    read_header,
    seal,
    verify,
)
from tank_protos.kafka.records import KafkaRecord
from tests.support.examples import examples
from tests.support.values.kafka_records import STAMP_MS, changed, read, records, values_batch

EXAMPLE = bytes.fromhex(
    "0000000000000000 00000046 ffffffff 02 8efb4b75 0000 00000001 000001a1fafc30bc 000001a1fafc30c1"
    "ffffffffffffffff ffff ffffffff 00000002"
    "1a 00 00 00 02 6b 04 7631 02 02 68 02 31"
    "0c 00 0a 02 01 01 00"
)
ROWS = [KafkaRecord(b"k", b"v1", 0, 0, ((b"h", b"1"),)), KafkaRecord(None, None, 1, 5)]
GOOD = values_batch(b"one", b"two", b"three")


def test_the_worked_example() -> None:
    assert encode(ROWS, base_timestamp_ms=STAMP_MS) == EXAMPLE
    header = check(memoryview(EXAMPLE))
    assert header == RecordBatchHeader(0, 70, -1, 2, 0x8EFB4B75, 0, 1, STAMP_MS, STAMP_MS + 5, -1, -1, -1, 2)
    assert header.codec is KafkaCodec.NONE
    assert read(EXAMPLE) == ROWS
    assert [header.timestamp_ms(row.timestamp_delta) for row in ROWS] == [STAMP_MS, STAMP_MS + 5]


@given(records(), st.sampled_from(KafkaCodec), st.integers(0, 2**62))
def test_every_batch_comes_back(made: list[KafkaRecord], codec: KafkaCodec, base: int) -> None:
    batch = encode(made, base_timestamp_ms=STAMP_MS, base_offset=base, leader_epoch=7, codec=codec)
    header = check(memoryview(batch))
    assert (header.base_offset, header.leader_epoch, header.codec) == (base, 7, codec)
    assert (header.records_count, header.last_offset) == (len(made), base + len(made) - 1)
    assert header.max_timestamp_ms == STAMP_MS + max(record.timestamp_delta for record in made)
    assert read(batch) == made
    assert seal(header, batch[HEADER_BYTES:]) == batch


def test_a_producer_and_its_transaction() -> None:
    producer = ProducerFields(77, 3, 2**31 - 1)
    batch = encode(ROWS, base_timestamp_ms=0, producer=producer, transactional=True)
    header = check(memoryview(batch))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert header.attributes == 0x10


FAULTS = {
    "the length says more": (GOOD[:11] + b"\xff" + GOOD[12:], RecordsFault.CORRUPT),
    "the length says less than a header": (GOOD[:8] + pack(">i", 48) + GOOD[12:], RecordsFault.CORRUPT),
    "the length is negative": (GOOD[:8] + pack(">i", -1) + GOOD[12:], RecordsFault.CORRUPT),
    "two batches": (GOOD + GOOD, RecordsFault.INVALID_RECORD),
    "one byte behind it": (GOOD + b"\0", RecordsFault.INVALID_RECORD),
    "magic 1": (GOOD[:16] + b"\x01" + GOOD[17:], RecordsFault.INVALID_RECORD),
    "magic 3": (GOOD[:16] + b"\x03" + GOOD[17:], RecordsFault.INVALID_RECORD),
    "another checksum": (GOOD[:20] + b"?" + GOOD[21:], RecordsFault.CORRUPT),
    "another byte of a record": (GOOD[:-2] + b"?" + GOOD[-1:], RecordsFault.CORRUPT),
    "codec 5": (changed(GOOD, 21, ">h", 5), RecordsFault.UNSUPPORTED_CODEC),
    "codec 7": (changed(GOOD, 21, ">h", 7), RecordsFault.UNSUPPORTED_CODEC),
    "the time of the append": (changed(GOOD, 21, ">h", 0x08), RecordsFault.INVALID_TIMESTAMP),
    "a control batch": (changed(GOOD, 21, ">h", 0x30), RecordsFault.INVALID_RECORD),
    "a delete horizon": (changed(GOOD, 21, ">h", 0x40), RecordsFault.INVALID_RECORD),
    "attribute 7": (changed(GOOD, 21, ">h", 0x80), RecordsFault.INVALID_RECORD),
    "attribute 15": (changed(GOOD, 21, ">H", 0x8000), RecordsFault.INVALID_RECORD),
    "no records": (changed(changed(GOOD, 57, ">i", 0), 23, ">i", -1), RecordsFault.INVALID_RECORD),
    "-1 records": (changed(GOOD, 57, ">i", -1), RecordsFault.INVALID_RECORD),
    "fewer records than offsets": (changed(GOOD, 57, ">i", 2), RecordsFault.INVALID_RECORD),
    "more records than offsets": (changed(GOOD, 57, ">i", 4), RecordsFault.INVALID_RECORD),
    "more records than bytes": (
        changed(changed(GOOD, 57, ">i", 2**31 - 1), 23, ">i", 2**31 - 2),
        RecordsFault.INVALID_RECORD,
    ),
    "a last offset below the first": (changed(GOOD, 23, ">i", -1), RecordsFault.INVALID_RECORD),
    "a producer without epoch": (changed(GOOD, 43, ">q", 9), RecordsFault.INVALID_RECORD),
    "a producer without sequence": (
        changed(changed(GOOD, 43, ">q", 9), 51, ">h", 0),
        RecordsFault.INVALID_RECORD,
    ),
    "producer 0": (
        changed(changed(changed(GOOD, 43, ">q", 0), 51, ">h", 0), 53, ">i", 0),
        RecordsFault.INVALID_RECORD,
    ),
    "producer -2": (changed(GOOD, 43, ">q", -2), RecordsFault.INVALID_RECORD),
    "a transaction of none": (changed(GOOD, 21, ">h", 0x10), RecordsFault.INVALID_RECORD),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_producers_batch_is_refused(case: str) -> None:
    batch, fault = FAULTS[case]
    assert fault_of(batch) is fault


def test_a_batch_above_the_topics_limit_is_refused() -> None:
    check(memoryview(GOOD), max_bytes=len(GOOD))
    assert fault_of(GOOD, max_bytes=len(GOOD) - 1) is RecordsFault.TOO_LARGE


def test_a_time_too_far_ahead_is_refused() -> None:
    check(memoryview(GOOD), latest_ms=STAMP_MS + 2)
    assert fault_of(GOOD, latest_ms=STAMP_MS + 1) is RecordsFault.INVALID_TIMESTAMP


def test_a_batch_without_times_is_taken() -> None:
    check(memoryview(encode([KafkaRecord(None, b"v", 0, 0)], base_timestamp_ms=-1)), latest_ms=0)


def test_what_brokers_write_may_be_stored_though_no_client_may_send_it() -> None:
    for batch in (
        changed(GOOD, 21, ">h", 0x08),
        changed(GOOD, 21, ">h", 0x30),
        changed(GOOD, 21, ">h", 0x40),
        changed(GOOD, 23, ">i", 9),
        seal(read_header(GOOD)._replace(records_count=0), b""),
    ):
        verify(memoryview(batch))
        with pytest.raises(InvalidRecords):
            check(memoryview(batch))


def test_a_stored_batch_has_no_more_records_than_offsets() -> None:
    verify(memoryview(changed(GOOD, 57, ">i", 2)))
    with pytest.raises(InvalidRecords, match="4 records do not fit offsets from 0 to 2"):
        verify(memoryview(changed(GOOD, 57, ">i", 4)))


@pytest.mark.parametrize("at", range(HEADER_BYTES))
def test_each_byte_of_a_header_is_checked_or_written_by_the_broker(at: int) -> None:
    written = bytearray(GOOD)
    patch(memoryview(written), 500, 9)
    for value in {GOOD[at] ^ (1 << bit) for bit in range(8)} | {0, 0xFF} - {GOOD[at]}:
        if value == GOOD[at]:
            continue
        batch = bytearray(GOOD)
        batch[at] = value
        if at in range(8) or at in range(12, 16):
            check(memoryview(batch))
            patch(memoryview(batch), 500, 9)
            assert batch == written
        else:
            with pytest.raises(InvalidRecords):
                check(memoryview(batch))


def test_cut_anywhere_it_is_refused() -> None:
    for end in range(len(GOOD)):
        assert fault_of(GOOD[:end]) is RecordsFault.CORRUPT


@given(st.binary(max_size=80), st.booleans())
@examples(200)
def test_garbage_raises_nothing_but_invalid_records(garbage: bytes, sealed: bool) -> None:
    """Sealed: with the right length, magic and checksum, so that the fields are looked at."""
    batch = bytearray(garbage)
    if sealed and len(batch) >= HEADER_BYTES:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[16] = 2
        batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    with suppress(InvalidRecords):
        check(memoryview(batch))
    with suppress(InvalidRecords):
        read(bytes(batch))
    with suppress(InvalidRecords):
        list(batches(batch))


def test_the_broker_writes_offset_and_epoch_and_nothing_else() -> None:
    batch = bytearray(GOOD)
    patch(memoryview(batch), 2**62, 2**31 - 1)
    header = verify(memoryview(batch))
    assert (header.base_offset, header.leader_epoch) == (2**62, 2**31 - 1)
    assert header._replace(base_offset=0, leader_epoch=-1) == read_header(GOOD)
    assert batch[HEADER_BYTES:] == GOOD[HEADER_BYTES:]
    assert batch[17:21] == GOOD[17:21]


@given(records(), st.sampled_from(KafkaCodec), st.integers(0, 2**60))
def test_the_time_of_the_append_holds_for_all_records(
    made: list[KafkaRecord], codec: KafkaCodec, append_ms: int
) -> None:
    batch = bytearray(encode(made, base_timestamp_ms=STAMP_MS, codec=codec))
    patch_append_time(memoryview(batch), check(memoryview(batch)), append_ms)
    header = verify(memoryview(batch))
    assert {header.timestamp_ms(record.timestamp_delta) for record in made} == {append_ms}
    assert (header.max_timestamp_ms, header.base_timestamp_ms) == (append_ms, STAMP_MS)
    assert read(bytes(batch)) == made
    assert encode(made, base_timestamp_ms=STAMP_MS, codec=codec, append_ms=append_ms) == batch


def test_a_chunk_ends_with_its_last_whole_batch() -> None:
    chunk = GOOD + EXAMPLE + GOOD
    assert list(batches(chunk)) == [GOOD, EXAMPLE, GOOD]
    for end in range(len(chunk)):
        whole = [batch for batch in (GOOD, GOOD + EXAMPLE) if len(batch) <= end]
        assert b"".join(batches(chunk[:end])) == (whole[-1] if whole else b"")


def test_a_length_in_a_chunk_that_is_none_is_refused() -> None:
    for length in (48, 0, -1):
        wrong = GOOD[:8] + pack(">i", length) + GOOD[12:]
        with pytest.raises(InvalidRecords):
            list(batches(GOOD + wrong))
        with pytest.raises(InvalidRecords):
            batch_bytes(wrong)
    assert batch_bytes(GOOD[:12]) == len(GOOD)
    with pytest.raises(InvalidRecords):
        batch_bytes(GOOD[:11])


def test_unpacking_is_bounded() -> None:
    batch = values_batch(bytes(100_000), codec=KafkaCodec.ZSTD)
    header = check(memoryview(batch))
    assert len(payload_of(batch, header)) > 100_000
    with pytest.raises(InvalidRecords) as refused:
        payload_of(batch, header, max_bytes=100_000)
    assert refused.value.fault is RecordsFault.TOO_LARGE


def fault_of(batch: bytes, *, max_bytes: int = 1 << 20, latest_ms: int = 2**63 - 1) -> RecordsFault:
    with pytest.raises(InvalidRecords) as refused:
        check(memoryview(batch), max_bytes=max_bytes, latest_ms=latest_ms)
    return refused.value.fault
