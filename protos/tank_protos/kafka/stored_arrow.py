"""Stored record batches as Arrow's record batches, for Spark and for programs with pyarrow.

pyarrow is imported when a batch is made, not when this module is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tank_protos.bundle.arrow import MAX_TIMESTAMP_MS
from tank_protos.kafka import stored_chunk
from tank_protos.kafka.stored_chunk import StoredColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from tank_protos.kafka.records import Headers
    from tank_protos.wire.buffer import Buffer

_NO_HEADERS: Final = None


def decode_arrow(chunk: Buffer, lower: int, upper: int) -> Iterator[pa.RecordBatch]:
    """The messages of a chunk, in order, one record batch for each stored batch; none is empty.

    Columns: `key` and `value` binary, null where the record has null; `offset` int64, the sequence number;
    `timestamp` int64, milliseconds, at most MAX_TIMESTAMP_MS, -1 without one; `headers` list of structs of
    `key` string and `value` binary, null for a message without headers. Raises InvalidRecords at a bad batch,
    after the messages before it were yielded.
    """
    import pyarrow as pa

    for columns in stored_chunk.iterate(chunk, lower, upper):
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(columns.keys, pa.binary()),
                pa.array(columns.values, pa.binary()),
                number_array(columns.numbers),
                pa.array([min(stamp, MAX_TIMESTAMP_MS) for stamp in columns.timestamps], pa.int64()),
                header_array(columns),
            ],
            names=["key", "value", "offset", "timestamp", "headers"],
        )


def number_array(numbers: Sequence[int]) -> pa.Array:
    """The numbers as int64."""
    import pyarrow as pa

    if isinstance(numbers, range):
        import numpy as np

        return pa.array(np.arange(numbers.start, numbers.stop, dtype=np.int64))
    return pa.array(numbers, pa.int64())


def header_array(columns: StoredColumns) -> pa.Array:
    """The headers of each message, as a list of structs; null for a message without any."""
    import pyarrow as pa

    kind = header_type()
    count, headers = len(columns.values), columns.headers
    if not headers:
        return pa.nulls(count, kind)
    return pa.array([_structs(headers.get(place)) for place in range(count)], kind)


def header_type() -> pa.DataType:
    """The type of a message's headers."""
    import pyarrow as pa

    # As Spark reads and writes them: names are text, and values may be null.
    return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _structs(headers: Headers | None) -> list[tuple[str, bytes | None]] | None:
    """The headers of one message. Arrow's text is UTF-8: other bytes in a name become U+FFFD."""
    if headers is None:
        return _NO_HEADERS
    return [(name.decode("utf-8", "replace"), value) for name, value in headers]
