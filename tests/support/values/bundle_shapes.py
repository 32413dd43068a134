"""Hypothesis strategies for bundles of every shape."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tank_protos import bundle as codec
from tank_protos.bundle import Codec, Message

TIMESTAMPS = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 1_700_000_000_000])
KEYS = st.none() | st.binary(max_size=5) | st.binary(min_size=255, max_size=255)
VALUES = st.binary(max_size=8) | st.sampled_from([b"x" * 127, b"y" * 128, b"abc" * 500, b""])


def several(draw: st.DrawFn, one: st.SearchStrategy[Any], count: int) -> list[Any]:
    """`count` of a few different ones, mixed: drawing each anew takes longer than what is done with them."""
    few = draw(st.lists(one, min_size=1, max_size=6))
    return Random(draw(st.integers(0, 1 << 32))).choices(few, k=count)


class Shape(NamedTuple):
    """A bundle and the messages that must come out of it."""

    bundle: bytes
    messages: list[Message]


@st.composite
def shapes(draw: st.DrawFn, sparse: bool | None = None, base: int = 1) -> Shape:
    """A bundle: dense (numbered from `base`) or sparse, with and without keys, codecs, any timestamps."""
    count = draw(st.integers(1, 20) | st.sampled_from([15, 16, 130]))
    values = [draw(VALUES)] * count if draw(st.booleans()) else several(draw, VALUES, count)
    keys = several(draw, KEYS, count) if draw(st.booleans()) else None
    stamps: int | list[int] = draw(TIMESTAMPS)
    if draw(st.booleans()):
        stamps = several(draw, TIMESTAMPS, count)
    how = draw(st.sampled_from([None, *Codec]))
    is_sparse = draw(st.booleans()) if sparse is None else sparse
    if is_sparse:
        numbers = [draw(st.integers(base, base + 2**40))]
        for step in several(draw, st.integers(1, 3) | st.just(40_000), count - 1):
            numbers.append(numbers[-1] + step)
        bundle = codec.encode_sparse(numbers, values, timestamps=stamps, keys=keys, codec=how)
    else:
        numbers = list(range(base, base + count))
        bundle = codec.encode(values, timestamps=stamps, keys=keys, codec=how)
    stamp_list = [stamps] * count if isinstance(stamps, int) else stamps
    key_list = [None] * count if keys is None else [key or None for key in keys]
    rows = zip(numbers, stamp_list, key_list, values, strict=True)
    return Shape(bundle, [Message(*row) for row in rows])


@st.composite
def chunks(draw: st.DrawFn) -> tuple[int, bytes, list[Message]]:
    """A chunk of up to four bundles: (base of the first, bytes, messages)."""
    base = number = draw(st.integers(1, 1000))
    data = b""
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 4))):
        shape = draw(shapes(base=number))
        data += codec.as_batch(shape.bundle)
        messages += shape.messages
        number = messages[-1].sequence_number + 1
    return base, data, messages
