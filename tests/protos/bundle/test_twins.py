"""The compiled functions and the plain ones they stand for: one answer, one refusal, in the same words."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos import kernel
from tank_protos.bundle import MAX_SEQUENCE_NUMBER, Codec, as_batch, bundles, cut
from tank_protos.bundle.decoding import Message
from tank_protos.bundle.kernel import MessageSet
from tank_protos.wire.errors import InvalidBundle, OutOfRange
from tests.support.examples import examples
from tests.support.values.bundle_shapes import KEYS, TIMESTAMPS, VALUES, Shape, several, shapes

pytestmark = pytest.mark.skipif(
    kernel.NAME == "pure", reason="the compiled kernel is not built, or switched off"
)

PAIRS = {p.plain.__name__: p for p in kernel.PAIRS if p.plain.__module__.startswith("tank_protos.bundle.")}


def outcome(function: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[object, object]:
    """What it returns, or the error that it raises."""
    try:
        result = function(*arguments, **named)
    except (InvalidBundle, OutOfRange) as error:
        return type(error), str(error)
    return type(result), result


def agree(name: str, *arguments: Any, **named: Any) -> object:
    """Both do the same with these arguments; what they do."""
    pair = PAIRS[name]
    compiled, plain = outcome(pair.compiled, *arguments, **named), outcome(pair.plain, *arguments, **named)
    assert compiled == plain
    return compiled[1]


def test_these_have_twins() -> None:
    assert callable(cut.fill)
    assert {
        "fill",
        "read_header",
        "validate",
        "parse_dense",
        "parse_sparse",
        "tuples",
        "encode",
        "encode_sparse",
    } <= set(PAIRS)


@pytest.mark.parametrize("name", PAIRS)
def test_a_twin_takes_the_same_arguments(name: str) -> None:
    plain, compiled = (inspect.signature(function).parameters for function in PAIRS[name][:2])
    assert [(p.name, p.kind, p.default) for p in compiled.values()] == [
        (p.name, p.kind, p.default) for p in plain.values()
    ]


def all_readers(bundle: bytes) -> None:
    """Gives the bytes to everything that reads bundles."""
    agree("validate", memoryview(bundle))
    agree("validate", memoryview(as_batch(bundle)))
    agree("validate", memoryview(as_batch(bundle)), True)
    header = agree("read_header", bundle)
    agree("read_header", b"123" + bundle, 3)
    agree("read_header", bundle, len(bundle) + 5)
    if isinstance(header, tuple) and not header[0]:
        start = header[5]
        agree("parse_dense", bundle, start)
        found = agree("parse_sparse", memoryview(bundle), start, header[1], header[3], header[4])
        if isinstance(found, tuple) and isinstance(found[0], MessageSet):
            values, keys, stamps, _ = found[0]
            agree("tuples", Message, found[1], (stamps * len(values))[: len(values)], keys, values)


@examples(200)
@given(shapes())
def test_they_agree_on_good_bundles(shape: Shape) -> None:
    all_readers(shape.bundle)


@examples(500)
@given(shapes(), st.data())
def test_they_agree_on_spoiled_bundles(shape: Shape, data: st.DataObject) -> None:
    spoiled = bytearray(shape.bundle[: data.draw(st.integers(0, len(shape.bundle)))] or b"\x04")
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, min(len(spoiled), 40) - 1) | st.integers(0, len(spoiled) - 1))
        spoiled[at] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 127, 128]))
    all_readers(bytes(spoiled))


@examples(500)
@given(
    st.binary(max_size=40),
    st.sampled_from(["", "0c", "4c010000000000000010", "00ffffffff"]),
)
def test_they_agree_on_garbage(garbage: bytes, head: str) -> None:
    all_readers(bytes.fromhex(head) + garbage)


@pytest.mark.parametrize("size", [0, 1, 2, 126, 127, 128, 16383, 16384, 16385])
def test_lengths_at_the_edges_of_a_varint(size: int) -> None:
    bundle = agree("encode", [b"x" * size, b"", b"x" * size], timestamps=5, codec=Codec.NONE)
    assert isinstance(bundle, bytes)
    all_readers(bundle)
    for end in range(0, len(bundle), max(len(bundle) // 50, 1)):
        all_readers(bundle[:end])


@pytest.mark.parametrize(
    "form", ["80808080 00", "8080808080 00", "ffffffff0f", "ffffffff1f", "ffffffffff 7f", "8100"]
)
def test_varints_that_are_long_or_too_long(form: str) -> None:
    for head in (b"\x04\x00" + bytes(8), b"\x00", b"\x05", b"\x48\x01" + bytes(7), b""):
        all_readers(head + bytes.fromhex(form) + b"x" * 40)


@pytest.mark.parametrize("messages", [1, 2, 3])
@pytest.mark.parametrize(
    "first", [0, 1, 2, *range(MAX_SEQUENCE_NUMBER - 4, MAX_SEQUENCE_NUMBER + 2), 2**64 - 1]
)
def test_numbers_at_the_edges_of_a_sparse_header(first: int, messages: int) -> None:
    for span in range(4):
        head = bytes((0x40 | messages << 2,)) + first.to_bytes(8, "little") + bytes((span,) * (messages > 1))
        last = first + span + 1 if messages > 1 else first
        header = agree("read_header", head + bytes(30))
        good = 1 <= first <= last <= MAX_SEQUENCE_NUMBER and last - first + 1 >= messages
        assert isinstance(header, tuple) == good, (first, last)


LISTS = st.integers(1, 20) | st.sampled_from([15, 16, 130, 513])


def lengthened(draw: st.DrawFn, count: int) -> int:
    """Now and then one more."""
    return count + (draw(st.integers(0, 9)) == 9)


def viewed(value: bytes) -> memoryview:
    return memoryview(value)


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `encode`: mostly good, some not."""
    count = draw(LISTS)
    contents: st.SearchStrategy[Any] = VALUES | st.none() | VALUES.map(bytearray) | VALUES.map(viewed)
    chosen: dict[str, Any] = {
        "values": several(draw, draw(st.sampled_from([VALUES, contents])), count),
        "codec": draw(st.sampled_from([None, *Codec])),
        "topic": "orders",
    }
    stamps = draw(st.sampled_from([TIMESTAMPS, TIMESTAMPS | st.sampled_from([-1, 2**64])]))
    chosen["timestamps"] = several(draw, stamps, lengthened(draw, count))
    if draw(st.booleans()):
        chosen["timestamps"] = chosen["timestamps"][0]
    keys = KEYS | st.binary(min_size=256, max_size=256) | st.binary(min_size=1, max_size=3).map(bytearray)
    keys = draw(st.sampled_from([KEYS, KEYS, keys]))
    chosen["keys"] = several(draw, keys, lengthened(draw, count)) if draw(st.booleans()) else None
    if draw(st.booleans()):
        for name in ("values", "keys", "timestamps"):
            if isinstance(chosen[name], list):
                chosen[name] = tuple(chosen[name])
    return chosen


@examples(500)
@given(columns())
def test_they_encode_alike(arguments: dict[str, Any]) -> None:
    values = arguments.pop("values")
    bundle = agree("encode", values, **arguments)
    if isinstance(bundle, bytes):
        all_readers(bundle)


@st.composite
def numbered(draw: st.DrawFn) -> tuple[list[int], dict[str, Any]]:
    """Numbers that mostly rise, and arguments of `encode`."""
    arguments = draw(columns())
    steps = draw(
        st.sampled_from([[1], [1, 2, 129, 40_000], [1, 1, 2, 2**32 - 1, 2**32, 2**32 + 1], [1, 0], [2, -1]])
    )
    numbers = [draw(st.sampled_from([0, 1, 7, 2**40, 2**63 - 3, 2**63 - 2, 2**63, 2**64, -5]))]
    for step in several(draw, st.sampled_from(steps), lengthened(draw, len(arguments["values"]) - 1)):
        numbers.append(numbers[-1] + step)
    return numbers, arguments


@examples(500)
@given(numbered())
def test_they_encode_sparse_bundles_alike(given: tuple[list[int], dict[str, Any]]) -> None:
    numbers, arguments = given
    bundle = agree("encode_sparse", numbers, arguments.pop("values"), **arguments)
    if isinstance(bundle, bytes):
        all_readers(bundle)
        assert list(bundles(as_batch(bundle))) == [bundle]


@given(columns(), st.integers(0, 600), st.integers(1, 600), st.integers(0, 3000))
def test_they_fill_bundles_alike(arguments: dict[str, Any], start: int, most: int, room: int) -> None:
    values, keys = arguments["values"], arguments["keys"]
    if None not in values and start < len(values) and len(values) == len(keys or values):
        agree("fill", values, keys, start, most, room)
        sizes = [len(value) + len(key or b"") for value, key in zip(values, keys or values, strict=True)]
        for room in {sum(sizes[start:end]) for end in range(start, min(start + 5, len(sizes) + 1))}:
            agree("fill", values, keys, start, most, room)


def test_whole_numbers_of_others_are_encoded_too() -> None:
    """What looks like a number may run code of its own: such columns are the plain function's."""

    class Stamp(int):
        pass

    agree("encode", [b"a", b"b"], timestamps=[Stamp(5), True])
    agree("encode", [b"a", b"b"], timestamps=Stamp(5))
    agree("encode", [b"a", b"b"], timestamps=range(2))
    agree("encode_sparse", range(5, 7), [b"a", b"b"], timestamps=1)
    agree("encode_sparse", [Stamp(5), 6], [b"a", b"b"], timestamps=1)


def test_rows_of_columns_that_differ_in_length() -> None:
    """The shortest decides, as for `zip`."""
    for numbers in (range(1, 4), range(1, 7, 2), range(9, 6, -1), [1, 2, 3], (1, 2, 3), range(0)):
        for stamps in ([5, 5, 5], [5]):
            agree("tuples", Message, numbers, stamps, None, [b"a", b"b", b"c"])
            agree("tuples", Message, numbers, stamps, [None, b"k"], [b"a", b"b", b"c"])


@pytest.mark.parametrize("first", [-3, -1, 0, 2**63 - 2, 2**63, 2**64 - 2, 2**64, 2**70])
def test_rows_of_numbers_that_no_log_has(first: int) -> None:
    rows = [Message(first + at, 5, None, b"x") for at in range(3)]
    for numbers in (range(first, first + 3), list(range(first, first + 3))):
        assert agree("tuples", Message, numbers, [5] * 3, None, [b"x"] * 3) == rows


def test_rows_are_tuples_or_none() -> None:
    for name in PAIRS["tuples"][:2]:
        with pytest.raises(TypeError):
            name(dict, [1], [5], None, [b"x"])
