"""Arrow columns to bundles, for the Spark sink.

The same rows give the same bundles, cut at the same places: where a bundle ends depends on rows and bytes
alone, never on time, so that a repeated task sends what it sent before. pyarrow and numpy (extra `[spark]`)
are imported when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from tank_protos.bundle_encode import encode
from tank_protos.bundle_header import Codec
from tank_protos.errors import OutOfRange

if TYPE_CHECKING:
    import pyarrow as pa

# A bundle of the sink holds at most so many messages and so many bytes of keys and values (one message at
# least, however large): large enough that the cost of a request vanishes, small against any limit on frames.
MAX_ROWS = 10_000
MAX_BYTES = 512 * 1024


class EncodedBundle(NamedTuple):
    """One bundle (dense, without length prefix) and what a producer must know about it."""

    bundle: bytes
    messages: int
    max_timestamp_ms: int


def encode_arrow(
    keys: pa.Array | pa.ChunkedArray | None,
    values: pa.Array | pa.ChunkedArray,
    timestamps: pa.Array | pa.ChunkedArray | int,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    codec: Codec | None = None,
    topic: str = "",
) -> list[EncodedBundle]:
    """The rows as dense bundles, in order.

    `keys` and `values` are binary or string columns (also large and view types); a null value is empty
    content, a null or empty key is no key. `timestamps` is one number of milliseconds for all, or an integer
    column of milliseconds, or a timestamp column of any unit; nulls are not allowed. A bundle ends before
    the row that would take it over `max_rows` or `max_bytes` of keys and values. Raises OutOfRange: columns
    of different lengths, a null or negative timestamp, a key over 255 bytes (the message names `topic`).
    """
    import numpy as np

    contents, ends = _slices(values)
    count = len(contents)
    key_list: list[bytes | None] | None = None
    if keys is not None and keys.null_count < len(keys):
        names, key_ends = _slices(keys)
        if len(names) != count:
            raise OutOfRange(f"{len(names)} keys for {count} values")
        key_list = [name or None for name in names]
        ends = ends + key_ends
    stamps = timestamps if isinstance(timestamps, int) else _milliseconds(timestamps, count)
    out = []
    begin = 0
    while begin < count:
        limit = (int(ends[begin - 1]) if begin else 0) + max_bytes
        stop = int(np.searchsorted(ends, limit, side="right"))
        stop = min(max(stop, begin + 1), begin + max(max_rows, 1))
        part: Sequence[int] | int = stamps if isinstance(stamps, int) else stamps[begin:stop]
        bundle = encode(
            contents[begin:stop],
            timestamps=part,
            keys=None if key_list is None else key_list[begin:stop],
            codec=codec,
            topic=topic,
        )
        out.append(EncodedBundle(bundle, stop - begin, part if isinstance(part, int) else max(part)))
        begin = stop
    return out


def _slices(column: pa.Array | pa.ChunkedArray) -> tuple[list[bytes], Any]:
    """The rows as bytes (null: empty), and for each row the bytes up to its end, as int64."""
    import numpy as np
    import pyarrow as pa

    rows: list[bytes] = []
    for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        large = array.cast(pa.large_binary())
        if large.null_count:
            large = large.fill_null(b"")
        offsets = np.frombuffer(large.buffers()[1], dtype=np.int64, count=large.offset + len(large) + 1)
        bounds = offsets[large.offset :]
        data = large.buffers()[2]
        content = b"" if data is None else memoryview(data)[bounds[0] : bounds[-1]].tobytes()
        # Reading a stream is the cheapest way to cut bytes into rows.
        rows += map(BytesIO(content).read, np.diff(bounds).tolist())
    return rows, np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)))


def _milliseconds(column: pa.Array | pa.ChunkedArray, count: int) -> list[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(column) != count:
        raise OutOfRange(f"{len(column)} timestamps for {count} values")
    if column.null_count:
        raise OutOfRange("a timestamp is null; give every row one")
    if pa.types.is_timestamp(column.type):
        column = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", tz=column.type.tz))
        column = column.cast(pa.int64())
    stamps: list[int] = column.to_numpy().tolist()
    if stamps and min(stamps) < 0:
        raise OutOfRange(f"timestamp {min(stamps)} ms is before 1970; TANK's timestamps are unsigned")
    return stamps
