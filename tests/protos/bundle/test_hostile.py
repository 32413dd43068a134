"""Bundles from strangers: cut, lengthened, flipped, lying. Only InvalidBundle comes out, no memory goes."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.bundle import (
    MAX_MESSAGE_SET_BYTES,
    Codec,
    as_batch,
    decode,
    decode_columns,
    encode,
    encode_sparse,
    make_sparse,
    read_header,
    validate,
)
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle
from tests.support.examples import examples
from tests.support.values.bundle_shapes import Shape, shapes

pytestmark = pytest.mark.usefixtures("kernel")

STAMP = "0000000000000000"


def peak_bytes(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(bundle: bytes, why: str = "") -> None:
    """The bundle is refused by everybody who may be given it."""
    batch = memoryview(as_batch(bundle))
    with pytest.raises(InvalidBundle, match=why):
        validate(batch)
    with pytest.raises(InvalidBundle, match=why):
        read_header(bundle)
    with pytest.raises(InvalidBundle, match=why):
        decode(bundle, 1)


HEADERS = {
    "reserved bit 7": ("84 00 " + STAMP + "00", "reserved"),
    "codec 2": ("06 00 " + STAMP + "00", "codec 2"),
    "codec 3": ("07 00 " + STAMP + "00", "codec 3"),
    "no messages": ("00 00 00 " + STAMP + "00", "without messages"),
    "nothing at all": ("", "ends inside"),
    "only flags": ("04", "too short"),
    "flags without their count": ("00", "ends inside"),
    "count over 32 bits": ("00 ffffffff7f 00 " + STAMP, "ends inside|above"),
    "three messages in the room of one": ("0c 00 " + STAMP + "00", "too short for 3"),
    "2^32 - 1 messages": ("00 ffffffff0f 00 " + STAMP + "00", "too short"),
    "sparse without number": ("44 0100", "first number"),
    "sparse from 0": ("44 0000000000000000 00 " + STAMP + "00", "not within"),
    "sparse from 2^64 - 1": ("44 ffffffffffffffff 00 " + STAMP + "00", "not within"),
    "sparse beyond signed": ("44 ffffffffffffff7f 00 " + STAMP + "00", "not within"),
    "sparse without span": ("48 0100000000000000", "ends inside"),
    "more messages than numbers": ("4c 0100000000000000 00 00 " + STAMP + "00 0200 0200", "do not fit"),
    "snappy without a block": ("05", "unreadable"),
    "snappy size cut": ("05 80", "unreadable"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_bad_header_is_refused_by_broker_and_client(case: str) -> None:
    form, why = HEADERS[case]
    refused(bytes.fromhex(form), why)


def test_the_broker_compares_the_length_with_what_it_got() -> None:
    batch = as_batch(encode([b"hello"], timestamps=1))
    for wrong in (batch[:-1], batch + b"\0", b"", b"\x00", b"\x80", b"\xff" * 6, b"\x01"):
        with pytest.raises(InvalidBundle):
            validate(memoryview(wrong))


def test_a_first_message_without_timestamp_is_refused() -> None:
    bundle = bytes.fromhex("04 02" + "00" * 9)
    with pytest.raises(InvalidBundle, match="timestamp of its own"):
        validate(memoryview(as_batch(bundle)))
    with pytest.raises(InvalidBundle):
        decode(bundle, 1)
    with pytest.raises(InvalidBundle, match="timestamp of its own"):
        decode(bytes.fromhex("08 02 00" + "00" + STAMP + "00"), 1)


def test_unknown_message_flags_are_refused_by_readers() -> None:
    for bundle in (encode([b"a", b"b"], timestamps=1), encode_sparse([3, 9], [b"a", b"b"], timestamps=1)):
        for flag in range(3, 8):
            changed = bytearray(bundle)
            changed[-3] |= 1 << flag
            with pytest.raises(InvalidBundle, match="unknown message flags"):
                decode(bytes(changed), 1)


@pytest.mark.parametrize("count", [1, 2, 4, 15])
def test_a_count_that_is_not_that_of_the_messages(count: int) -> None:
    bundle = bytearray(encode([b"some content"] * 3, timestamps=1))
    bundle[0] = count << 2
    with pytest.raises(InvalidBundle):
        decode(bytes(bundle), 1)


def test_numbers_of_a_sparse_bundle_that_do_not_add_up() -> None:
    good = bytes.fromhex("4c 0100000000000000 08 00" + STAMP + "00 02 04 00 02 00")
    assert [message.sequence_number for message in decode(good, 1)] == [1, 6, 10]
    past_the_last = bytes.fromhex("4c 0100000000000000 08 00" + STAMP + "00 02 08 00 02 00")
    last_is_next_and_is_not = bytes.fromhex("4c 0100000000000000 08 00" + STAMP + "00 02 04 00 06 00")
    for bad in (past_the_last, last_is_next_and_is_not):
        with pytest.raises(InvalidBundle, match="end at"):
            decode(bad, 1)
    # The last message may say that it is the next number when it is.
    agreeing = bytes.fromhex("4c 0100000000000000 08 00" + STAMP + "00 02 07 00 06 00")
    assert [message.sequence_number for message in decode(agreeing, 1)] == [1, 9, 10]


@examples(300)
@given(shapes(), st.data())
def test_a_broker_that_walks_takes_what_readers_take_and_nothing_else(
    shape: Shape, data: st.DataObject
) -> None:
    changed = bytearray(shape.bundle)
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, min(len(changed), 60) - 1))
        changed[place] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 4, 7, 127, 128]))
    try:
        header = read_header(bytes(changed))
    except InvalidBundle:
        return
    if header.codec:
        return
    errors = []
    for judge in (
        lambda: validate(memoryview(as_batch(bytes(changed))), True),
        lambda: decode(bytes(changed), 1),
    ):
        try:
            judge()
        except InvalidBundle:
            errors.append(judge)
    assert len(errors) in (0, 2)


LYING_LENGTHS = {
    "three announced, two there": b"\x0c" + encode([b"a" * 20, b"b"], timestamps=1, codec=Codec.NONE)[1:],
    "one announced, two there": b"\x04" + encode([b"a" * 20, b"b"], timestamps=1, codec=Codec.NONE)[1:],
    "a key beyond the end": bytes.fromhex("04 01" + STAMP + "ff 6b 01 76"),
    "a content beyond the end": bytes.fromhex("04 00" + STAMP + "7f 61 62 63"),
    "bytes behind the content": bytes.fromhex("04 00" + STAMP + "01 61 62 63"),
}


@pytest.mark.parametrize("lie", LYING_LENGTHS)
def test_a_bundle_whose_lengths_lie_is_refused_by_a_broker_that_walks(lie: str) -> None:
    batch = memoryview(as_batch(LYING_LENGTHS[lie]))
    validate(batch)
    with pytest.raises(InvalidBundle):
        validate(batch, True)


def test_a_compressed_bundle_must_begin_as_a_snappy_block_does() -> None:
    good = encode([b"x" * 200], timestamps=1, codec=Codec.SNAPPY)
    validate(memoryview(as_batch(good)))
    size_bytes = 3  # flags, and the size in two bytes
    for kind in (1, 2, 3):
        bad = bytearray(good)
        bad[size_bytes] |= kind
        with pytest.raises(InvalidBundle, match="no snappy block"):
            validate(memoryview(as_batch(bytes(bad))))


@examples(40)
@given(shapes())
def test_cut_at_every_byte(shape: Shape) -> None:
    for end in range(min(len(shape.bundle), 200)):
        with pytest.raises(InvalidBundle):
            decode(shape.bundle[:end], 1)


@given(shapes(), st.binary(min_size=1, max_size=4))
def test_trailing_bytes(shape: Shape, more: bytes) -> None:
    with pytest.raises(InvalidBundle):
        decode(shape.bundle + more, 1)


@given(shapes(), st.data())
def test_flipped_bytes_raise_nothing_but_invalid_bundle(shape: Shape, data: st.DataObject) -> None:
    changed = bytearray(shape.bundle)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(changed), 60) - 1) | st.integers(0, len(changed) - 1))
        changed[at] ^= data.draw(st.integers(1, 255))
    _survives(bytes(changed))


@examples(300)
@given(st.binary(max_size=60))
def test_garbage_raises_nothing_but_invalid_bundle(garbage: bytes) -> None:
    _survives(garbage)
    _survives(b"\x0c" + garbage)
    _survives(b"\x4c\x01\0\0\0\0\0\0\0\x10" + garbage)


def _survives(data: bytes) -> None:
    for action in (
        lambda: validate(memoryview(data)),
        lambda: validate(memoryview(as_batch(data))),
        lambda: decode_columns(data, 1),
        lambda: make_sparse(data, 77),
    ):
        with suppress(InvalidBundle):
            action()
    try:
        messages = decode(data, 1)
    except InvalidBundle:
        return
    # What is taken is consistent: as many messages as the header says, with rising numbers.
    assert len(messages) == read_header(data).messages
    numbers = [message.sequence_number for message in messages]
    assert numbers == sorted(set(numbers))


LIES = {
    "count": bytes.fromhex("00 ffffffff07 00" + STAMP) + b"\x7f" + b"x" * 127,
    "content length": bytes.fromhex("04 00" + STAMP + "ffffffff0f") + b"x" * 100,
    "sparse span and count": bytes.fromhex("40 ffffff7f 0100000000000000 ffffffff0f 00" + STAMP + "00"),
    "snappy size": bytes.fromhex("05 ffffffff0f") + b"x" * 100,
    "snappy size within the limit": b"\x05" + varint.encode(MAX_MESSAGE_SET_BYTES) + b"x" * 1000,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_takes_no_memory(lie: str) -> None:
    def take() -> None:
        for action in (decode, make_sparse):
            with pytest.raises(InvalidBundle):
                action(LIES[lie], 1)
        with pytest.raises(InvalidBundle):
            decode_columns(as_batch(LIES[lie]), 1)

    assert peak_bytes(take) < 100_000


def test_a_byte_behind_a_run_of_alike_messages_is_refused() -> None:
    """The run is taken at one stroke; what is left must not pass for one more empty message."""
    bundle = encode([b"longer", *[b""] * 8], timestamps=5, codec=Codec.NONE)
    assert len(decode(bundle, 1)) == 9
    with pytest.raises(InvalidBundle, match="ends inside a message"):
        decode(bytes([10 << 2]) + bundle[1:] + b"\0", 1)


def bomb(size: int) -> bytes:
    """A bundle whose message set unpacks to `size` bytes: one message of zeroes."""
    content = size - 10 - varint.size(size)
    packed = cramjam.snappy.compress_raw(bytes(9) + varint.encode(content) + bytes(content))
    return b"\x05" + bytes(packed)


def test_a_snappy_bomb_is_refused_by_its_size_before_it_is_unpacked() -> None:
    bundle = bomb(MAX_MESSAGE_SET_BYTES + 2**20)
    assert len(bundle) < 5_000_000

    def take() -> None:
        with pytest.raises(InvalidBundle, match="the limit is 67108864"):
            validate(memoryview(as_batch(bundle)))
        with pytest.raises(InvalidBundle, match="the limit is"):
            decode(bundle, 1)

    # The copy of the batch that the test makes, and nothing near what it unpacks to.
    assert peak_bytes(take) < 2 * len(bundle) + 100_000


def test_a_snappy_block_cannot_promise_more_than_its_elements_could_give() -> None:
    """At best three bytes of it copy 64."""
    body = b"x" * 102
    validate(memoryview(as_batch(b"\x05" + varint.encode(22 * 104) + body)))
    with pytest.raises(InvalidBundle, match="104 compressed bytes cannot unpack to 2289"):
        validate(memoryview(as_batch(b"\x05" + varint.encode(22 * 104 + 1) + body)))


def test_a_reader_may_set_a_lower_limit() -> None:
    bundle = bomb(100_000)
    assert len(decode(bundle, 1)) == 1
    with pytest.raises(InvalidBundle, match="the limit is 50000"):
        decode(bundle, 1, max_bytes=50_000)
    with pytest.raises(InvalidBundle, match="the limit is 50000"):
        decode_columns(as_batch(bundle), 1, max_bytes=50_000)


def test_a_snappy_block_that_is_none_or_lies_about_its_size() -> None:
    good = encode([b"content " * 40], timestamps=5, codec=Codec.SNAPPY)
    size, at = varint.read(good, 1)
    for bad in (
        good[:-1],
        good + b"\0",
        good[:1] + varint.encode(size - 1) + good[at:],
        good[:1] + varint.encode(size + 1) + good[at:],
        good[:at] + bytes(len(good) - at),
    ):
        validate(memoryview(as_batch(bad)))  # contents are the readers' business
        with pytest.raises(InvalidBundle, match="snappy block"):
            decode(bad, 1)


@pytest.mark.parametrize("second", [[8], [10], [1, 30]])
def test_a_chunk_whose_numbers_go_back_is_refused(second: list[int]) -> None:
    """Readers promise rising numbers; a broker that sends others is not believed."""
    first = encode_sparse([9, 10], [b"a", b"b"], timestamps=0)
    chunk = as_batch(first) + as_batch(encode_sparse(second, [b"c"] * len(second), timestamps=0))
    with pytest.raises(InvalidBundle, match=f"number {second[0]} follows 10"):
        decode_columns(chunk, 1)


def test_a_sparse_bundle_may_follow_a_dense_one_at_once() -> None:
    chunk = as_batch(encode([b"a", b"b"], timestamps=0)) + as_batch(encode_sparse([7], [b"c"], timestamps=0))
    assert list(decode_columns(chunk, 5).numbers) == [5, 6, 7]
