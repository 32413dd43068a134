"""Message sets: the worked examples, wrappers, cut ends, and both ways between them and record batches."""

from contextlib import suppress
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.errors import InvalidRecords, RecordsFault
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS, MIB
from tank_protos.kafka.message_set import (
    ConvertedBatches,
    OldMessage,
    OldMessages,
    decode,
    encode,
    from_record_batches,
    to_record_batch,
)
from tank_protos.kafka.record_batch import check, patch
from tank_protos.kafka.records import KafkaRecord
from tests.support.examples import examples
from tests.support.values.kafka_records import (
    SMALL,
    STAMP_MS,
    changed,
    read,
    records,
    values_batch,
    with_count,
)
from tests.support.values.old_messages import wrapped

OF_MAGIC_0 = bytes.fromhex("0000000000000000 00000011 61505427 00 00 00000001 6b 00000002 7631")
OF_MAGIC_1 = bytes.fromhex("0000000000000000 00000018 f69e052e 01 00 000001a1fafc30bc ffffffff 00000002 7631")
OLD_CODECS = [KafkaCodec.GZIP, KafkaCodec.SNAPPY, KafkaCodec.LZ4]


@st.composite
def sets(draw: st.DrawFn, magic: int) -> list[OldMessage]:
    """1 to 6 messages with rising offsets, as a broker keeps them."""
    offset, made = draw(st.integers(0, 2**40)), []
    for _ in range(draw(st.integers(1, 6))):
        offset += draw(st.integers(1, 3))
        stamp = draw(st.integers(-1, 2**62)) if magic else -1
        made.append(OldMessage(offset, stamp, draw(st.none() | SMALL), draw(st.none() | SMALL)))
    return made


def relative(messages: list[OldMessage]) -> bytes:
    """A set for a wrapper of magic 1."""
    return encode([m._replace(offset=m.offset - messages[0].offset) for m in messages], 1)


def test_the_worked_examples() -> None:
    of_0, of_1 = OldMessage(0, -1, b"k", b"v1"), OldMessage(0, STAMP_MS, None, b"v1")
    assert encode([of_0], 0) == OF_MAGIC_0
    assert encode([of_1], 1) == OF_MAGIC_1
    assert decode(OF_MAGIC_0) == OldMessages([of_0], KafkaCodec.NONE, False, 0)
    assert decode(OF_MAGIC_0 + OF_MAGIC_1).messages == [of_0, of_1]
    assert decode(b"").messages == []


@pytest.mark.parametrize("magic", [0, 1])
@given(data=st.data())
def test_every_set_comes_back(magic: int, data: st.DataObject) -> None:
    messages = data.draw(sets(magic))
    assert decode(encode(messages, magic)).messages == messages


@pytest.mark.parametrize("codec", OLD_CODECS)
@given(data=st.data())
@examples(25)
def test_a_compressed_set_of_magic_0_has_its_offsets_in_it(codec: KafkaCodec, data: st.DataObject) -> None:
    messages = data.draw(sets(0))
    made = wrapped(encode(messages, 0), 0, codec, messages[-1].offset)
    assert decode(made)[:3] == (messages, codec, False)


@pytest.mark.parametrize("codec", OLD_CODECS)
@given(data=st.data())
@examples(25)
def test_a_compressed_set_of_magic_1_counts_back_from_its_wrapper(
    codec: KafkaCodec, data: st.DataObject
) -> None:
    messages = data.draw(sets(1))
    last = messages[-1].offset
    assert decode(wrapped(relative(messages), 1, codec, last))[:3] == (messages, codec, False)
    assert decode(wrapped(encode(messages, 1), 1, codec, last)).messages == messages


@pytest.mark.parametrize("wrong", [[0, 0, 0], [2, 1, 0], [-1, 0, 1], [5, 5, 6]])
def test_wrong_relative_offsets_are_put_right(wrong: list[int]) -> None:
    inner = encode([OldMessage(offset, STAMP_MS, None, b"v") for offset in wrong], 1)
    found = decode(wrapped(inner, 1, KafkaCodec.GZIP, 12)).messages
    assert [message.offset for message in found] == [10, 11, 12]


def test_a_wrapper_with_an_offset_below_its_messages() -> None:
    """As producers send it: the broker gives the offsets."""
    inner = encode([OldMessage(offset, STAMP_MS, None, b"v") for offset in (0, 1, 2)], 1)
    found = decode(wrapped(inner, 1, KafkaCodec.GZIP, 0)).messages
    assert [message.offset for message in found] == [0, 1, 2]


def test_the_time_of_the_append_is_the_wrappers() -> None:
    inner = encode([OldMessage(0, 5, None, b"a"), OldMessage(1, 6, None, b"b")], 1)
    found = decode(wrapped(inner, 1, KafkaCodec.SNAPPY, 1, attributes=8, stamp_ms=99))
    assert [message.timestamp_ms for message in found.messages] == [99, 99]
    assert found.append_time


def test_a_set_of_several_parts() -> None:
    one = wrapped(encode([OldMessage(0, -1, None, b"a")], 0), 0, KafkaCodec.SNAPPY, 0)
    two = wrapped(encode([OldMessage(0, 7, None, b"b")], 1), 1, KafkaCodec.GZIP, 5)
    found = decode(OF_MAGIC_0 + one + two)
    assert [message.value for message in found.messages] == [b"v1", b"a", b"b"]
    assert found.codec is KafkaCodec.SNAPPY


def test_a_reader_drops_a_cut_end_and_a_broker_refuses_it() -> None:
    whole = encode([OldMessage(n, STAMP_MS, b"k", b"v%d" % n) for n in range(3)], 1)
    size = len(whole) // 3
    for end in range(len(whole) + 1):
        kept = decode(whole[:end], cut=True).messages
        assert [message.offset for message in kept] == list(range(end // size))
        if end % size:
            with pytest.raises(InvalidRecords) as refused:
                decode(whole[:end])
            assert (refused.value.fault, refused.value.index) == (RecordsFault.CORRUPT, end // size)


def resealed(message: bytes) -> bytes:
    """With the checksum and the size that it has now."""
    body = message[16:]
    return message[:8] + (len(body) + 4).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body


FAULTS = {
    "a byte was changed": (OF_MAGIC_0[:-1] + b"?", RecordsFault.CORRUPT),
    "a size of 13": (OF_MAGIC_0[:11] + b"\x0d" + OF_MAGIC_0[12:], RecordsFault.CORRUPT),
    "a size below 0": (OF_MAGIC_0[:8] + b"\xff" * 4 + OF_MAGIC_0[12:], RecordsFault.CORRUPT),
    "magic 2": (resealed(OF_MAGIC_0[:16] + b"\2" + OF_MAGIC_0[17:]), RecordsFault.INVALID_RECORD),
    "magic -1": (resealed(OF_MAGIC_0[:16] + b"\xff" + OF_MAGIC_0[17:]), RecordsFault.INVALID_RECORD),
    "magic 1 in the room of 0": (
        resealed(OF_MAGIC_0[:16] + b"\1" + OF_MAGIC_0[17:]),
        RecordsFault.INVALID_RECORD,
    ),
    "a key of -2 bytes": (
        resealed(OF_MAGIC_1[:26] + b"\xff\xff\xff\xfe" + OF_MAGIC_1[30:]),
        RecordsFault.INVALID_RECORD,
    ),
    "a key that leads out": (
        resealed(OF_MAGIC_1[:26] + b"\0\0\0\x07" + OF_MAGIC_1[30:]),
        RecordsFault.INVALID_RECORD,
    ),
    "a key that leaves no value": (
        resealed(OF_MAGIC_1[:26] + b"\0\0\0\x05" + OF_MAGIC_1[30:]),
        RecordsFault.INVALID_RECORD,
    ),
    "bytes behind the value": (resealed(OF_MAGIC_1 + b"\0"), RecordsFault.INVALID_RECORD),
    "zstd": (wrapped(OF_MAGIC_1, 1, KafkaCodec.ZSTD, 0), RecordsFault.UNSUPPORTED_CODEC),
    "codec 5": (
        resealed(OF_MAGIC_1[:17] + b"\5" + OF_MAGIC_1[18:]),
        RecordsFault.UNSUPPORTED_CODEC,
    ),
    "a compressed null": (
        resealed(OF_MAGIC_1[:17] + b"\1" + OF_MAGIC_1[18:30] + b"\xff" * 4),
        RecordsFault.INVALID_RECORD,
    ),
    "no gzip": (resealed(OF_MAGIC_1[:17] + b"\1" + OF_MAGIC_1[18:]), RecordsFault.INVALID_RECORD),
    "an empty wrapper": (wrapped(b"", 1, KafkaCodec.GZIP, 0), RecordsFault.INVALID_RECORD),
    "a wrapper in a wrapper": (
        wrapped(wrapped(OF_MAGIC_1, 1, KafkaCodec.GZIP, 0), 1, KafkaCodec.GZIP, 0),
        RecordsFault.INVALID_RECORD,
    ),
    "another magic in a wrapper": (wrapped(OF_MAGIC_0, 1, KafkaCodec.GZIP, 0), RecordsFault.INVALID_RECORD),
    "a changed byte in a wrapper": (
        wrapped(OF_MAGIC_1[:-1] + b"?", 1, KafkaCodec.GZIP, 0),
        RecordsFault.CORRUPT,
    ),
    "a cut set in a wrapper": (wrapped(OF_MAGIC_1[:-1], 1, KafkaCodec.GZIP, 0), RecordsFault.CORRUPT),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_wrong_set_is_refused(case: str) -> None:
    data, fault = FAULTS[case]
    for cut in (True, False):
        with pytest.raises(InvalidRecords) as refused:
            decode(data, cut=cut)
        assert refused.value.fault is fault
        assert refused.value.index == 0


@pytest.mark.parametrize("example", [OF_MAGIC_0, OF_MAGIC_1, wrapped(OF_MAGIC_1, 1, KafkaCodec.SNAPPY, 3)])
def test_each_byte_but_the_offsets_is_checked(example: bytes) -> None:
    for at in range(8, len(example)):
        for bit in range(8):
            changed_one = bytearray(example)
            changed_one[at] ^= 1 << bit
            with pytest.raises(InvalidRecords):
                decode(changed_one)


@given(st.binary(max_size=60), st.booleans(), st.booleans())
@examples(150)
def test_garbage_raises_nothing_but_invalid_records(garbage: bytes, sealed: bool, cut: bool) -> None:
    data = resealed(garbage) if sealed and len(garbage) > 16 else garbage
    for action in (
        lambda: decode(data, cut=cut),
        lambda: to_record_batch(decode(data)),
        lambda: from_record_batches(data, 1, from_offset=0, max_bytes=1000),
    ):
        with suppress(InvalidRecords):
            action()


def test_the_wrong_message_is_named_by_its_place_among_all() -> None:
    inner = encode([OldMessage(n, -1, None, b"v") for n in range(4)], 0)
    good = wrapped(inner, 0, KafkaCodec.GZIP, 3)
    for data, index in (
        (OF_MAGIC_0 + good + OF_MAGIC_0[:-1] + b"?", 5),
        (OF_MAGIC_0 + good + wrapped(inner[:-1] + b"?", 0, KafkaCodec.GZIP, 3), 8),
        (OF_MAGIC_0 + good + wrapped(inner, 0, KafkaCodec.GZIP, 3)[:-1], 5),
    ):
        with pytest.raises(InvalidRecords) as refused:
            decode(data)
        assert refused.value.index == index


def test_wrappers_share_one_limit() -> None:
    inner = encode([OldMessage(0, -1, None, bytes(100_000))], 0)
    one = wrapped(inner, 0, KafkaCodec.GZIP, 0)
    assert len(decode(one * 3, max_bytes=3 * len(inner)).messages) == 3
    with pytest.raises(InvalidRecords) as refused:
        decode(one * 3, max_bytes=3 * len(inner) - 1)
    assert (refused.value.fault, refused.value.index) == (RecordsFault.TOO_LARGE, 2)
    assert decode(OF_MAGIC_0 + one * 3).unpacked_bytes == 3 * len(inner)


def test_messages_of_all_wrappers_count_together() -> None:
    data = encode([OldMessage(n, -1, None, None) for n in range(6)], 0)
    one = wrapped(data, 0, KafkaCodec.GZIP, 5)
    assert len(decode(one * 2, max_messages=12).messages) == 12
    with pytest.raises(InvalidRecords, match="more than 11 messages"):
        decode(one * 2, max_messages=11)


@pytest.mark.parametrize("compressed", [True, False])
def test_there_is_a_limit_for_messages(compressed: bool) -> None:
    data = encode([OldMessage(n, -1, None, None) for n in range(11)], 0)
    data = wrapped(data, 0, KafkaCodec.GZIP, 10) if compressed else data
    assert len(decode(data, max_messages=11).messages) == 11
    with pytest.raises(InvalidRecords, match="more than 10 messages") as refused:
        decode(data, max_messages=10)
    assert refused.value.fault is RecordsFault.TOO_LARGE


# Sets to batches


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [KafkaCodec.NONE, *OLD_CODECS])
@given(data=st.data())
@examples(20)
def test_a_set_becomes_one_batch_and_a_set_again(magic: int, codec: KafkaCodec, data: st.DataObject) -> None:
    messages = data.draw(sets(magic))
    made = encode(messages, magic)
    if codec:
        made = wrapped(made, magic, codec, messages[-1].offset)
    batch = bytearray(to_record_batch(decode(made)))
    header = check(memoryview(batch))
    assert (header.codec, header.records_count) == (codec, len(messages))
    assert header.max_timestamp_ms == max(message.timestamp_ms for message in messages)
    patch(memoryview(batch), 1000, 3)
    back = from_record_batches(batch, magic, from_offset=0, max_bytes=MIB)
    again = [message._replace(offset=1000 + n) for n, message in enumerate(messages)]
    assert back[:2] == (encode(again, magic), 1000 + len(messages))


def test_messages_without_a_time_become_records_without_one() -> None:
    batch = to_record_batch(decode(OF_MAGIC_0))
    header = check(memoryview(batch))
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (-1, -1)
    assert read(batch) == [KafkaRecord(b"k", b"v1", 0, 0)]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", RecordsFault.INVALID_RECORD),
        (resealed(OF_MAGIC_1[:17] + b"\x08" + OF_MAGIC_1[18:]), RecordsFault.INVALID_TIMESTAMP),
        (encode([OldMessage(0, -2, None, b"")], 1), RecordsFault.INVALID_TIMESTAMP),
        (encode([OldMessage(0, -(2**63), None, b"")], 1), RecordsFault.INVALID_TIMESTAMP),
    ],
    ids=["empty", "the time of the append", "-2 ms", "-2^63 ms"],
)
def test_what_cannot_become_a_batch(data: bytes, fault: RecordsFault) -> None:
    with pytest.raises(InvalidRecords) as refused:
        to_record_batch(decode(data))
    assert refused.value.fault is fault


def test_a_wrong_time_is_named() -> None:
    stamps = [5, -1, -2]
    with pytest.raises(InvalidRecords) as refused:
        to_record_batch(
            decode(encode([OldMessage(n, stamp, None, b"") for n, stamp in enumerate(stamps)], 1))
        )
    assert refused.value.index == 2


# Batches to sets


def stored(batch: bytes, base_offset: int) -> bytes:
    copy = bytearray(batch)
    patch(memoryview(copy), base_offset, 1)
    return bytes(copy)


def offsets_of(converted: ConvertedBatches) -> list[int]:
    return [message.offset for message in decode(converted.data).messages]


@given(records(), st.sampled_from([KafkaCodec.NONE, *OLD_CODECS]))
def test_headers_are_left_out_and_all_else_is_kept(made: list[KafkaRecord], codec: KafkaCodec) -> None:
    batch = stored(record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec), 70)
    found = from_record_batches(batch, 1, from_offset=70, max_bytes=0 if len(made) == 1 else MIB)
    assert decode(found.data).messages == [
        OldMessage(70 + row.offset_delta, STAMP_MS + row.timestamp_delta, row.key, row.value) for row in made
    ]
    assert found.next_offset == 70 + len(made)


CONTROL_BATCH = control_batch.encode(TransactionEnd(ControlType.ABORT, 9, 0, 0), 1, base_offset=13)
CHUNK = (
    stored(values_batch(b"a", b"b", b"c"), 10)
    + CONTROL_BATCH
    + stored(values_batch(b"d", b"e", codec=KafkaCodec.LZ4), 14)
)


def test_control_batches_and_what_is_below_the_asked_offset_are_left_out() -> None:
    asked = {10: [10, 11, 12, 14, 15], 12: [12, 14, 15], 13: [14, 15], 15: [15], 16: []}
    for from_offset, offsets in asked.items():
        found = from_record_batches(CHUNK, 0, from_offset=from_offset, max_bytes=MIB)
        assert offsets_of(found) == offsets
        assert found.next_offset == 16


def test_where_nothing_is_left_the_next_offset_still_moves_on() -> None:
    assert from_record_batches(CONTROL_BATCH, 1, from_offset=13, max_bytes=100) == ConvertedBatches(
        b"", 14, 0
    )
    assert from_record_batches(b"", 1, from_offset=13, max_bytes=100) == ConvertedBatches(b"", 13, 0)


def test_whole_messages_up_to_the_limit_and_one_at_least() -> None:
    whole = from_record_batches(CHUNK, 1, from_offset=10, max_bytes=MIB).data
    size = len(whole) // 5
    for max_bytes in range(len(whole) + 1):
        found = from_record_batches(CHUNK, 1, from_offset=10, max_bytes=max_bytes)
        count = max(max_bytes // size, 1)
        assert found.data == whole[: count * size]
        assert found.next_offset == [11, 12, 14, 15, 16][count - 1]


def test_the_time_of_the_append_goes_to_magic_1() -> None:
    batch = record_batch.encode([KafkaRecord(None, b"v", 0, 3)], base_timestamp_ms=STAMP_MS, append_ms=99)
    for magic, stamp in ((0, -1), (1, 99)):
        found = decode(from_record_batches(batch, magic, from_offset=0, max_bytes=1).data)
        assert (found.messages[0].timestamp_ms, found.append_time) == (stamp, magic == 1)


def test_zstd_ends_the_answer_and_is_refused_where_it_comes_first() -> None:
    packed = stored(values_batch(b"x", codec=KafkaCodec.ZSTD), 16)
    found = from_record_batches(CHUNK + packed, 1, from_offset=10, max_bytes=MIB)
    assert (offsets_of(found), found.next_offset) == ([10, 11, 12, 14, 15], 16)
    with pytest.raises(InvalidRecords) as refused:
        from_record_batches(packed, 1, from_offset=16, max_bytes=MIB)
    assert refused.value.fault is RecordsFault.UNSUPPORTED_CODEC
    assert from_record_batches(packed, 1, from_offset=17, max_bytes=MIB).data == b""


def test_a_batch_with_too_many_records_or_bytes_is_refused() -> None:
    batch = values_batch(bytes(5000), b"b", codec=KafkaCodec.GZIP)
    with pytest.raises(InvalidRecords, match="more than 5000 bytes"):
        from_record_batches(batch, 1, from_offset=0, max_bytes=MIB, max_unpacked_bytes=5000)
    with pytest.raises(InvalidRecords, match="too many to be converted"):
        from_record_batches(with_count(batch, MAX_CONVERTED_RECORDS + 1), 1, from_offset=0, max_bytes=MIB)


def test_offsets_that_a_producer_wrote_wrong_are_put_right() -> None:
    """Brokers store what they don't look at; readers would go in circles."""
    for deltas in ([0, 0, 0], [5, 6, 7], [2, 1, 0], [-1, 0, 1]):
        made = [KafkaRecord(None, b"v", delta, 0) for delta in deltas]
        batch = stored(changed(record_batch.encode(made, base_timestamp_ms=0), 23, ">i", 2), 40)
        found = from_record_batches(batch, 1, from_offset=40, max_bytes=MIB)
        assert (offsets_of(found), found.next_offset) == ([40, 41, 42], 43)


def test_times_that_fit_no_message_are_none() -> None:
    batch = changed(values_batch(b"a", b"b"), 27, ">q", 2**63 - 1)
    found = decode(from_record_batches(batch, 1, from_offset=0, max_bytes=MIB).data)
    assert [message.timestamp_ms for message in found.messages] == [2**63 - 1, -1]


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 1])
def test_offsets_out_of_range_are_refused(base_offset: int) -> None:
    with pytest.raises(InvalidRecords, match="at offset"):
        from_record_batches(stored(values_batch(b"a", b"b"), base_offset), 1, from_offset=0, max_bytes=9)
