"""Both protocols on one topic: what fits comes back as it came, what does not is refused, or counted."""

from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos import bundle
from tank_protos.bundle import MAX_SEQUENCE_NUMBER, Codec, Message, as_batch, decode_columns, validate
from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.errors import InvalidRecords, RecordsFault
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS
from tank_protos.kafka.record_batch import batches, check, patch, verify
from tank_protos.kafka.records import KafkaRecord
from tank_protos.kafka.transcode import (
    Losses,
    TankBatch,
    produced_to_kafka,
    produced_to_tank,
    stored_to_kafka,
    stored_to_tank,
)
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle
from tests.support.examples import examples
from tests.support.values.bundle_shapes import Shape, shapes
from tests.support.values.kafka_records import STAMP_MS, changed, read, records, values_batch, with_count

APPEND_MS = STAMP_MS + 1_000_000
LAST_MS = 2**63 - 1


def written(batch: bytes, *, compacted: bool = False, lenient: bool = False) -> TankBatch:
    """A Kafka client writes to a topic of TANK's format."""
    header = check(memoryview(batch))
    return produced_to_tank(batch, header, append_ms=APPEND_MS, compacted=compacted, lenient=lenient)


def fetched(batch: bytes, *, sparse: bool = False) -> TankBatch:
    """A TANK client reads of a topic of Kafka's format."""
    return stored_to_tank(batch, verify(memoryview(batch)), append_ms=APPEND_MS, sparse=sparse)


def messages_of(data: bytes, first: int) -> list[Message]:
    return decode_columns(data, first).messages()


def batch_of(*made: KafkaRecord, codec: KafkaCodec = KafkaCodec.NONE) -> bytes:
    return record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec)


# A Kafka client, a topic of TANK's format


def test_an_example_there_and_back() -> None:
    batch = batch_of(KafkaRecord(b"k", b"v1", 0, 0), KafkaRecord(None, b"", 1, 5))
    found = written(batch)
    assert found.losses == Losses()
    assert messages_of(found.data, 7) == [
        Message(7, STAMP_MS, b"k", b"v1"),
        Message(8, STAMP_MS + 5, None, b""),
    ]
    back = stored_to_kafka(found.data, 7, leader_epoch=3, compacted=False)
    expected = bytearray(batch)
    patch(memoryview(expected), 6, 3)
    assert back == expected


@given(records(), st.sampled_from(KafkaCodec), st.booleans())
def test_what_a_kafka_client_wrote_comes_back_or_is_refused(
    made: list[KafkaRecord], codec: KafkaCodec, compacted: bool
) -> None:
    batch = batch_of(*made, codec=codec)
    misfits = [index for index, record in enumerate(made) if not fits(record, compacted)]
    try:
        found = written(batch, compacted=compacted)
    except InvalidRecords as error:
        why = error
    else:
        assert not misfits
        assert validate(memoryview(found.data)).sparse is False
        back = stored_to_kafka(found.data, 11, leader_epoch=3, compacted=compacted)
        header = verify(memoryview(back))
        assert read(back) == made_with_base(made)
        assert (header.base_offset, header.leader_epoch, header.codec) == (10, 3, KafkaCodec.NONE)
        assert header.max_timestamp_ms == check(memoryview(batch)).max_timestamp_ms
        return
    # Where keys are wrong in a compacted topic, they come first.
    assert why.index in misfits
    assert compacted or why.index == misfits[0]


def fits(record: KafkaRecord, compacted: bool) -> bool:
    """The rule, record by record."""
    if compacted and (record.key is None or record.value == b""):
        return False
    if not compacted and record.value is None:
        return False
    short = record.key is None or 0 < len(record.key) <= 255
    return short and not record.headers


def made_with_base(made: list[KafkaRecord]) -> list[KafkaRecord]:
    """The batch that comes back counts its times from the first record's."""
    return [
        record._replace(timestamp_delta=record.timestamp_delta - made[0].timestamp_delta) for record in made
    ]


@given(records(), st.sampled_from([KafkaCodec.NONE, KafkaCodec.ZSTD]))
def test_a_lenient_topic_drops_and_counts(made: list[KafkaRecord], codec: KafkaCodec) -> None:
    found = written(batch_of(*made, codec=codec), lenient=True)
    assert found.losses == Losses(
        keys=sum(record.key is not None and not 0 < len(record.key) <= 255 for record in made),
        values=sum(record.value is None for record in made),
        headers=sum(bool(record.headers) for record in made),
    )
    assert [(message.key, message.value) for message in messages_of(found.data, 1)] == [
        (record.key if record.key and len(record.key) <= 255 else None, record.value or b"")
        for record in made
    ]


GOOD = KafkaRecord(b"k", b"v", 0, 0)
REFUSED = {
    "headers": (GOOD._replace(headers=((b"h", None),)), False, "headers"),
    "an empty key": (GOOD._replace(key=b""), False, "key of 0 bytes"),
    "a long key": (GOOD._replace(key=bytes(256)), False, "key of 256 bytes"),
    "a null": (GOOD._replace(value=None), False, "null value"),
    "an empty value where it would delete": (GOOD._replace(value=b""), True, "empty value"),
    "no key where there must be one": (GOOD._replace(key=None), True, "no key"),
    "a long key where there must be one": (GOOD._replace(key=bytes(256)), True, "key of 256 bytes"),
    "a time before 1970": (GOOD._replace(timestamp_delta=-STAMP_MS - 2), False, "timestamp before 1970"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_its_record(case: str) -> None:
    record, compacted, why = REFUSED[case]
    batch = batch_of(GOOD, GOOD._replace(offset_delta=1), record._replace(offset_delta=2))
    with pytest.raises(InvalidRecords, match=why) as refused:
        written(batch, compacted=compacted)
    assert refused.value.index == 2
    assert refused.value.fault is (
        RecordsFault.INVALID_TIMESTAMP if "time" in case else RecordsFault.INVALID_RECORD
    )
    if why != "no key":
        assert "log.format=kafka" in str(refused.value)


def test_of_several_misfits_the_first_record_is_named() -> None:
    late = [GOOD._replace(key=b"", offset_delta=2), GOOD._replace(value=None, offset_delta=1)]
    with pytest.raises(InvalidRecords, match="null value") as refused:
        written(batch_of(GOOD, *reversed(late)))
    assert refused.value.index == 1
    with pytest.raises(InvalidRecords, match="key of 0 bytes") as refused:
        written(batch_of(GOOD._replace(key=b""), GOOD._replace(key=None, offset_delta=1)), compacted=True)
    assert refused.value.index == 0


@pytest.mark.parametrize("key", [None, b"", bytes(256)])
def test_a_compacted_topic_wants_keys_however_lenient(key: bytes | None) -> None:
    with pytest.raises(InvalidRecords) as refused:
        written(batch_of(GOOD, GOOD._replace(key=key, offset_delta=1)), compacted=True, lenient=True)
    assert refused.value.index == 1


def test_a_tombstone_stays_one() -> None:
    found = written(batch_of(GOOD._replace(value=None)), compacted=True)
    assert messages_of(found.data, 1) == [Message(1, STAMP_MS, b"k", b"")]
    assert read(stored_to_kafka(found.data, 1, leader_epoch=0, compacted=True))[0].value is None
    assert read(stored_to_kafka(found.data, 1, leader_epoch=0, compacted=False))[0].value == b""


def test_records_without_a_time_get_that_of_the_append() -> None:
    batch = record_batch.encode(
        [GOOD, GOOD._replace(offset_delta=1, timestamp_delta=8)], base_timestamp_ms=-1
    )
    found = written(batch)
    assert [message.timestamp_ms for message in messages_of(found.data, 1)] == [APPEND_MS, 7]
    assert found.losses == Losses()


def test_times_that_have_no_place_get_that_of_the_append_where_it_is_lenient() -> None:
    made = [GOOD, GOOD._replace(offset_delta=1, timestamp_delta=1), GOOD._replace(offset_delta=2)]
    batch = changed(batch_of(*made), 27, ">q", LAST_MS)
    found = written(batch, lenient=True)
    assert [m.timestamp_ms for m in messages_of(found.data, 1)] == [LAST_MS, APPEND_MS, LAST_MS]
    assert found.losses == Losses(timestamps=1)


def test_what_was_compressed_is_compressed_again_and_nothing_else() -> None:
    for codec in KafkaCodec:
        found = written(values_batch(*[b"much the same " * 10] * 20, codec=codec))
        assert validate(memoryview(found.data)).codec is (Codec.SNAPPY if codec else Codec.NONE)


# A Kafka client reads a topic of TANK's format


@given(shapes(), st.booleans())
def test_every_bundle_is_read_by_kafka_clients(shape: Shape, compacted: bool) -> None:
    chunk = stored_to_kafka(as_batch(shape.bundle), 1, leader_epoch=5, compacted=compacted)
    found: list[Message] = []
    for batch in batches(chunk):
        header = verify(batch)
        assert (header.leader_epoch, header.codec, header.producer_id) == (5, KafkaCodec.NONE, -1)
        for record in read(bytes(batch)):
            number = header.base_offset + record.offset_delta + 1
            stamp = header.timestamp_ms(record.timestamp_delta)
            assert record.headers == ()
            assert record.value is not None or (compacted and record.key)
            found.append(Message(number, stamp, record.key, record.value or b""))
    assert found == [
        message._replace(timestamp_ms=min(message.timestamp_ms, LAST_MS)) for message in shape.messages
    ]


def test_numbers_too_far_apart_for_one_batch_make_several() -> None:
    numbers = [5, 6, 5 + 2**31, 6 + 2**31, 7 + 2**32 - 10]
    sparse = as_batch(bundle.encode_sparse(numbers, [b"v"] * 5, timestamps=1, keys=[b"k"] * 5))
    parts = list(batches(stored_to_kafka(sparse, 1, leader_epoch=0, compacted=False)))
    spans = [(header.base_offset, header.last_offset) for header in map(verify, parts)]
    assert spans == [(4, 5), (2**31 + 4, 2**32 - 4)]
    assert [len(read(bytes(part))) for part in parts] == [2, 3]
    keyless = as_batch(bundle.encode_sparse(numbers, [b"v"] * 5, timestamps=1))
    assert len(list(batches(stored_to_kafka(keyless, 1, leader_epoch=0, compacted=True)))) == 2


# A TANK client, a topic of Kafka's format


@given(shapes(), st.booleans())
def test_what_a_tank_client_wrote_comes_back_or_is_refused(shape: Shape, compacted: bool) -> None:
    batch = as_batch(shape.bundle)
    late = [index for index, message in enumerate(shape.messages) if message.timestamp_ms > LAST_MS]
    if late:
        with pytest.raises(InvalidRecords, match="no place for the timestamp") as refused:
            produced_to_kafka(batch, compacted=compacted)
        assert (refused.value.index, refused.value.fault) == (late[0], RecordsFault.INVALID_TIMESTAMP)
        return
    stored = produced_to_kafka(batch, compacted=compacted)
    header = verify(memoryview(stored))
    given = validate(memoryview(batch))
    assert header.codec is (KafkaCodec.SNAPPY if given.codec else KafkaCodec.NONE)
    assert header.last_offset_delta == given.span
    for sparse in (False, True):
        found = fetched(stored, sparse=sparse)
        assert found.losses == Losses()
        assert messages_of(found.data, shape.messages[0].sequence_number) == shape.messages
        assert validate(memoryview(found.data)).sparse or not sparse


def test_empty_content_with_a_key_deletes_in_a_compacted_topic() -> None:
    batch = as_batch(bundle.encode([b"", b"", b"v"], timestamps=1, keys=[b"k", None, b"k"]))
    assert [record.value for record in read(produced_to_kafka(batch, compacted=True))] == [None, b"", b"v"]
    assert [record.value for record in read(produced_to_kafka(batch, compacted=False))] == [b"", b"", b"v"]


def test_numbers_too_far_apart_for_one_batch_are_refused() -> None:
    for last, index in ((2**31, None), (2**31 + 1, 2)):
        batch = as_batch(bundle.encode_sparse([1, 7, last], [b"v"] * 3, timestamps=1))
        if index is None:
            assert (
                verify(memoryview(produced_to_kafka(batch, compacted=False))).last_offset_delta == 2**31 - 1
            )
        else:
            with pytest.raises(InvalidRecords, match="too far") as refused:
                produced_to_kafka(batch, compacted=False)
            assert refused.value.index == index


# A TANK client reads a topic of Kafka's format


@given(records(dense=False), st.sampled_from(KafkaCodec))
def test_every_batch_is_read_by_tank_clients(made: list[KafkaRecord], codec: KafkaCodec) -> None:
    batch = bytearray(batch_of(*made, codec=codec))
    patch(memoryview(batch), 100, 1)
    found = fetched(bytes(batch))
    assert messages_of(found.data, 101) == [
        Message(
            101 + record.offset_delta,
            STAMP_MS + record.timestamp_delta,
            record.key if record.key and len(record.key) <= 255 else None,
            record.value or b"",
        )
        for record in made
    ]
    assert found.losses.keys == sum(
        record.key is not None and not 0 < len(record.key) <= 255 for record in made
    )
    assert found.losses.headers == sum(bool(record.headers) for record in made)


def test_a_batch_behind_a_gap_carries_its_numbers() -> None:
    batch = bytearray(values_batch(b"a", b"b"))
    patch(memoryview(batch), 100, 1)
    assert not validate(memoryview(fetched(bytes(batch)).data)).sparse
    header = validate(memoryview(fetched(bytes(batch), sparse=True).data))
    assert (header.first, header.last) == (101, 102)


def test_control_batches_and_empty_ones_are_holes() -> None:
    end = control_batch.encode(TransactionEnd(ControlType.COMMIT, 9, 0, 0), 1)
    nothing = record_batch.seal(verify(memoryview(values_batch(b"a")))._replace(records_count=0), b"")
    for batch in (end, nothing):
        assert fetched(batch) == TankBatch(b"", Losses())


def test_the_time_of_the_append_is_read_as_such() -> None:
    batch = record_batch.encode([GOOD, GOOD._replace(offset_delta=1)], base_timestamp_ms=-5, append_ms=77)
    found = fetched(batch)
    assert [message.timestamp_ms for message in messages_of(found.data, 1)] == [77, 77]
    assert found.losses == Losses()


def test_offsets_that_a_producer_wrote_wrong_are_put_right() -> None:
    batch = changed(batch_of(GOOD, GOOD, GOOD), 23, ">i", 2)
    assert [message.sequence_number for message in messages_of(fetched(batch).data, 1)] == [1, 2, 3]


@pytest.mark.parametrize("base_offset", [-1, MAX_SEQUENCE_NUMBER])
def test_offsets_out_of_range_are_refused(base_offset: int) -> None:
    batch = bytearray(values_batch(b"a", b"b"))
    patch(memoryview(batch), base_offset, 0)
    with pytest.raises(InvalidRecords, match="at offset"):
        fetched(bytes(batch), sparse=True)


# Bounds, and what is wrong


def test_there_is_a_limit_for_what_a_batch_unpacks_to() -> None:
    packed = values_batch(bytes(5000), b"b", codec=KafkaCodec.GZIP)
    header = verify(memoryview(packed))
    content = as_batch(bundle.encode([bytes(5000), b"b"], timestamps=1, codec=Codec.SNAPPY))
    for action in (
        lambda: stored_to_tank(packed, header, append_ms=0, sparse=False, max_bytes=5000),
        lambda: stored_to_kafka(content, 1, leader_epoch=0, compacted=False, max_bytes=5000),
        lambda: produced_to_kafka(content, compacted=False, max_bytes=5000),
    ):
        with pytest.raises((InvalidRecords, InvalidBundle), match="5000"):
            action()


def test_there_is_a_limit_for_the_records_of_a_batch() -> None:
    """A few KiB may hold millions of them."""
    count = MAX_CONVERTED_RECORDS + 1
    batch = with_count(values_batch(b"a", codec=KafkaCodec.GZIP), count)
    packed = cramjam.snappy.compress_raw(bytes(10) + b"\x02\0" * (count - 1))
    content = as_batch(b"\x01" + varint.encode(count) + bytes(packed))
    for action in (
        lambda: written(batch),
        lambda: fetched(batch),
        lambda: stored_to_kafka(content, 1, leader_epoch=0, compacted=False),
        lambda: produced_to_kafka(content, compacted=False),
    ):
        with pytest.raises((InvalidRecords, InvalidBundle), match="too many to be converted"):
            action()


@given(shapes(), st.data())
@examples(150)
def test_changed_bundles_raise_nothing_but_their_errors(shape: Shape, data: st.DataObject) -> None:
    batch = bytearray(as_batch(shape.bundle))
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(0, min(len(batch), 50) - 1))] = data.draw(st.integers(0, 255))
    batch = batch[: data.draw(st.just(len(batch)) | st.integers(0, len(batch)))]
    first = data.draw(st.integers(1, MAX_SEQUENCE_NUMBER))
    with suppress(InvalidBundle):
        stored_to_kafka(batch, first, leader_epoch=0, compacted=True)
    with suppress(InvalidBundle, InvalidRecords):
        produced_to_kafka(batch, compacted=True)


@given(records(), st.data())
@examples(150)
def test_changed_batches_raise_nothing_but_invalid_records(
    made: list[KafkaRecord], data: st.DataObject
) -> None:
    batch = bytearray(batch_of(*made))
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    for at, layout in ((27, ">q"), (0, ">q")):
        if data.draw(st.booleans()):
            batch = bytearray(changed(bytes(batch), at, layout, data.draw(st.integers(-(2**63), 2**63 - 1))))
    header = record_batch.read_header(batch)
    for lenient in (False, True):
        with suppress(InvalidRecords):
            produced_to_tank(batch, header, append_ms=1, compacted=False, lenient=lenient)
        with suppress(InvalidRecords):
            stored_to_tank(batch, header, append_ms=1, sparse=lenient)
