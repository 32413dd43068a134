"""Chunks to Arrow record batches, for Spark: no Python object per message where the format allows it.

pyarrow and numpy (extra `[spark]`) are imported when a decoder is made, not when this module is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tank_protos.bundle_decode import bounds, read_wanted
from tank_protos.bundle_header import MAX_MESSAGE_SET_BYTES, MAX_SEQUENCE_NUMBER
from tank_protos.bundle_kernel import MessageSet
from tank_protos.errors import InvalidBundle

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from tank_protos.wire import Buffer

    Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
    Int32s: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]

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
        base, data, lower, upper = chunk
        try:
            for messages, numbers in read_wanted(data, base, lower, upper, max_bytes):
                builder.add(messages, numbers, lower, upper)
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
        self._count = 0
        self._contents: list[bytes] = []
        self._lengths: list[Int32s] = []
        # None as long as no message had a key.
        self._keys: list[bytes | None] | None = None
        # Timestamps in runs: _stamps[i] holds from message _starts[i] on.
        self._stamps: list[int] = []
        self._starts: list[int] = []
        # Numbers in pieces: ranges without a hole, as long as they come, and lists.
        self._numbers: list[Sequence[int]] = []

    def add(self, messages: MessageSet, numbers: Sequence[int], lower: int, upper: int) -> None:
        """Adds a bundle's messages from number `lower` to `upper`."""
        if numbers[0] < lower or numbers[-1] > upper:
            begin, stop = bounds(numbers, lower, upper)
            if begin == stop:
                return
            messages, numbers = _cut(messages, begin, stop), numbers[begin:stop]
        values, keys, stamps, starts = messages
        before, count = self._count, len(values)
        self._count += count
        # Joined while they are in the processor's cache: 10,000 small objects kept until the end cost more.
        content = b"".join(values)
        self._contents.append(content)
        self._lengths.append(self._np.fromiter(map(len, values), self._np.int32, count))
        self._stamps += stamps
        self._starts += [start + before for start in starts]
        if keys is not None or self._keys is not None:
            if self._keys is None:
                self._keys = [None] * before
            self._keys += [None] * count if keys is None else keys
        last = self._numbers[-1] if self._numbers else None
        if isinstance(numbers, range) and isinstance(last, range) and last.stop == numbers.start:
            self._numbers[-1] = range(last.start, numbers.stop)
        else:
            self._numbers.append(numbers)
        # Number and timestamp and the ends of value and key take 24 bytes a message.
        self.size += len(content) + 24 * count

    def _number_column(self) -> Numbers:
        np = self._np
        pieces = [
            np.arange(piece.start, piece.stop, dtype=np.int64)
            if isinstance(piece, range)
            else np.array(piece, dtype=np.int64)
            for piece in self._numbers
        ]
        joined: Numbers = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return joined

    def _timestamp_column(self, count: int) -> Numbers:
        np = self._np
        clamped = np.minimum(np.array(self._stamps, dtype=np.uint64), np.uint64(MAX_TIMESTAMP_MS))
        stamps: Numbers = clamped.astype(np.int64)
        return stamps if len(stamps) == count else np.repeat(stamps, np.diff([*self._starts, count]))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What was gathered, in batches of about the wanted size."""
        if not self._count:
            return
        pa, np = self._pa, self._np
        count = self._count
        offsets = np.zeros(count + 1, dtype=np.int32)
        np.cumsum(np.concatenate(self._lengths), out=offsets[1:])
        values = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(self._contents))]
        )
        keys = pa.nulls(count, pa.binary()) if self._keys is None else pa.array(self._keys, pa.binary())
        batch = pa.RecordBatch.from_arrays(
            [
                keys,
                values,
                pa.array(self._number_column()),
                pa.array(self._timestamp_column(count)),
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


def _cut(messages: MessageSet, begin: int, stop: int) -> MessageSet:
    """Messages from index `begin` to before `stop`, at least one, with their runs of timestamps."""
    values, keys, stamps, starts = messages
    first = bisect_right(starts, begin) - 1
    behind = bisect_left(starts, stop)
    return MessageSet(
        values[begin:stop],
        None if keys is None else keys[begin:stop],
        stamps[first:behind],
        [0, *(start - begin for start in starts[first + 1 : behind])],
    )
