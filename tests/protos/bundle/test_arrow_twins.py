"""Message sets to Arrow's buffers, compiled and plain: one outcome, one refusal, on good bytes and bad."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tank_protos import kernel
from tank_protos.bundle import MAX_SEQUENCE_NUMBER, Codec, encode, read_header
from tank_protos.bundle.arrow import ArrowColumns, Part, gathered_columns, number_array, value_array
from tank_protos.bundle.decoding import unpacked
from tank_protos.wire.errors import InvalidBundle
from tests.support.examples import examples
from tests.support.values.bundle_shapes import shapes

pytestmark = pytest.mark.skipif(
    kernel.NAME == "pure", reason="the compiled kernel is not built, or switched off"
)
BOUNDS = st.integers(0, 60) | st.just(MAX_SEQUENCE_NUMBER)


def outcome(make: Callable[..., ArrowColumns], parts: list[Part]) -> object:
    try:
        columns = make(parts)
    except InvalidBundle as error:
        return str(error)
    keys = pa.nulls(columns.rows, pa.binary()) if columns.keys is None else columns.keys
    arrays = [keys, value_array(columns, pa.binary())]
    for numbers in (columns.numbers, columns.timestamps):
        arrays += [number_array(numbers, columns.rows, 0, pa.int64())]
    for array in arrays:
        array.validate(full=True)
    assert columns.begin == 0
    names = ("key", "value", "offset", "timestamp")
    return {name: array.to_pylist() for name, array in zip(names, arrays, strict=True)}


def agree(parts: list[Part]) -> object:
    """What both make of these parts."""
    [pair] = [pair for pair in kernel.PAIRS if pair.plain.__name__ == gathered_columns.__name__]
    compiled, plain = outcome(pair.compiled, parts), outcome(pair.plain, parts)
    assert compiled == plain
    return compiled


def part_of(bundle: bytes, first: int, lower: int = 0, upper: int = MAX_SEQUENCE_NUMBER) -> Part:
    header = read_header(bundle)
    data, start = unpacked(bundle, header)
    first = header.first if header.sparse else first
    return Part(data, start, header.messages, header.sparse, first, first + header.span, lower, upper)


@given(st.lists(shapes(), min_size=1, max_size=4), st.integers(1, 50), BOUNDS, BOUNDS)
def test_they_agree_on_good_parts(several: list[Any], first: int, lower: int, upper: int) -> None:
    agree([part_of(shape.bundle, first, lower, upper) for shape in several])


@examples(300)
@given(st.lists(shapes(), min_size=1, max_size=3), st.data())
def test_they_agree_on_parts_with_flipped_bytes(several: list[Any], data: st.DataObject) -> None:
    parts = [part_of(shape.bundle, 1) for shape in several]
    chosen = data.draw(st.integers(0, len(parts) - 1))
    changed = bytearray(parts[chosen].data)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    parts[chosen] = parts[chosen]._replace(data=bytes(changed))
    agree(parts)


@examples(300)
@given(st.binary(max_size=80), st.integers(0, 90), st.integers(1, 2**32 - 1), st.booleans())
@example(b"", 0, 1, False)
@example(b"\x00" * 11, 1, 2**31, False)
def test_they_agree_on_any_bytes(data: bytes, start: int, messages: int, sparse: bool) -> None:
    """Headers lie as they like: how many messages there are, and which number is the last."""
    messages = min(messages, 1 + len(data))  # what a header may claim of so many bytes
    start = min(start, len(data))
    agree([Part(data, start, messages, sparse, 1, messages, 0, MAX_SEQUENCE_NUMBER)])


def test_they_agree_on_a_count_that_is_not_that_of_the_messages() -> None:
    good = part_of(encode([b"content"] * 9, timestamps=1, codec=Codec.NONE), 1)
    for messages in (1, 8, 10):
        assert "there are 9" in str(agree([good, good._replace(messages=messages)]))


def test_they_agree_on_keys_that_come_late() -> None:
    keyless = part_of(encode([b"a", b"b"], timestamps=1), 1)
    keyed = part_of(encode([b"c"] * 20, timestamps=2, keys=[None, b"k" * 255] * 10), 3)
    batch = agree([keyless, keyed, keyless])
    assert isinstance(batch, dict)
    assert batch["key"] == [None, None, *([None, b"k" * 255] * 10), None, None]


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 129, 16_383, 16_384])
@pytest.mark.parametrize("odd", [None, 0, 2, 4])
def test_they_agree_on_contents_of_one_length_and_nearly_so(size: int, odd: int | None) -> None:
    """The plain function takes them at one stroke when all are alike; the one that is not must be seen."""
    values = [bytes([number]) * size for number in range(5)]
    if odd is not None:
        values[odd] += b"!"
    batch = agree([part_of(encode(values, timestamps=7, codec=Codec.NONE), 1)])
    assert isinstance(batch, dict)
    assert batch["value"] == values
