"""Decodes bundles and chunks into messages: tuples (`decode`) or columns (`decode_columns`), for clients.

The format is described in `docs/protocol/bundle.md`. Use it through `tank_protos.bundle`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tank_protos.bundle.header import (
    MAX_MESSAGE_SET_BYTES,
    MAX_SEQUENCE_NUMBER,
    BundleHeader,
    bundles,
    read_header,
    unpacked_bytes,
)
from tank_protos.bundle.kernel import MessageSet, parse_dense, parse_sparse, tuples
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle

if TYPE_CHECKING:
    from tank_protos.wire.buffer import Buffer


class Message(NamedTuple):
    """One message. `key` is None when it has none (an empty key is no key), `value` may be empty."""

    sequence_number: int
    # Milliseconds, u64, since 1970 by convention; brokers ignore it.
    timestamp_ms: int
    key: bytes | None
    value: bytes


class Columns(NamedTuple):
    """Messages by column; all columns are of one length, but `keys` is None when no message has a key."""

    # Rising; a range where no number is missing.
    numbers: Sequence[int]
    timestamps: list[int]
    keys: list[bytes | None] | None
    values: list[bytes]

    def messages(self) -> list[Message]:
        """The messages as tuples."""
        return tuples(Message, self.numbers, self.timestamps, self.keys, self.values)


def unpacked(
    bundle: Buffer, header: BundleHeader, max_bytes: int = MAX_MESSAGE_SET_BYTES
) -> tuple[Buffer, int]:
    """The bundle's uncompressed message set: (bytes, its offset in them); it goes to their end.

    `max_bytes` bounds the unpacked size of a compressed set, which is read from its beginning before any
    memory is taken. Raises InvalidBundle.
    """
    if not header.codec:
        return bundle, header.body_offset
    size = unpacked_bytes(bundle, header.body_offset, max_bytes)
    import cramjam  # 1.5 MB: many brokers unpack nothing

    try:
        data = bytes(cramjam.snappy.decompress_raw(memoryview(bundle)[header.body_offset :]))
    except cramjam.DecompressionError as error:
        raise InvalidBundle(f"the message set is no snappy block ({error})") from None
    if len(data) != size:
        raise InvalidBundle(f"the message set unpacks to {len(data)} bytes and says {size}")
    return data, 0


def read_messages(
    bundle: Buffer, header: BundleHeader, base: int, max_bytes: int
) -> tuple[MessageSet, Sequence[int]]:
    """A bundle's messages in columns with timestamps in runs, and their numbers; for the decoders here.

    `base` is the first message's number, ignored when the bundle is sparse. Raises InvalidBundle, also when
    the count in the header is not that of the messages.
    """
    data, start = unpacked(bundle, header, max_bytes)
    numbers: Sequence[int]
    if header.sparse:
        messages, numbers = parse_sparse(data, start, header.messages, header.first, header.last)
    else:
        messages = parse_dense(data, start)
        numbers = range(base, base + header.messages)
    if len(messages.values) != header.messages:
        raise InvalidBundle(f"the header says {header.messages} messages, there are {len(messages.values)}")
    return messages, numbers


def wanted_bundles(
    chunk: Buffer, base: int, lower: int, upper: int
) -> Iterator[tuple[memoryview, BundleHeader, int]]:
    """The bundles of a chunk that touch the numbers from `lower` to `upper`: (bundle, header, first number).

    Of the other bundles only the headers are read, so that reading the end of a chunk is cheap. Numbers rise
    from bundle to bundle, as in a log. Raises InvalidBundle, also when a sparse bundle's numbers go back.
    """
    previous = -1
    for bundle in bundles(chunk):
        header = read_header(bundle)
        first = header.first if header.sparse else base
        last = first + header.span
        if last > MAX_SEQUENCE_NUMBER:
            raise InvalidBundle(f"sequence number {last} is above {MAX_SEQUENCE_NUMBER}")
        if first <= previous:
            raise InvalidBundle(f"number {first} follows {previous} in a chunk, where numbers rise")
        previous = last
        base = last + 1
        if first > upper:
            return
        if last >= lower:
            yield bundle, header, first


def read_wanted(
    chunk: Buffer, base: int, lower: int, upper: int, max_bytes: int
) -> Iterator[tuple[MessageSet, Sequence[int]]]:
    """`read_messages` of the `wanted_bundles`. Raises InvalidBundle."""
    for bundle, header, first in wanted_bundles(chunk, base, lower, upper):
        yield read_messages(bundle, header, first, max_bytes)


def decode(bundle: Buffer, base: int, *, max_bytes: int = MAX_MESSAGE_SET_BYTES) -> list[Message]:
    """The messages of one bundle (without length prefix).

    `base` is the number of the first message; a sparse bundle has its own numbers and ignores it. `max_bytes`
    bounds the unpacked size of a compressed message set. Raises InvalidBundle.
    """
    messages, numbers = read_messages(bundle, read_header(bundle), base, max_bytes)
    return Columns(numbers, timestamp_list(messages), messages.keys, messages.values).messages()


def iter_columns(
    chunk: Buffer,
    base: int,
    lower: int = 0,
    upper: int = MAX_SEQUENCE_NUMBER,
    *,
    max_bytes: int = MAX_MESSAGE_SET_BYTES,
) -> Iterator[Columns]:
    """The messages of a chunk from number `lower` to `upper`: one Columns, never empty, for each bundle.

    `base` is the number of the chunk's first message: dense bundles continue from it, or from the end of the
    sparse bundle before. A partial last bundle is left out. Raises InvalidBundle where a bad bundle is
    reached.
    """
    for messages, numbers in read_wanted(chunk, base, lower, upper, max_bytes):
        columns = Columns(numbers, timestamp_list(messages), messages.keys, messages.values)
        if numbers[0] < lower or numbers[-1] > upper:
            columns = _between(columns, lower, upper)
            if not columns.values:
                continue
        yield columns


def decode_columns(
    chunk: Buffer,
    base: int,
    lower: int = 0,
    upper: int = MAX_SEQUENCE_NUMBER,
    *,
    max_bytes: int = MAX_MESSAGE_SET_BYTES,
) -> Columns:
    """`iter_columns` in one: all messages of the chunk between the bounds, both included."""
    return join_columns(list(iter_columns(chunk, base, lower, upper, max_bytes=max_bytes)))


def join_columns(parts: list[Columns]) -> Columns:
    """Joins Columns with rising numbers into one."""
    if len(parts) == 1:
        return parts[0]
    timestamps: list[int] = []
    values: list[bytes] = []
    for part in parts:
        timestamps += part.timestamps
        values += part.values
    return Columns(_joined_numbers(parts), timestamps, _joined_keys(parts), values)


class SoundPart(NamedTuple):
    """Bundles of a chunk that follow one another and can be read: a chunk of its own."""

    # Number of the first message of the first bundle.
    base: int
    data: memoryview
    # The wanted numbers in it, both included.
    lower: int
    upper: int


class DamagedPart(NamedTuple):
    """A bundle of a chunk that cannot be read, and the wanted numbers that it takes up, both included."""

    lower: int
    upper: int
    reason: str


def split_damaged(
    chunk: Buffer, base: int, lower: int, upper: int, max_bytes: int = MAX_MESSAGE_SET_BYTES
) -> list[SoundPart | DamagedPart]:
    """Cuts a chunk with a bad bundle into readable and unreadable parts, by rising numbers.

    For readers that got InvalidBundle; decodes everything once more. A bundle without a readable head takes
    all numbers up to `upper`, because the beginning of the next bundle is unknown.
    """
    view = memoryview(chunk)
    parts: list[SoundPart | DamagedPart] = []
    number, previous, start, end = base, -1, 0, 0
    sound: tuple[int, int] | None = None  # base and offset of the part that grows

    def close(through: int) -> None:
        if sound is not None and through >= lower:
            parts.append(SoundPart(sound[0], view[sound[1] : start], max(lower, sound[0]), through))

    try:
        for bundle in bundles(view):
            start, end = end, varint.read(view, end)[1] + len(bundle)
            header = read_header(bundle)
            first = header.first if header.sparse else number
            last = first + header.span
            if first <= previous or last > MAX_SEQUENCE_NUMBER:
                raise InvalidBundle(f"numbers {first} to {last} follow {previous}")
            if first > upper:
                close(min(number - 1, upper))
                return parts
            try:
                read_messages(bundle, header, first, max_bytes)
            except InvalidBundle as error:
                close(number - 1)
                sound = None
                if last >= lower:
                    parts.append(DamagedPart(max(first, lower), min(last, upper), str(error)))
            else:
                sound = sound or (first, start)
            previous, number = last, last + 1
    except InvalidBundle as error:
        close(min(number - 1, upper))
        if number <= upper:
            parts.append(DamagedPart(max(number, lower), upper, str(error)))
        return parts
    start = end
    close(min(number - 1, upper))
    return parts


def timestamp_list(messages: MessageSet) -> list[int]:
    """One timestamp for each message, from the runs."""
    stamps, starts, count = messages.stamps, messages.starts, len(messages.values)
    if len(stamps) == 1:
        return stamps * count
    if len(stamps) == count:
        return stamps
    timestamps: list[int] = []
    for stamp, start, stop in zip(stamps, starts, [*starts[1:], count], strict=True):
        if stop - start == 1:
            timestamps.append(stamp)
        else:
            timestamps += [stamp] * (stop - start)
    return timestamps


def bounds(numbers: Sequence[int], lower: int, upper: int) -> tuple[int, int]:
    """The part of the rising `numbers` from `lower` to `upper`: (index of the first, index behind them)."""
    if isinstance(numbers, range):
        count = len(numbers)
        begin = min(max(lower - numbers.start, 0), count)
        return begin, max(min(upper + 1 - numbers.start, count), begin)
    begin = bisect_left(numbers, lower)
    return begin, max(bisect_right(numbers, upper), begin)


def _between(columns: Columns, lower: int, upper: int) -> Columns:
    begin, stop = bounds(columns.numbers, lower, upper)
    return Columns(
        columns.numbers[begin:stop],
        columns.timestamps[begin:stop],
        None if columns.keys is None else columns.keys[begin:stop],
        columns.values[begin:stop],
    )


def _joined_numbers(parts: list[Columns]) -> Sequence[int]:
    if not parts:
        return range(0)
    first, last = parts[0].numbers[0], parts[-1].numbers[-1]
    if last - first + 1 == sum(len(part.values) for part in parts):
        return range(first, last + 1)
    numbers: list[int] = []
    for part in parts:
        numbers += part.numbers
    return numbers


def _joined_keys(parts: list[Columns]) -> list[bytes | None] | None:
    if all(part.keys is None for part in parts):
        return None
    keys: list[bytes | None] = []
    for part in parts:
        keys += [None] * len(part.values) if part.keys is None else part.keys
    return keys
