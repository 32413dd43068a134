"""Bundles: the worked examples, the captures of the C++ broker, every shape there and back."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos import bundle as codec
from tank_protos.bundle import (
    MAX_SEQUENCE_NUMBER,
    BundleHeader,
    Codec,
    Message,
    as_batch,
    bundles,
    decode,
    encode,
    encode_sparse,
    first_timestamp_ms,
    make_sparse,
    max_timestamp_ms,
    read_header,
    validate,
)
from tank_protos.wire.errors import InvalidBundle, OutOfRange
from tests.support.examples import examples
from tests.support.values.bundle_shapes import Shape, shapes
from tests.support.values.golden_bundles import Stretch, captured

pytestmark = pytest.mark.usefixtures("kernel")

STAMP = 0x000001A1FAFC30BC
STAMP_HEX = "bc30fcfaa1010000"
ALPHA = bytes.fromhex(f"0c 00 {STAMP_HEX} 05 616c706861 02 04 62657461 02 05 67616d6d61")
SPARSE = bytes.fromhex(f"50 d007000000000000 0e 00 {STAMP_HEX} 027931 02 04 027932 02 04 027933 02 027934")


def test_three_messages_with_one_timestamp() -> None:
    assert encode([b"alpha", b"beta", b"gamma"], timestamps=STAMP) == ALPHA
    assert decode(ALPHA, base=7) == [
        Message(7, STAMP, None, b"alpha"),
        Message(8, STAMP, None, b"beta"),
        Message(9, STAMP, None, b"gamma"),
    ]
    assert as_batch(ALPHA) == b"\x1d" + ALPHA


def test_a_sparse_bundle_carries_its_numbers() -> None:
    numbers = [2000, 2005, 2010, 2015]
    assert encode_sparse(numbers, [b"y1", b"y2", b"y3", b"y4"], timestamps=STAMP) == SPARSE
    assert [message.sequence_number for message in decode(SPARSE, base=1)] == numbers
    assert read_header(SPARSE) == BundleHeader(Codec.NONE, 4, True, 2000, 2015, 10)
    assert read_header(SPARSE).span == 15


def test_neighbours_in_a_sparse_bundle_take_a_flag_and_no_delta() -> None:
    bundle = encode_sparse([10, 11, 15, 16, 20], [b""] * 5, timestamps=0)
    assert (
        bundle.hex() == "540a0000000000000009" + "00" + "00" * 8 + "00" + "0600" + "020300" + "0600" + "0200"
    )
    assert [message.sequence_number for message in decode(bundle, 0)] == [10, 11, 15, 16, 20]


def test_the_head_of_other_counts() -> None:
    assert encode([b"x"] * 15, timestamps=0)[0] == 15 << 2
    assert encode([b"x"] * 16, timestamps=0)[:2].hex() == "0010"
    assert encode([b"line %d" % number for number in range(40)] * 10, timestamps=0)[:3].hex() == "019003"
    assert encode_sparse([77], [b"x"], timestamps=0)[:10].hex() == "444d0000000000000000"


STRETCHES = captured()


def test_there_are_captures() -> None:
    assert len(STRETCHES) > 40
    assert any(read_header(next(bundles(stretch.data))).sparse for stretch in STRETCHES)
    assert any(read_header(next(bundles(stretch.data))).codec for stretch in STRETCHES)


@pytest.mark.parametrize("stretch", STRETCHES, ids=lambda stretch: stretch.name)
def test_a_captured_bundle_decodes_and_encodes_back(stretch: Stretch) -> None:
    again = b""
    for bundle in bundles(stretch.data):
        header = read_header(bundle)
        messages = decode(bundle, stretch.base)
        assert len(messages) == header.messages
        assert validate(memoryview(as_batch(bundle))).messages == header.messages
        numbers, stamps, keys, values = map(list, zip(*messages, strict=True))
        if header.sparse:
            made = encode_sparse(numbers, values, timestamps=stamps, keys=keys, codec=header.codec)
        else:
            made = encode(values, timestamps=stamps, keys=keys, codec=header.codec)
        # Snappy leaves its writer a choice, and one capture writes a count of 1 the long way.
        plain = header.codec == Codec.NONE and bytes(bundle[:2]) != b"\x00\x01"
        assert made == bundle if plain else decode(made, stretch.base) == messages
        again += as_batch(bundle)
    assert again == stretch.data


def test_a_bundle_that_the_c_plus_plus_client_compressed() -> None:
    [found] = [s for s in STRETCHES if s.name.startswith("03_snappy:cli_produce") and len(s.data) > 100]
    [bundle] = bundles(found.data)
    messages = decode(bundle, 1)
    assert read_header(bundle).codec is Codec.SNAPPY
    assert len(messages) == 40
    assert (
        decode(encode([message.value for message in messages], timestamps=messages[0].timestamp_ms), 1)
        == messages
    )


@given(shapes())
def test_every_shape_comes_back(shape: Shape) -> None:
    assert decode(shape.bundle, base=1) == shape.messages
    assert decode(memoryview(shape.bundle), base=1) == shape.messages
    assert decode(bytearray(shape.bundle), base=1) == shape.messages


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128])
@pytest.mark.parametrize("count", [3, 4, 16, 17, 40])
def test_many_of_one_size_behind_a_first_of_another(size: int, count: int) -> None:
    """Such sets are decoded at one stroke; and those that differ in one place only are not."""
    values = [b"first", *[b"\x02" * size] * count]
    for last in (values[-1], b"other", b"x" * (size + 1)):
        values[-1] = last
        bundle = encode(values, timestamps=1, codec=Codec.NONE)
        assert [message.value for message in decode(bundle, 1)] == values
    keys = [None] * count + [b"k"]
    rows = decode(encode(values, timestamps=1, keys=keys, codec=Codec.NONE), 1)
    assert [(row.key, row.value) for row in rows] == list(zip(keys, values, strict=True))


@given(shapes())
def test_the_validator_takes_what_the_encoder_makes(shape: Shape) -> None:
    batch = memoryview(as_batch(shape.bundle))
    header = validate(batch)
    assert header == read_header(batch, offset=len(batch) - len(shape.bundle))
    assert header.messages == len(shape.messages)
    assert header.span == shape.messages[-1].sequence_number - shape.messages[0].sequence_number
    stamp = first_timestamp_ms(batch, header)
    assert stamp == (None if header.codec else shape.messages[0].timestamp_ms)
    greatest = max_timestamp_ms(batch, header)
    assert greatest in (None, max(message.timestamp_ms for message in shape.messages))


@given(shapes(sparse=False), st.integers(1, 2**62))
def test_a_dense_bundle_becomes_a_sparse_one_with_the_same_messages(shape: Shape, first: int) -> None:
    sparse = make_sparse(shape.bundle, first)
    header = validate(memoryview(as_batch(sparse)))
    assert (header.sparse, header.first, header.span) == (True, first, len(shape.messages) - 1)
    assert decode(sparse, base=999) == decode(shape.bundle, base=first)
    assert make_sparse(sparse, 5) == sparse


def test_null_and_empty() -> None:
    """A null value is empty content; a null key and an empty key are no key."""
    bundle = encode([None, b"", b"v"], timestamps=1, keys=[None, b"", b"k"])
    rows = [(message.key, message.value) for message in decode(bundle, 1)]
    assert rows == [(None, b""), (None, b""), (b"k", b"v")]
    # An empty key that another writer put on the wire reads as none, too.
    assert decode(bytes.fromhex("04 01 0000000000000000 00 00"), 1) == [Message(1, 0, None, b"")]


def test_a_key_over_255_bytes_names_the_topic() -> None:
    encode([b""], timestamps=0, keys=[b"k" * 255])
    with pytest.raises(OutOfRange, match=r"256 bytes for topic 'orders'.* at most 255"):
        encode([b"", b""], timestamps=0, keys=[b"", b"k" * 256], topic="orders")
    with pytest.raises(OutOfRange, match="256 bytes for topic 'orders'"):
        encode_sparse([1], [b""], timestamps=0, keys=[b"k" * 256], topic="orders")


@pytest.mark.parametrize(
    ("why", "arguments"),
    [
        ("at least one message", {"values": [], "timestamps": 0}),
        ("2 keys for 1 messages", {"values": [b""], "timestamps": 0, "keys": [b"", b""]}),
        ("2 timestamps for 1 messages", {"values": [b""], "timestamps": [0, 0]}),
        ("unsigned 64-bit", {"values": [b""], "timestamps": -1}),
        ("unsigned 64-bit", {"values": [b"", b""], "timestamps": [0, 2**64]}),
    ],
)
def test_what_cannot_be_encoded(why: str, arguments: dict[str, object]) -> None:
    with pytest.raises(OutOfRange, match=why):
        encode(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "numbers", [[0, 1], [2, 2], [3, 2], [1, 2**32 + 2], [1, MAX_SEQUENCE_NUMBER + 1], [5], [1, 2, 3], []]
)
def test_numbers_of_a_sparse_bundle_rise_and_fit(numbers: list[int]) -> None:
    with pytest.raises(OutOfRange):
        encode_sparse(numbers, [b"", b""], timestamps=0)


def test_the_greatest_number_and_the_greatest_distance() -> None:
    for numbers in ([MAX_SEQUENCE_NUMBER], [1, 2**32 + 1]):
        bundle = encode_sparse(numbers, [b""] * len(numbers), timestamps=0)
        assert [message.sequence_number for message in decode(bundle, 0)] == numbers


def test_compression_begins_where_the_official_client_begins_it() -> None:
    assert read_header(encode([b"x"] * 512, timestamps=0)).codec is Codec.NONE
    assert read_header(encode([b"x"] * 513, timestamps=0)).codec is Codec.SNAPPY
    assert read_header(encode([b"x" * 512] * 2, timestamps=0)).codec is Codec.NONE
    assert read_header(encode([b"x" * 512, b"x" * 513], timestamps=0)).codec is Codec.SNAPPY
    assert read_header(encode([b"x" * 512] * 2, timestamps=0, keys=[b"k", None])).codec is Codec.SNAPPY


def test_a_codec_that_is_asked_for_is_used_when_it_helps() -> None:
    assert read_header(encode([b"x" * 2000], timestamps=0, codec=Codec.NONE)).codec is Codec.NONE
    assert read_header(encode([b"x" * 100], timestamps=0, codec=Codec.SNAPPY)).codec is Codec.SNAPPY
    # Nothing is won here, and a reader would pay for it.
    assert read_header(encode([bytes(range(256))], timestamps=0, codec=Codec.SNAPPY)).codec is Codec.NONE


def test_what_a_sample_says_will_not_shrink_is_left_plain() -> None:
    """What would shrink lies between the slices. Where a codec is asked for, the whole set is tried."""
    chance = Random(1)
    values = [chance.randbytes(100) for _ in range(1000)]
    values[50:250] = [b"shrinks " * 12] * 200
    assert read_header(encode(values, timestamps=0)).codec is Codec.NONE
    assert read_header(encode(values, timestamps=0, codec=Codec.SNAPPY)).codec is Codec.SNAPPY
    # Of so few bytes no sample is taken.
    assert read_header(encode(values[:60], timestamps=0)).codec is Codec.SNAPPY


@pytest.mark.parametrize("where", [slice(0, 100), slice(300, 400), slice(900, 1000)])
def test_a_sample_is_taken_all_over_the_set(where: slice) -> None:
    """A tenth of the messages shrink, at its beginning, within, or at its end."""
    chance = Random(2)
    values = [chance.randbytes(100) for _ in range(1000)]
    values[where] = [b"shrinks " * 12] * 100
    assert read_header(encode(values, timestamps=0)).codec is Codec.SNAPPY
    assert read_header(encode([chance.randbytes(100) for _ in range(1000)], timestamps=0)).codec is Codec.NONE


def test_a_set_too_large_to_be_unpacked_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tank_protos.bundle.encoding.MAX_MESSAGE_SET_BYTES", 2000)
    assert read_header(encode([b"x" * 2000], timestamps=0)).codec is Codec.NONE
    assert read_header(encode([b"x" * 1900], timestamps=0)).codec is Codec.SNAPPY


def test_a_partial_last_bundle_ends_a_chunk_silently() -> None:
    batch = as_batch(ALPHA)
    long = as_batch(encode([b"x" * 300], timestamps=0, codec=Codec.NONE))
    for end in range(len(batch)):
        assert [bytes(bundle) for bundle in bundles(batch + batch[:end])] == [ALPHA]
    for end in range(len(long)):
        assert [bytes(bundle) for bundle in bundles(batch + long[:end])] == [ALPHA]


@pytest.mark.parametrize("garbage", ["00", "ffffffffff7f", "ffffffff1f"])
def test_a_length_that_is_none_is_an_error(garbage: str) -> None:
    chunk = as_batch(ALPHA) + bytes.fromhex(garbage) + b"more"
    found = bundles(chunk)
    assert bytes(next(found)) == ALPHA
    with pytest.raises(InvalidBundle):
        next(found)


@examples(25)
@given(st.lists(shapes(), min_size=1, max_size=3))
def test_a_chunk_is_batches_back_to_back(several: list[Shape]) -> None:
    chunk = b"".join(as_batch(shape.bundle) for shape in several)
    found = list(bundles(memoryview(chunk)))
    assert found == [shape.bundle for shape in several]
    assert all(bundle.obj is chunk for bundle in found), "slices, not copies"


def test_everything_has_one_door() -> None:
    assert all(hasattr(codec, name) for name in codec.__all__)
