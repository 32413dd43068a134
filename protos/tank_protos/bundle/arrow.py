"""Decodes chunks into Arrow record batches, for Spark, without a Python object per message where the format
allows it.

pyarrow and numpy (extra `[spark]`) are imported when a batch is made, not when this module is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tank_protos.bundle.decoding import bounds, unpacked, wanted_bundles
from tank_protos.bundle.header import MAX_MESSAGE_SET_BYTES, MAX_SEQUENCE_NUMBER, SAME_TIMESTAMP
from tank_protos.bundle.kernel import MessageSet, parse_dense, parse_sparse
from tank_protos.kernel import twin
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle, WireError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from tank_protos.wire.buffer import Buffer

    Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
    Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
    Int32s: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]

# The approximate size in bytes of the record batches: large enough that handling them costs little, small
# enough that a reader holds little.
BATCH_BYTES = 1024 * 1024
# Timestamps above are clamped to it: the last millisecond that Spark's and Arrow's signed microseconds hold.
MAX_TIMESTAMP_MS = (1 << 63) // 1000 - 1
# The bytes of a message's number, timestamp, and ends of value and key in a batch.
_ROW_BYTES = 24
# The ends of values are signed 32-bit numbers in Arrow.
_MAX_BATCH_BYTES = (1 << 31) - 1

_first_head = Struct("<BQ").unpack_from


class Chunk(NamedTuple):
    """A chunk of a consume answer, and the range of messages wanted from it."""

    # Number of the first message of the first bundle (may be below `lower`); ignored when that is sparse.
    base: int
    # `{varint length, bundle}*`; the last one may be partial.
    data: Buffer
    # The wanted numbers, both included: from `lower` (the number asked for) to `upper` (the high-water mark,
    # or an end).
    lower: int = 0
    upper: int = MAX_SEQUENCE_NUMBER


class Part(NamedTuple):
    """A bundle's message set to be added to a record batch."""

    # Unpacked; the messages lie from `start` to its end.
    data: Buffer
    start: int
    # From the bundle's header.
    messages: int
    sparse: bool
    # Numbers of the first and last message.
    first: int
    last: int
    # The wanted numbers, 0 to MAX_SEQUENCE_NUMBER, both included.
    lower: int
    upper: int


class ArrowColumns(NamedTuple):
    """Messages in buffers with Arrow's layout; the wanted ones are `rows` rows from row `begin` on."""

    begin: int
    rows: int
    # int32: where each value ends; the first number is 0, so there is one more than rows.
    ends: Buffer
    values: Buffer
    # Binary, null without key; None: no message has one.
    keys: pa.Array | None
    # int64.
    numbers: Buffer
    # int64, milliseconds, at most MAX_TIMESTAMP_MS.
    timestamps: Buffer


def decode_arrow(
    chunks: Iterable[Chunk], *, batch_bytes: int = BATCH_BYTES, max_bytes: int = MAX_MESSAGE_SET_BYTES
) -> Iterator[pa.RecordBatch]:
    """The messages of the chunks, in order, as record batches of about `batch_bytes` each; none is empty.

    Columns: `key` binary, null without key; `value` binary; `offset` int64, the sequence number; `timestamp`
    int64, milliseconds, at most MAX_TIMESTAMP_MS. `max_bytes` bounds the unpacked size of a compressed
    message set. Raises InvalidBundle at a bad bundle, after the messages before it were yielded.
    """
    return map(_record_batch, decode_buffers(chunks, batch_bytes=batch_bytes, max_bytes=max_bytes))


def decode_buffers(
    chunks: Iterable[Chunk], *, batch_bytes: int = BATCH_BYTES, max_bytes: int = MAX_MESSAGE_SET_BYTES
) -> Iterator[ArrowColumns]:
    """The columns from which `decode_arrow` makes its batches, for callers with another schema."""
    gathered: list[Part] = []
    size = 0
    for chunk in chunks:
        try:
            for part in _parts(chunk, max_bytes):
                part_bytes = len(part.data) - part.start + _ROW_BYTES * part.messages
                if gathered and size + part_bytes > _MAX_BATCH_BYTES:
                    ready, gathered, size = gathered, [], 0
                    yield from _batches(ready, batch_bytes)
                gathered.append(part)
                size += part_bytes
                if size >= batch_bytes:
                    ready, gathered, size = gathered, [], 0
                    yield from _batches(ready, batch_bytes)
        except InvalidBundle:
            yield from _batches(gathered, batch_bytes)
            raise
    yield from _batches(gathered, batch_bytes)


def _parts(chunk: Chunk, max_bytes: int) -> Iterator[Part]:
    """The bundles with wanted messages; each is unpacked only when it is taken."""
    lower, upper = max(chunk.lower, 0), min(chunk.upper, MAX_SEQUENCE_NUMBER)
    for bundle, header, first in wanted_bundles(chunk.data, chunk.base, lower, upper):
        data, start = unpacked(bundle, header, max_bytes)
        if len(data) - start > _MAX_BATCH_BYTES:
            raise InvalidBundle(f"a bundle of {len(data) - start} bytes is too large for a record batch")
        yield Part(data, start, header.messages, header.sparse, first, first + header.span, lower, upper)


def _batches(parts: list[Part], batch_bytes: int) -> Iterator[ArrowColumns]:
    """The parts' messages; the messages before a bad part come before its error."""
    if not parts:
        return
    try:
        columns = gathered_columns(parts)
    except InvalidBundle:
        if len(parts) == 1:
            raise
        for part in parts:
            yield from _batches([part], batch_bytes)
        raise
    if columns.rows:
        yield from _sliced(columns, batch_bytes)


def _sliced(columns: ArrowColumns, batch_bytes: int) -> Iterator[ArrowColumns]:
    """Cuts the columns of a large bundle into slices of about a batch each, without copying."""
    import numpy as np

    count, limit = columns.rows, batch_bytes * 3 // 2
    ends = np.frombuffer(columns.ends, np.int32, count + 1)
    begin = 0
    while ends[count] - ends[begin] > limit:
        stop = max(int(np.searchsorted(ends, ends[begin] + limit, side="right")) - 1, begin + 1)
        yield columns._replace(begin=begin, rows=stop - begin)
        begin = stop
    if begin < count:
        yield columns._replace(begin=begin, rows=count - begin)


def _record_batch(columns: ArrowColumns) -> pa.RecordBatch:
    import pyarrow as pa

    begin, rows, keys = columns.begin, columns.rows, columns.keys
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(rows, pa.binary()) if keys is None else keys.slice(begin, rows),
            value_array(columns, pa.binary()),
            number_array(columns.numbers, rows, begin, pa.int64()),
            number_array(columns.timestamps, rows, begin, pa.int64()),
        ],
        ["key", "value", "offset", "timestamp"],
    )


def value_array(columns: ArrowColumns, kind: pa.DataType) -> pa.Array:
    """The values, as binary or as a type that is laid out like it."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(columns.ends), pa.py_buffer(columns.values)]
    return pa.Array.from_buffers(kind, columns.rows, buffers, 0, columns.begin)


def number_array(numbers: Buffer, rows: int, begin: int, kind: pa.DataType) -> pa.Array:
    """So many of the numbers from `begin` on, as int64 or as a type that is laid out like it."""
    import pyarrow as pa

    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(numbers)], 0, begin)


def keys_over(count: int, validity: Any, offsets: Any, data: Any) -> pa.Array:
    """A column of keys over these buffers (one bit per row, int32 ends, bytes), for the compiled kernel."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.binary(), count, [*map(pa.py_buffer, (validity, offsets, data))])


@twin("arrow")
def gathered_columns(parts: Sequence[Part]) -> ArrowColumns:
    """The wanted messages of all parts, from row 0 on; perhaps none. Raises InvalidBundle when one of the
    parts is bad.
    """
    gathering = _Gathering()
    for part in parts:
        gathering.add(part)
    return gathering.finish()


class _Gathering:
    """The columns of message sets, gathered by numpy."""

    def __init__(self) -> None:
        import numpy

        self._np = numpy
        self._count = 0
        # The values in pieces: those of one message set, or a matrix with one message per row.
        self._contents: list[Bytes] = []
        self._lengths: list[Int32s] = []
        # None while no message had a key.
        self._keys: list[bytes | None] | None = None
        # Timestamps in runs: _stamps[i] is valid from message _starts[i] on.
        self._stamps: list[int] = []
        self._starts: list[int] = []
        # The numbers in pieces: ranges without a hole, and lists.
        self._numbers: list[Sequence[int]] = []

    def add(self, part: Part) -> None:
        whole = part.first >= part.lower and part.last <= part.upper
        if whole and not part.sparse and self._add_uniform(part):
            return
        numbers: Sequence[int]
        if part.sparse:
            messages, numbers = parse_sparse(part.data, part.start, part.messages, part.first, part.last)
        else:
            messages = parse_dense(part.data, part.start)
            numbers = range(part.first, part.last + 1)
        if len(messages.values) != part.messages:
            raise InvalidBundle(f"the header says {part.messages} messages, there are {len(messages.values)}")
        if not whole:
            begin, stop = bounds(numbers, part.lower, part.upper)
            if begin == stop:
                return
            messages, numbers = _cut(messages, begin, stop), numbers[begin:stop]
        self._add(messages, numbers)

    def _add(self, messages: MessageSet, numbers: Sequence[int]) -> None:
        np = self._np
        values, keys, stamps, starts = messages
        before, count = self._count, len(values)
        # Joined while they are in the processor's cache: keeping 10,000 small objects until the end costs
        # more.
        self._contents.append(np.frombuffer(b"".join(values), np.uint8))
        self._lengths.append(np.fromiter(map(len, values), np.int32, count))
        self._stamps += stamps
        self._starts += [start + before for start in starts]
        if keys is not None or self._keys is not None:
            if self._keys is None:
                self._keys = [None] * before
            self._keys += [None] * count if keys is None else keys
        self._add_numbers(numbers)
        self._count += count

    def _add_uniform(self, part: Part) -> bool:
        """Takes a set of values of one length, without keys and with one timestamp, at once: all messages
        except the first begin with the same head. Returns False, and does nothing, for any other set.
        """
        np, data = self._np, part.data
        try:
            flags, stamp = _first_head(data, part.start)
            length, begin = varint.read(data, part.start + 9)
        except (StructError, WireError):
            return False
        head = bytes((SAME_TIMESTAMP,)) + bytes(data[part.start + 9 : begin])
        stride, count = len(head) + length, part.messages
        if flags or len(data) - begin != length + stride * (count - 1):
            return False
        content = np.frombuffer(data, np.uint8)
        rows = content[begin + length :].reshape(count - 1, stride)
        if any((rows[:, place] != byte).any() for place, byte in enumerate(head)):
            return False
        self._contents += (content[begin : begin + length], rows[:, len(head) :])
        self._lengths.append(np.full(count, length, np.int32))
        self._stamps.append(stamp)
        self._starts.append(self._count)
        if self._keys is not None:
            self._keys += [None] * count
        self._add_numbers(range(part.first, part.last + 1))
        self._count += count
        return True

    def _add_numbers(self, numbers: Sequence[int]) -> None:
        last = self._numbers[-1] if self._numbers else None
        if isinstance(numbers, range) and isinstance(last, range) and last.stop == numbers.start:
            self._numbers[-1] = range(last.start, numbers.stop)
        else:
            self._numbers.append(numbers)

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

    def _timestamp_column(self) -> Numbers:
        np = self._np
        clamped = np.minimum(np.array(self._stamps, dtype=np.uint64), np.uint64(MAX_TIMESTAMP_MS))
        stamps: Numbers = clamped.astype(np.int64)
        if len(stamps) == self._count:
            return stamps
        spread: Numbers = np.repeat(stamps, np.diff([*self._starts, self._count]))
        return spread

    def _value_column(self, size: int) -> Bytes:
        values = self._np.empty(size, self._np.uint8)
        at = 0
        for piece in self._contents:
            values[at : at + piece.size].reshape(piece.shape)[:] = piece
            at += piece.size
        return values

    def finish(self) -> ArrowColumns:
        """Returns the gathered columns."""
        import pyarrow as pa

        np, count = self._np, self._count
        offsets = np.zeros(count + 1, dtype=np.int32)
        if not count:
            return ArrowColumns(0, 0, offsets.data, b"", None, b"", b"")
        np.cumsum(np.concatenate(self._lengths), out=offsets[1:])
        keys = None if self._keys is None else pa.array(self._keys, pa.binary())
        values = self._value_column(int(offsets[-1]))
        numbers, timestamps = self._number_column(), self._timestamp_column()
        return ArrowColumns(0, count, offsets.data, values.data, keys, numbers.data, timestamps.data)


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
