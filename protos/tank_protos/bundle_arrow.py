"""Chunks to Arrow record batches, for Spark: no Python object per message where the format allows it.

pyarrow and numpy (extra `[spark]`) are imported when a decoder is made, not when this module is. The other
way round: `tank_protos.bundle_arrow_encode`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tank_protos.bundle_decode import bounds, read_messages
from tank_protos.bundle_header import MAX_MESSAGE_SET_BYTES, MAX_SEQUENCE_NUMBER, bundles
from tank_protos.errors import InvalidBundle

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from tank_protos.bundle_kernel import MessageSet
    from tank_protos.wire import Buffer

    Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

# About the size in bytes of the record batches that come out: large enough that their handling costs nothing,
# small enough that a reader holds little.
BATCH_BYTES = 1024 * 1024
# Timestamps above are clamped to it: the last millisecond that Spark's and Arrow's signed microseconds hold.
MAX_TIMESTAMP_MS = (1 << 63) // 1000 - 1


class Chunk(NamedTuple):
    """A chunk of a consume answer and which of its messages are wanted."""

    # Number of the first message of the first bundle (may be below `lower`); ignored when that is sparse.
    base: int
    # `{varint length, bundle}*`; the last one may be partial.
    data: Buffer
    # Wanted are numbers from `lower` (what was asked for) to `upper` (the high-water mark, or an end), both
    # included.
    lower: int = 0
    upper: int = MAX_SEQUENCE_NUMBER


def decode_arrow(
    chunks: Iterable[Chunk], *, batch_bytes: int = BATCH_BYTES, max_bytes: int = MAX_MESSAGE_SET_BYTES
) -> Iterator[pa.RecordBatch]:
    """The messages of the chunks, in order, as record batches of about `batch_bytes` each; none is empty.

    Columns: `key` binary, null without key; `value` binary; `offset` int64, the sequence number; `timestamp`
    int64, milliseconds, at most MAX_TIMESTAMP_MS. `max_bytes` bounds what a compressed message set may unpack
    to. Raises InvalidBundle when it comes to a bad bundle; what came before it has been yielded.
    """
    builder = _Builder(batch_bytes)
    for chunk in chunks:
        base = chunk.base
        try:
            for bundle in bundles(chunk.data):
                messages, numbers = read_messages(bundle, base, max_bytes)
                if numbers[-1] > MAX_SEQUENCE_NUMBER:
                    raise InvalidBundle(f"sequence number {numbers[-1]} is above {MAX_SEQUENCE_NUMBER}")
                base = numbers[-1] + 1
                builder.add(messages, numbers, chunk.lower, chunk.upper)
                if builder.size >= batch_bytes:
                    yield from builder.finish()
        except InvalidBundle:
            yield from builder.finish()
            raise
    yield from builder.finish()


class _Builder:
    """Gathers bundles' columns until there is enough for a record batch."""

    def __init__(self, batch_bytes: int) -> None:
        import numpy
        import pyarrow

        self._np, self._pa = numpy, pyarrow
        self._batch_bytes = batch_bytes
        self._clear()

    def _clear(self) -> None:
        self.size = 0
        self._values: list[bytes] = []
        # None as long as no message had a key.
        self._keys: list[bytes | None] | None = None
        self._numbers: list[Numbers] = []
        self._timestamps: list[Numbers] = []

    def add(self, messages: MessageSet, numbers: Any, lower: int, upper: int) -> None:
        """Adds a bundle's messages from number `lower` to `upper`."""
        np = self._np
        values, keys, stamps, starts = messages
        count = len(values)
        begin, stop = 0, count
        if numbers[0] < lower or numbers[-1] > upper:
            begin, stop = bounds(numbers, lower, upper)
            if begin == stop:
                return
            values = values[begin:stop]
            keys = None if keys is None else keys[begin:stop]
            numbers = numbers[begin:stop]
        if isinstance(numbers, range):
            self._numbers.append(np.arange(numbers.start, numbers.stop, dtype=np.int64))
        else:
            self._numbers.append(np.array(numbers, dtype=np.int64))
        self._timestamps.append(self._spread(stamps, starts, count)[begin:stop])
        if keys is not None or self._keys is not None:
            if self._keys is None:
                self._keys = [None] * len(self._values)
            self._keys += [None] * len(values) if keys is None else keys
        self._values += values
        self.size += sum(map(len, values)) + 16 * len(values)

    def _spread(self, stamps: list[int], starts: list[int], count: int) -> Numbers:
        """One timestamp a message, out of the runs."""
        np = self._np
        if len(stamps) == 1:
            alike: Numbers = np.full(count, min(stamps[0], MAX_TIMESTAMP_MS), dtype=np.int64)
            return alike
        clamped = np.minimum(np.array(stamps, dtype=np.uint64), np.uint64(MAX_TIMESTAMP_MS))
        spread: Numbers = clamped.astype(np.int64)
        return spread if len(stamps) == count else np.repeat(spread, np.diff(np.array([*starts, count])))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What was gathered, in batches of about the wanted size."""
        if not self._values:
            return
        pa, np = self._pa, self._np
        count = len(self._values)
        offsets = np.zeros(count + 1, dtype=np.int32)
        np.cumsum(np.fromiter(map(len, self._values), dtype=np.int32, count=count), out=offsets[1:])
        values = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(self._values))]
        )
        keys = pa.nulls(count, pa.binary()) if self._keys is None else pa.array(self._keys, pa.binary())
        batch = pa.RecordBatch.from_arrays(
            [
                keys,
                values,
                pa.array(np.concatenate(self._numbers)),
                pa.array(np.concatenate(self._timestamps)),
            ],
            ["key", "value", "offset", "timestamp"],
        )
        self._clear()
        begin = 0
        while begin < count:
            # A bundle may unpack to far more than a batch: it is cut into slices, which copy nothing.
            limit = int(offsets[begin]) + self._batch_bytes * 3 // 2
            stop = max(int(np.searchsorted(offsets, limit, side="right")) - 1, begin + 1)
            yield batch if begin == 0 and stop == count else batch.slice(begin, stop - begin)
            begin = stop
