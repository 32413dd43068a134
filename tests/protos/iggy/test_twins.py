"""The compiled functions for Iggy's messages and the plain ones that they stand for: the same bytes, or one
refusal in the same words."""

import inspect
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tank_protos import bundle, kernel
from tank_protos.bundle import MAX_SEQUENCE_NUMBER, as_batch, encode_sparse
from tank_protos.iggy import polled_messages, sent_messages
from tank_protos.iggy.eras import ERA_NAMES
from tank_protos.iggy.errors import IggyRefusal
from tank_protos.iggy.polled_messages import PolledPart, PollSource
from tank_protos.iggy.send import SendRequest
from tank_protos.kafka import control_batch, record_batch, records
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.record_batch import ANY_TIME
from tank_protos.kafka.records import KafkaRecord
from tank_protos.wire.errors import WireError
from tests.support.examples import examples
from tests.support.iggy.client_messages import OLD, ClientMessage, Header
from tests.support.iggy.stored import NOW_MS, TOPIC_ID, request, stored
from tests.support.values.bundle_shapes import Shape, shapes
from tests.support.values.kafka_records import STAMP_MS, changed
from tests.support.values.kafka_records import records as some_records

pytestmark = pytest.mark.skipif(
    kernel.NAME == "pure", reason="the compiled kernel is not built, or switched off"
)

ERAS = list(ERA_NAMES)
PAIRS = {
    pair.plain.__name__: pair
    for pair in kernel.PAIRS
    if pair.plain.__module__.startswith("tank_protos.iggy.")
}
EDGES = st.sampled_from([0, 1, 2, 3, 15, 16, 127, 128, 255])


def outcome(function: Callable[..., Any], *arguments: Any) -> tuple[object, ...]:
    """What it returns, or the error that it raises."""
    try:
        result = function(*arguments)
    except IggyRefusal as refused:
        return refused.error, refused.index, str(refused)
    except InvalidRecords as error:
        return error.fault, error.index, str(error)
    except WireError as error:
        return type(error), str(error)
    return type(result), result


def agree(name: str, *arguments: Any) -> Any:
    """Both do the same with these arguments; the result, or an error's first part."""
    pair = PAIRS[name]
    compiled, plain = outcome(pair.compiled, *arguments), outcome(pair.plain, *arguments)
    assert compiled == plain
    return compiled[1] if isinstance(compiled[0], type) else compiled[0]


def all_sends(sent: SendRequest, era: str) -> bytes | None:
    """Both make the same batch of a send, wherever it lies in memory; None: it is refused."""
    made = agree("record_batch", sent, ERA_NAMES[era], NOW_MS)
    shifted = memoryview(b"?" + bytes(sent.messages))[1:]
    assert agree("record_batch", sent._replace(messages=shifted), ERA_NAMES[era], NOW_MS) == made
    if not isinstance(made, bytearray):
        return None
    record_batch.check(memoryview(made), max_bytes=1 << 30)
    return bytes(made)


def all_polls(data: bytes, *, first: int = 1, append_ms: int = NOW_MS, is_bundle: bool = False) -> None:
    """Both read the same in this batch, for clients of every era."""
    for era in ERA_NAMES.values():
        for view in (data, memoryview(b"?" + data)[1:]):
            source = PollSource(view, append_ms, first, is_bundle)
            for lowest, most in ((0, 1 << 20), (0, 1), (first, 2), (first + 2, 3), (1 << 62, 1), (0, 0)):
                agree("messages_of", source, era, TOPIC_ID, 3, lowest, most)


HEADER = st.tuples(
    st.binary(min_size=1, max_size=3) | st.sampled_from([b"iggy", b"k" * 255, b"\xff", "é".encode()]),
    st.integers(1, 15) | st.just(2),
    st.binary(min_size=1, max_size=3) | st.just(b"v" * 255),
    st.integers(1, 15) | st.just(1),
)
ID = st.just(0) | st.integers(1, 2**128 - 1) | st.just(1 << 64)
ORIGIN_US = st.just(NOW_MS * 1000) | st.integers(NOW_MS * 1000, NOW_MS * 1000 + 2**32 - 1) | st.just(0)
MESSAGE = st.builds(
    ClientMessage,
    payload=st.binary(min_size=1, max_size=20) | st.sampled_from([b"x" * 63, b"x" * 64, b"y" * 9000]),
    id=ID,
    origin_us=st.integers(NOW_MS * 1000, NOW_MS * 1000 + 2**32 - 1) | st.just(NOW_MS * 1000),
    headers=st.lists(HEADER, max_size=3).map(tuple),
)
MESSAGES = st.lists(MESSAGE, min_size=1, max_size=5)


def test_these_have_twins() -> None:
    assert polled_messages
    assert sent_messages
    assert set(PAIRS) == {"record_batch", "messages_of"}


@pytest.mark.parametrize("name", ["record_batch", "messages_of"])
def test_a_twin_takes_the_same_arguments(name: str) -> None:
    plain, compiled = (inspect.signature(function).parameters for function in PAIRS[name][:2])
    assert [(p.name, p.kind, p.default) for p in compiled.values()] == [
        (p.name, p.kind, p.default) for p in plain.values()
    ]


@examples(300)
@given(MESSAGES, st.sampled_from(ERAS), st.integers(0, 2**40))
def test_they_agree_on_good_messages(messages: list[ClientMessage], era: str, base_offset: int) -> None:
    made = all_sends(request(messages, era), era)
    assert made is not None
    batch = bytearray(made)
    record_batch.patch(memoryview(batch), base_offset, 3)
    all_polls(bytes(batch), first=base_offset + 1)


@examples(100)
@given(st.lists(st.tuples(ORIGIN_US | st.integers(0, 2**64 - 1), ID), min_size=1, max_size=4))
def test_they_agree_on_any_times(rows: list[tuple[int, int]]) -> None:
    for era in ("B1", "B3"):
        messages = [ClientMessage(b"a", number, origin_us) for origin_us, number in rows]
        made = all_sends(request(messages, era), era)
        assert made is not None
        all_polls(made)


@examples(500)
@given(MESSAGES, st.sampled_from(ERAS), st.data())
def test_they_agree_on_spoiled_sends(messages: list[ClientMessage], era: str, data: st.DataObject) -> None:
    sent = request(messages, era)
    spoiled = bytearray(sent.messages)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255) | EDGES)
    cut = data.draw(st.integers(0, len(spoiled)) | st.just(len(spoiled)))
    count = sent.messages_count
    if count is not None:
        count = data.draw(st.just(count) | st.integers(1, 2**20))
    all_sends(sent._replace(messages=memoryview(spoiled)[:cut], messages_count=count), era)


@pytest.mark.parametrize("era", ERAS)
def test_they_agree_on_a_send_that_ends_at_any_byte(era: str) -> None:
    header: Header = (b"key", 2, b"value", 7)
    sent = request([ClientMessage(b"abc", 7, 1234, (header,)), ClientMessage(b"de", 0, 1000)], era)
    made = [all_sends(sent._replace(messages=sent.messages[:end]), era) for end in range(len(sent.messages))]
    # Where nothing says how many there are, the first message alone is a whole send.
    assert sum(batch is not None for batch in made) == (era in OLD)


@pytest.mark.parametrize("era", ERAS)
def test_lengths_that_lie(era: str) -> None:
    """In the place of any four bytes."""
    header: Header = (b"key", 2, b"value", 7)
    sent = request([ClientMessage(b"abc", 7, 1234, (header,)), ClientMessage(b"de", 0, 1000)], era)
    for at in range(len(sent.messages) - 3):
        for lie in (0, 1, 256, 100_001, 64_000_001, 2**31, 2**32 - 1):
            area = bytearray(sent.messages)
            struct.pack_into("<I", area, at, lie)
            all_sends(sent._replace(messages=memoryview(area)), era)


@examples(300)
@given(st.binary(max_size=400), st.sampled_from(ERAS), st.integers(1, 5))
def test_they_agree_on_garbage(garbage: bytes, era: str, count: int) -> None:
    sent = request([ClientMessage(b"a")], era)
    known = None if sent.messages_count is None else count
    all_sends(sent._replace(messages=memoryview(garbage), messages_count=known), era)
    all_polls(garbage)
    all_polls(garbage, is_bundle=True)
    all_polls(as_batch(garbage), is_bundle=True)


@examples(200)
@given(
    some_records() | some_records(dense=False),
    st.sampled_from(KafkaCodec),
    st.sampled_from([STAMP_MS, 0, -1, -2, 2**53, 2**62]),
    st.none() | st.sampled_from([0, STAMP_MS]),
)
def test_they_agree_on_records_of_others(
    made: list[KafkaRecord], codec: KafkaCodec, base_ms: int, append_ms: int | None
) -> None:
    batch = record_batch.encode(
        made, base_timestamp_ms=base_ms, base_offset=7, codec=codec, append_ms=append_ms
    )
    all_polls(batch, first=8)


@examples(300)
@given(some_records(), st.data())
def test_they_agree_on_spoiled_records(made: list[KafkaRecord], data: st.DataObject) -> None:
    batch = bytearray(record_batch.encode(made, base_timestamp_ms=STAMP_MS))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255) | EDGES)
    all_polls(bytes(batch[: data.draw(st.integers(0, len(batch)) | st.just(len(batch)))]))


@examples(300)
@given(MESSAGES, st.data())
def test_they_agree_on_spoiled_messages(messages: list[ClientMessage], data: st.DataObject) -> None:
    batch = bytearray(stored(messages, "B3").data)
    for _ in range(data.draw(st.integers(1, 2))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255) | EDGES)
    all_polls(bytes(batch))


OURS = b"\1" + bytes(16) + b"\xe7\3"


@pytest.mark.parametrize(
    "headers",
    [
        ((b"null", None),),
        ((b"empty", b""), (b"a", b"b")),
        ((b"", b"no name"),),
        ((b"k" * 256, b"v"),),
        ((b"k", b"v" * 256),),
        ((b"\xff", b"no text"),),
        (("é".encode(), b"a text"),),
        ((b"k" * 90, b"v" * 100),) * 600,
        ((b"iggy", None),),
        ((b"iggy", OURS[:-1]),),
        ((b"iggy", b"\2" + OURS[1:]),),
        ((b"iggy", OURS[:-2] + b"\xe8\3"),),
        ((b"iggy", OURS), (b"a", b"b")),
        ((b"iggy", OURS + b"\x21\xaa"), (b"\xff", b"b"), (b"\xff", b"b"), (b"c", b"d")),
        ((b"iggy", OURS + b"\xa1\xaa"), (b"\xff", b"b"), (b"\xfe", b"b"), (b"c", b"d")),
        ((b"iggy", OURS + b"\x01"), (b"a", b"b")),
        ((b"iggy", OURS + b"\x10"), (b"a", b"b")),
        ((b"iggy", b"\1" + b"\7" * 16 + bytes(2) + b"\x21" * 9), (b"iggy", OURS)),
    ],
)
def test_they_agree_on_headers_that_only_some_clients_can_read(headers: Any) -> None:
    made = [
        KafkaRecord(None, b"a", 0, 0, headers),
        KafkaRecord(b"k", None, 1, 5),
        KafkaRecord(None, b"", 2, 0),
    ]
    all_polls(record_batch.encode(made, base_timestamp_ms=STAMP_MS))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 5), (3, 4), (-1, 0), (2, 1, 3)])
def test_they_agree_on_offsets_that_rise_and_others(deltas: tuple[int, ...]) -> None:
    made = [KafkaRecord(None, b"v", delta, 0) for delta in deltas]
    batch = record_batch.encode(made, base_timestamp_ms=STAMP_MS)
    for last_delta in (0, len(deltas) - 1, 5):
        all_polls(changed(batch, 23, ">i", last_delta))


@pytest.mark.parametrize("at", [(0, ">q"), (27, ">q"), (35, ">q"), (57, ">i"), (21, ">h")])
@pytest.mark.parametrize("value", [-(2**63), -1, 0, 3, 8, 32, 2**31 - 1, 2**53, 2**62, 2**63 - 1])
def test_fields_of_a_batch_at_the_edges(at: tuple[int, str], value: int) -> None:
    bits = 8 * struct.calcsize(at[1])
    made = [KafkaRecord(None, b"v", 0, 0), KafkaRecord(None, b"w", 1, 2**61 + 1)]
    for batch in (
        record_batch.encode(made, base_timestamp_ms=STAMP_MS),
        record_batch.encode(made[:1], base_timestamp_ms=STAMP_MS, append_ms=8),
    ):
        near = max(min(value, (1 << bits - 1) - 1), -(1 << bits - 1))
        all_polls(changed(batch, at[0], at[1], near))


def test_they_agree_on_what_ends_a_transaction() -> None:
    end = control_batch.TransactionEnd(control_batch.ControlType.COMMIT, 1, 0, 0)
    all_polls(control_batch.encode(end, NOW_MS, base_offset=5))


@examples(200)
@given(shapes(), st.sampled_from([1, 7, MAX_SEQUENCE_NUMBER - 140, MAX_SEQUENCE_NUMBER]))
def test_they_agree_on_bundles(shape: Shape, first: int) -> None:
    all_polls(as_batch(shape.bundle), first=first, is_bundle=True)


@examples(200)
@given(shapes(), st.data())
def test_they_agree_on_spoiled_bundles(shape: Shape, data: st.DataObject) -> None:
    batch = bytearray(as_batch(shape.bundle))
    batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255) | EDGES)
    all_polls(bytes(batch), is_bundle=True)
    all_polls(bytes(batch[: data.draw(st.integers(0, len(batch)))]), is_bundle=True)
    all_polls(as_batch(shape.bundle) * 2, is_bundle=True)


@pytest.mark.parametrize("gap", [1, 2**31, 2**32 - 1, 2**32])
def test_numbers_that_are_far_apart(gap: int) -> None:
    made = encode_sparse([7, 7 + gap], [b"v"] * 2, timestamps=[9, 2**53], codec=bundle.Codec.NONE)
    all_polls(as_batch(made), is_bundle=True)
    all_polls(as_batch(encode_sparse([7, 7 + gap], [b"v"] * 2, timestamps=9)), is_bundle=True)


@pytest.mark.parametrize("append_ms", [0, 2**53, 2**53 + 1, 2**60])
def test_the_time_of_the_append_at_the_edges(append_ms: int) -> None:
    all_polls(record_batch.encode([KafkaRecord(None, b"v", 0, 0)], base_timestamp_ms=-1), append_ms=append_ms)


def test_the_checksums_of_messages_of_every_length() -> None:
    """Up to where long input begins, around its blocks, and far beyond: as the package computes them."""
    source = Random(5)
    lengths = [*range(320), *range(1010, 1040), 2047, 2048, 2049, 70_000]
    for length in lengths:
        payload = source.randbytes(length)
        batch = record_batch.encode([KafkaRecord(None, payload, 0, 0)], base_timestamp_ms=STAMP_MS)
        source_of = PollSource(batch, NOW_MS, 1)
        for era in ("S", "B1", "B2", "B3", "V11"):
            part: PolledPart = agree("messages_of", source_of, ERA_NAMES[era], TOPIC_ID, 0, 0, 1)
            assert part.messages == 1
            if era == "B3":
                (sum_of,) = struct.unpack_from("<Q", part.data)
                assert sum_of == xxhash.xxh3_64_intdigest(part.data[8:])


@pytest.mark.parametrize("size", [1, 8_000, 8_192, 100_000])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 300])
def test_counts_and_lengths_at_the_edges_of_an_integer(size: int, count: int) -> None:
    if size * count > 2_000_000:
        return
    for era in ("A3", "B2", "B3", "V11"):
        made = all_sends(request([ClientMessage(b"x" * size, 0, 1000)] * count, era), era)
        assert made is not None
        header = record_batch.check(memoryview(made), max_bytes=1 << 30, latest_ms=ANY_TIME)
        assert records.read_columns(made[61:], header.records_count).values == [b"x" * size] * count
        all_polls(made)
