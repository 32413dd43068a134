"""Chunks to Arrow and back: the same messages as the plain decoder's, in batches of a bounded size."""

import subprocess
import sys
from itertools import chain

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.bundle import (
    MAX_SEQUENCE_NUMBER,
    Message,
    as_batch,
    bundles,
    decode,
    decode_columns,
    encode,
    encode_sparse,
    iter_columns,
)
from tank_protos.bundle.arrow import MAX_TIMESTAMP_MS, Chunk, decode_arrow
from tank_protos.wire.errors import InvalidBundle
from tests.support.examples import examples
from tests.support.values.bundle_shapes import chunks

pytestmark = pytest.mark.usefixtures("kernel")

SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("offset", pa.int64()), ("timestamp", pa.int64())]
)


def rows(batches: list[pa.RecordBatch]) -> list[Message]:
    out = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == SCHEMA
        assert batch.num_rows
        columns = [batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value")]
        out += [Message(*row) for row in zip(*columns, strict=True)]
    return out


def clamped(messages: list[Message]) -> list[Message]:
    return [
        message._replace(timestamp_ms=min(message.timestamp_ms, MAX_TIMESTAMP_MS)) for message in messages
    ]


def plain(chunk: bytes, base: int) -> list[Message]:
    """The bundles one by one through `decode`, as the slowest reader would."""
    messages: list[Message] = []
    for bundle in bundles(chunk):
        messages += decode(bundle, messages[-1].sequence_number + 1 if messages else base)
    return messages


@given(chunks(), st.integers(0, 1100), st.integers(0, 1100), st.integers(0, 40))
def test_three_decoders_one_answer(
    chunk: tuple[int, bytes, list[Message]], lower: int, above: int, cut: int
) -> None:
    base, data, messages = chunk
    upper = lower + above
    assert plain(data, base) == messages
    assert decode_columns(data, base).messages() == messages
    assert rows(list(decode_arrow([Chunk(base, data)]))) == clamped(messages)

    data = data[: max(0, len(data) - cut)]
    wanted = [message for message in plain(data, base) if lower <= message.sequence_number <= upper]
    assert decode_columns(data, base, lower, upper).messages() == wanted
    per_bundle = [columns.messages() for columns in iter_columns(data, base, lower, upper)]
    assert all(per_bundle)
    assert list(chain.from_iterable(per_bundle)) == wanted
    assert rows(list(decode_arrow([Chunk(base, data, lower, upper)]))) == clamped(wanted)


@examples(30)
@given(st.lists(chunks(), max_size=3), st.integers(1, 400))
def test_several_chunks_and_small_batches(several: list[tuple[int, bytes, list[Message]]], size: int) -> None:
    batches = list(decode_arrow([Chunk(base, data) for base, data, _ in several], batch_bytes=size))
    assert rows(batches) == clamped([message for _, _, messages in several for message in messages])


def test_numbers_over_holes_and_sparse_bundles() -> None:
    """Dense bundles count on from the base, or from the end of the sparse bundle before them."""
    chunk = b"".join(
        as_batch(bundle)
        for bundle in (
            encode([b"a", b"b"], timestamps=1),
            encode_sparse([20, 25], [b"c", b"d"], timestamps=[2, 3]),
            encode([b"e"], timestamps=4, keys=[b"k"]),
        )
    )
    columns = decode_columns(chunk, 7)
    assert columns.numbers == [7, 8, 20, 25, 26]
    assert columns.timestamps == [1, 1, 2, 3, 4]
    assert columns.keys == [None, None, None, None, b"k"]
    [batch] = decode_arrow([Chunk(7, chunk, lower=8, upper=25)])
    assert batch.column("offset").to_pylist() == [8, 20, 25]
    # A number that fell into the hole begins behind it.
    [batch] = decode_arrow([Chunk(7, chunk, lower=21)])
    assert batch.column("offset").to_pylist() == [25, 26]


def test_bundles_outside_the_bounds_are_not_unpacked() -> None:
    bad = as_batch(b"\x09\x15" + b"no snappy")
    good = as_batch(encode([b"a", b"b"], timestamps=1))
    chunk = bad + good + bad
    assert [message.sequence_number for message in decode_columns(chunk, 1, 3, 4).messages()] == [3, 4]
    [batch] = decode_arrow([Chunk(1, chunk, 3, 4)])
    assert batch.column("offset").to_pylist() == [3, 4]
    for lower, upper in ((2, 4), (3, 5)):
        with pytest.raises(InvalidBundle):
            decode_columns(chunk, 1, lower, upper)
        with pytest.raises(InvalidBundle):
            list(decode_arrow([Chunk(1, chunk, lower, upper)]))


def test_keyless_messages_have_null_keys() -> None:
    first, second = encode([b"a"] * 3, timestamps=1), encode([b"b", b"c"], timestamps=1, keys=[b"", b"k"])
    [batch] = decode_arrow([Chunk(1, as_batch(first) + as_batch(second) + as_batch(first))])
    assert batch.column("key").to_pylist() == [None, None, None, None, b"k", None, None, None]
    [batch] = decode_arrow([Chunk(1, as_batch(first))])
    assert batch.column("key").null_count == 3


def test_batches_have_about_the_wanted_size() -> None:
    bundle = as_batch(encode([b"x" * 100] * 100, timestamps=1))
    batches = list(decode_arrow([Chunk(1, bundle * 1000)], batch_bytes=1 << 20))
    assert sum(batch.num_rows for batch in batches) == 100_000
    assert all(batch.num_rows * 100 > 700_000 for batch in batches[:-1])
    assert all(batch.num_rows * 100 < 1_600_000 for batch in batches)
    offsets = [number for batch in batches for number in batch.column("offset").to_pylist()]
    assert offsets == list(range(1, 100_001))


def test_a_bundle_that_unpacks_to_much_comes_in_slices() -> None:
    bundle = encode([b"%04d" % number * 250 for number in range(5000)], timestamps=1)
    batches = list(decode_arrow([Chunk(1, as_batch(bundle))], batch_bytes=1 << 20))
    assert [batch.num_rows for batch in batches] == [1572, 1572, 1572, 284]
    assert rows(batches) == decode(bundle, 1)


def test_an_empty_chunk_has_no_batch() -> None:
    assert list(decode_arrow([])) == []
    assert list(decode_arrow([Chunk(1, b""), Chunk(0, b"\x40\x04")])) == []
    assert list(decode_arrow([Chunk(1, as_batch(encode([b"a"], timestamps=1)), lower=2)])) == []
    assert decode_columns(b"", 1).messages() == []


def test_what_came_before_a_bad_bundle_is_yielded_first() -> None:
    good = as_batch(encode([b"a", b"b"], timestamps=1))
    batches = decode_arrow([Chunk(1, good + as_batch(b"\xff"))])
    assert next(batches).num_rows == 2
    with pytest.raises(InvalidBundle):
        next(batches)
    batches = decode_arrow([Chunk(1, good + b"\x00")])
    assert next(batches).num_rows == 2
    with pytest.raises(InvalidBundle, match="length 0"):
        next(batches)


def test_the_greatest_timestamp_and_number() -> None:
    chunk = as_batch(encode([b"a", b"b"], timestamps=[2**64 - 1, 5]))
    [batch] = decode_arrow([Chunk(MAX_SEQUENCE_NUMBER - 1, chunk)])
    assert batch.column("offset").to_pylist() == [MAX_SEQUENCE_NUMBER - 1, MAX_SEQUENCE_NUMBER]
    assert batch.column("timestamp").to_pylist() == [MAX_TIMESTAMP_MS, 5]
    # Spark's timestamps are signed microseconds.
    assert batch.column("timestamp").cast(pa.timestamp("ms")).cast(pa.timestamp("us"))
    with pytest.raises(InvalidBundle, match="above"):
        list(decode_arrow([Chunk(MAX_SEQUENCE_NUMBER, chunk)]))


def test_pyarrow_is_not_needed_to_import_the_codec() -> None:
    code = (
        "import sys, tank_protos.bundle, tank_protos.bundle.arrow;"
        "print(sorted({'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
