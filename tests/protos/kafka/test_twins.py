"""The compiled functions of Kafka's formats and the plain ones that they stand for: one result, one refusal,
in the same words."""

import inspect
from collections.abc import Callable
from struct import calcsize
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos import kernel
from tank_protos.bundle import MAX_SEQUENCE_NUMBER, Codec, as_batch, encode, encode_sparse
from tank_protos.kafka import record_batch, records, transcode
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.records import KafkaRecord
from tank_protos.kafka.transcode import TankBatch
from tank_protos.wire.errors import WireError
from tests.support.examples import examples
from tests.support.values.bundle_shapes import Shape, shapes
from tests.support.values.kafka_records import STAMP_MS, changed
from tests.support.values.kafka_records import records as some_records

pytestmark = pytest.mark.skipif(
    kernel.NAME == "pure", reason="the compiled kernel is not built, or switched off"
)

PAIRS = {
    pair.plain.__name__: pair
    for pair in kernel.PAIRS
    if pair.plain.__module__.startswith("tank_protos.kafka.") and not isinstance(pair.plain, type)
}
"""The functions; `test_produce_run` tries the class, on both kernels."""


def outcome(function: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[object, object]:
    """What it returns, or the error that it raises."""
    try:
        result = function(*arguments, **named)
    except InvalidRecords as error:
        return error.fault, (str(error), error.index)
    except WireError as error:
        return type(error), str(error)
    return type(result), result


def agree(name: str, *arguments: Any, **named: Any) -> Any:
    """Both do the same with these arguments; what they do."""
    pair = PAIRS[name]
    compiled, plain = outcome(pair.compiled, *arguments, **named), outcome(pair.plain, *arguments, **named)
    assert compiled == plain
    return compiled[1]


def test_these_have_twins() -> None:
    assert records
    assert transcode
    assert set(PAIRS) == {
        "check",
        "patch",
        "verify",
        "walk",
        "read_columns",
        "encode_columns",
        "produced_to_tank",
        "stored_to_tank",
        "produced_to_kafka",
        "stored_to_kafka",
    }


@pytest.mark.parametrize("name", PAIRS)
def test_a_twin_takes_the_same_arguments(name: str) -> None:
    plain, compiled = (inspect.signature(function).parameters for function in PAIRS[name][:2])
    assert [(p.name, p.kind, p.default) for p in compiled.values()] == [
        (p.name, p.kind, p.default) for p in plain.values()
    ]


LONG_INTEGERS = [
    *("80 00", "feffffff0f", "ffffffff0f", "ffffffff1f", "80808080 8000"),
    *(9 * "ff" + "01", 9 * "ff" + "02", 10 * "ff" + "01"),
]


def all_walks(payload: bytes, count: int) -> None:
    agree("read_columns", payload, count)
    for dense in (True, False):
        for keyed in (True, False):
            agree("walk", payload, count, count - 1, dense=dense, keyed=keyed)
            agree("walk", memoryview(payload), count, count + 3, dense=dense, keyed=keyed)


def all_conversions(batch: bytes) -> None:
    try:
        header = record_batch.verify(memoryview(batch))
    except InvalidRecords:
        return
    for compacted in (True, False):
        for lenient in (True, False):
            made = agree("produced_to_tank", batch, header, append_ms=5, compacted=compacted, lenient=lenient)
            if isinstance(made, TankBatch):
                all_bundle_conversions(made.data)
    for sparse in (True, False):
        agree("stored_to_tank", memoryview(batch), header, append_ms=5, sparse=sparse)


def all_bundle_conversions(batch: bytes) -> None:
    for compacted in (True, False):
        agree("produced_to_kafka", batch, compacted=compacted)
        for first in (1, 1000, MAX_SEQUENCE_NUMBER - 1):
            agree("stored_to_kafka", memoryview(batch), first, leader_epoch=7, compacted=compacted)


@examples(200)
@given(some_records() | some_records(dense=False), st.sampled_from(KafkaCodec), st.integers(-2, 2**50))
def test_they_agree_on_good_records(made: list[KafkaRecord], codec: KafkaCodec, base_ms: int) -> None:
    all_walks(records.encode(made), len(made))
    all_conversions(record_batch.encode(made, base_timestamp_ms=base_ms, codec=codec))


@examples(500)
@given(some_records(), st.data())
def test_they_agree_on_spoiled_records(made: list[KafkaRecord], data: st.DataObject) -> None:
    spoiled = bytearray(records.encode(made))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(spoiled) - 1))
        spoiled[at] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 3, 127, 128, 255]))
    del spoiled[data.draw(st.integers(0, len(spoiled)) | st.just(len(spoiled))) :]
    all_walks(bytes(spoiled), len(made))
    batch = record_batch.encode(made, base_timestamp_ms=STAMP_MS)
    all_conversions(changed(batch[:61] + bytes(spoiled), 8, ">i", 49 + len(spoiled)))


@examples(500)
@given(st.binary(max_size=60), st.integers(-1, 5))
def test_they_agree_on_garbage(garbage: bytes, count: int) -> None:
    all_walks(garbage, count)
    all_bundle_conversions(garbage)
    all_bundle_conversions(as_batch(garbage))


@pytest.mark.parametrize("form", LONG_INTEGERS)
@pytest.mark.parametrize("place", range(6))
def test_integers_that_are_long_or_too_long(form: str, place: int) -> None:
    """In the place of each of a record's integers in turn."""
    parts = [b"\x1a", b"\0", b"\0", b"\0", b"\x02k", b"\x04v1", b"\0"]
    parts[place + (place > 0)] = bytes.fromhex(form)
    all_walks(b"".join(parts), 1)


@pytest.mark.parametrize("stamp_ms", [-(2**63), -(2**61), -2, -1, 0, 2**61, 2**61 + 1, 2**62, 2**63 - 1])
@pytest.mark.parametrize("delta", [-(2**63), -(2**61) - 1, -1, 0, 1, 2**61 + 1, 2**63 - 1])
def test_times_at_the_edges(stamp_ms: int, delta: int) -> None:
    batch = record_batch.encode([KafkaRecord(b"k", b"v", 0, 0)], base_timestamp_ms=5)
    payload = records.encode([KafkaRecord(b"k", b"v", 0, delta)])
    batch = changed(batch[:61] + payload, 8, ">i", 49 + len(payload))
    all_conversions(changed(batch, 27, ">q", stamp_ms))


@pytest.mark.parametrize("append_ms", [-1, 0, 2**61, 2**61 + 1, 2**63 - 1])
def test_the_time_of_the_append_at_the_edges(append_ms: int) -> None:
    batch = record_batch.encode([KafkaRecord(b"k", b"v", 0, 0)] * 1, base_timestamp_ms=-1)
    header = record_batch.verify(memoryview(batch))
    if append_ms >= 0:
        agree("produced_to_tank", batch, header, append_ms=append_ms, compacted=False, lenient=False)
    stamped = record_batch.encode([KafkaRecord(b"k", b"v", 0, 0)], base_timestamp_ms=5, append_ms=7)
    all_conversions(stamped)


@examples(200)
@given(shapes())
def test_they_agree_on_bundles(shape: Shape) -> None:
    all_bundle_conversions(as_batch(shape.bundle))


@pytest.mark.parametrize("count", [1, 15, 16, 127, 128, 700])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 8191, 8192])
def test_counts_and_lengths_at_the_edges_of_an_integer(count: int, size: int) -> None:
    made = [
        KafkaRecord(None if size == 1 else b"k" * min(size, 255), b"v" * size, at, at) for at in range(count)
    ]
    for codec in (KafkaCodec.NONE, KafkaCodec.GZIP):
        all_conversions(record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec))


@pytest.mark.parametrize("gap", [1, 2**31 - 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("first", [1, 7, MAX_SEQUENCE_NUMBER - 2**32])
def test_numbers_that_are_far_apart(first: int, gap: int) -> None:
    for codec in (Codec.NONE, Codec.SNAPPY):
        made = encode_sparse([first, first + gap], [b"v" * 40, b"v" * 40], timestamps=[9, 2**63], codec=codec)
        all_bundle_conversions(as_batch(made))
    for stamps in ([2**63 - 1, 0], [2**63, 0], [0, 2**64 - 1]):
        all_bundle_conversions(as_batch(encode([b"", b"v"], keys=[b"k", None], timestamps=stamps)))


HEADER_FIELDS = {
    "base offset": (0, ">q"), "batch length": (8, ">i"), "leader epoch": (12, ">i"), "magic": (16, ">b"),
    "attributes": (21, ">h"), "last offset delta": (23, ">i"), "base timestamp": (27, ">q"),
    "greatest timestamp": (35, ">q"), "producer id": (43, ">q"), "producer epoch": (51, ">h"),
    "base sequence": (53, ">i"), "count of records": (57, ">i"),
}  # fmt: skip


def all_checks(batch: bytes, max_bytes: int, latest_ms: int) -> None:
    for view in (memoryview(batch), memoryview(b"?" + batch)[1:]):
        agree("verify", view)
        agree("check", view)
        agree("check", view, max_bytes=max_bytes, latest_ms=latest_ms)


@examples(300)
@given(some_records(), st.sampled_from(KafkaCodec), st.data())
def test_they_agree_on_batches_with_other_fields(
    made: list[KafkaRecord], codec: KafkaCodec, data: st.DataObject
) -> None:
    batch = record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec)
    for name in data.draw(st.sets(st.sampled_from(sorted(HEADER_FIELDS)), max_size=3)):
        at, format = HEADER_FIELDS[name]
        bits = 8 * calcsize(format)
        near = st.integers(-3, len(made) + 2) | st.sampled_from([1 << bit for bit in range(bits - 1)])
        value = data.draw(near | st.integers(-(1 << bits - 1), (1 << bits - 1) - 1))
        batch = changed(batch, at, format, max(min(value, (1 << bits - 1) - 1), -(1 << bits - 1)))
    max_bytes = data.draw(st.integers(len(batch) - 1, len(batch) + 1))
    latest_ms = data.draw(st.integers(STAMP_MS - 2, STAMP_MS + 2) | st.just(record_batch.ANY_TIME))
    all_checks(batch, max_bytes, latest_ms)


@examples(300)
@given(some_records(), st.data())
def test_they_agree_on_spoiled_batches(made: list[KafkaRecord], data: st.DataObject) -> None:
    spoiled = bytearray(record_batch.encode(made, base_timestamp_ms=STAMP_MS))
    for _ in range(data.draw(st.integers(0, 2))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(spoiled)) | st.just(len(spoiled)))
    all_checks(bytes(spoiled[:cut]), len(spoiled), record_batch.ANY_TIME)


@pytest.mark.parametrize("value_bytes", [8_000, 8_192, 8_200, 100_000])
def test_they_agree_on_the_checksums_of_long_batches(value_bytes: int) -> None:
    batch = record_batch.encode([KafkaRecord(None, b"v" * value_bytes, 0, 0)], base_timestamp_ms=STAMP_MS)
    all_checks(batch, len(batch), record_batch.ANY_TIME)
    all_checks(batch[:-1] + b"?", len(batch), record_batch.ANY_TIME)


@examples(100)
@given(some_records(), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_they_write_the_same_fields(made: list[KafkaRecord], base_offset: int, leader_epoch: int) -> None:
    batch = record_batch.encode(made, base_timestamp_ms=STAMP_MS)
    written = []
    for function in PAIRS["patch"]:
        copy = bytearray(batch)
        function(memoryview(copy), base_offset, leader_epoch)
        written.append(bytes(copy))
    assert written[0] == written[1]
    assert record_batch.verify(memoryview(written[0]))[0:3] == (base_offset, len(batch) - 12, leader_epoch)


def test_neither_writes_into_what_may_not_be_changed() -> None:
    batch = record_batch.encode([KafkaRecord(None, b"v", 0, 0)], base_timestamp_ms=STAMP_MS)
    for function in PAIRS["patch"]:
        with pytest.raises(TypeError):
            function(memoryview(batch), 1, 1)


NUMBERS = st.integers(-(2**63) - 1, 2**63) | st.integers(-70, 70)
ODD = st.sampled_from([b"", "text", 1, True, 2.5, bytearray(b"v"), memoryview(b"v"), (), [(b"h", b"v")]])


@examples(300)
@given(some_records() | some_records(dense=False), st.sampled_from([list, tuple]))
def test_they_write_the_same_records_with_headers_and_nulls(
    made: list[KafkaRecord], kind: type[list[Any]] | type[tuple[Any, ...]]
) -> None:
    columns = [kind(column) for column in zip(*(record[2:4] + record[:2] for record in made), strict=True)]
    headers = {index: record.headers for index, record in enumerate(made) if record.headers}
    for found in (headers, {**headers, 10**6: ((b"h", None),)}):
        assert agree("encode_columns", *columns, found) == records.encode(made)
    bare = [record._replace(headers=()) for record in made]
    no_headers: dict[int, Any] = {}
    for none in (None, no_headers):
        assert agree("encode_columns", *columns, none) == records.encode(bare)


@examples(300)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from([None, b"", b"k" * 64])), max_size=4))
def test_they_write_any_numbers_and_lengths(rows: list[tuple[int, int, bytes | None]]) -> None:
    offsets, stamps, contents = ([row[place] for row in rows] for place in range(3))
    agree("encode_columns", offsets, stamps, contents, contents)
    agree("encode_columns", range(len(rows)), stamps, contents, contents)
    agree("encode_columns", range(5, 5 + len(rows)), range(0, 2 * len(rows), 2), contents, contents)


def sees(function: Callable[..., bytes], *arguments: Any) -> object:
    """What it writes, or the kind of its error: the words of Python's own differ."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


@examples(300)
@given(st.data())
def test_they_agree_on_columns_that_are_not_of_bytes_and_numbers(data: st.DataObject) -> None:
    columns: list[Any] = [[0, 1], [0, 5], [None, b"k"], [b"v", None], {1: ((b"h", b"1"), (b"n", None))}]
    odd = data.draw(ODD)
    match data.draw(st.integers(0, 7)):
        case 0:
            columns[data.draw(st.integers(0, 3))][data.draw(st.integers(0, 1))] = odd
        case 1:
            columns[data.draw(st.integers(0, 3))] = data.draw(st.sampled_from([[], [1], (), range(3)]))
        case 2:
            columns[4][0] = odd
        case 3:
            columns[4][0] = ((b"h", odd),)
        case 4:
            columns[4][0] = ((odd, b"v"),)
        case 5:
            columns[4][0] = (odd,)
        case 6:
            columns[4] = {True: ((b"h", b"1"),)}
        case _:
            columns[4] = MappingProxyType(columns[4])
    pair = PAIRS["encode_columns"]
    assert sees(pair.compiled, *columns) == sees(pair.plain, *columns)


def test_they_write_the_same_large_records() -> None:
    large = b"v" * (1 << 20)
    for count in (1, 3):
        agree("encode_columns", range(count), [0] * count, [None] * count, [large] * count)
