"""Encodes messages into dense or sparse bundles, and a dense bundle into a sparse one; for clients, mirrors,
compaction.

The format is described in `docs/protocol/bundle.md`. Use it through `tank_protos.bundle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, repeat
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, cast

from tank_protos.bundle.decoding import read_messages, timestamp_list
from tank_protos.bundle.header import (
    COUNT_MASK,
    COUNT_SHIFT,
    KEY,
    MAX_KEY_BYTES,
    MAX_MESSAGE_SET_BYTES,
    MAX_SEQUENCE_NUMBER,
    NEXT_NUMBER,
    SAME_TIMESTAMP,
    SPARSE,
    Codec,
    read_header,
)
from tank_protos.kernel import twin
from tank_protos.wire import varint
from tank_protos.wire.errors import OutOfRange

if TYPE_CHECKING:
    from tank_protos.wire.buffer import Buffer

# The official client compresses a bundle with more messages, or with more bytes in keys and values.
COMPRESS_ABOVE_MESSAGES = 512
COMPRESS_ABOVE_BYTES = 1024
# Without a requested codec, a message set above this size is compressed only when a sample of it (one byte in
# sixteen, in slices spread evenly) shrinks by a sixty-fourth. A slice has at least 256 bytes.
SAMPLE_ABOVE_BYTES = 16 * 1024
SAMPLE_SHARE = 16
SAMPLE_SLICES = 4
SAMPLE_SAVES = 64

_U64 = Struct("<Q")
_FIRST = Struct("<BQ")


_KEYLESS = bytes((SAME_TIMESTAMP,))
_KEYED = bytes((SAME_TIMESTAMP | KEY,))
_KEY_LENGTH = tuple(bytes((length,)) for length in range(MAX_KEY_BYTES + 1))


class _ByLength(dict[int, bytes]):
    """`prefix, varint length` by length, filled as lengths are met.

    Bounded, because values may have any length.
    """

    LIMIT = 16384

    def __init__(self, prefix: bytes) -> None:
        super().__init__()
        self._prefix = prefix

    def __missing__(self, length: int) -> bytes:
        head = self._prefix + varint.encode(length)
        if length < self.LIMIT:
            self[length] = head
        return head


# The whole head of a message without key and with the previous timestamp; and only the length.
_head = _ByLength(_KEYLESS).__getitem__
_length = _ByLength(b"").__getitem__


def finish(head: bytes, body: bytes, codec: int, *, sampled: bool) -> bytes:
    """Joins head and message set into a bundle, for the encoders. The set is compressed when `codec` says so
    and it shrinks; with `sampled`, only when a sample shrinks, too.
    """
    if codec and len(body) <= MAX_MESSAGE_SET_BYTES and not (sampled and _looks_incompressible(body)):
        import cramjam  # 1.5 MB: many brokers pack nothing

        packed = cramjam.snappy.compress_raw(body)
        if len(packed) < len(body):
            return b"".join((bytes((head[0] | Codec.SNAPPY,)), head[1:], packed))
    return head + body


def _looks_incompressible(body: bytes) -> bool:
    """Whether slices of a large message set shrink so little that compressing all of it is not tried: for
    random or compressed data snappy takes up to 2 µs per KB, the rest of the encoding 0.1.
    """
    if len(body) < SAMPLE_ABOVE_BYTES:
        return False
    size, view = len(body) // SAMPLE_SHARE // SAMPLE_SLICES, memoryview(body)
    places = range(0, len(body) - size + 1, (len(body) - size) // (SAMPLE_SLICES - 1))
    sample = b"".join(view[place : place + size] for place in places)
    import cramjam

    return len(cramjam.snappy.compress_raw(sample)) > len(sample) - len(sample) // SAMPLE_SAVES


@twin("bundle_encode")
def encode(
    values: Sequence[Buffer | None],
    *,
    timestamps: Sequence[int] | int,
    keys: Sequence[Buffer | None] | None = None,
    codec: Codec | None = None,
    topic: str = "",
) -> bytes:
    """A dense bundle of these messages, without length prefix.

    A value of None is empty content: the format has no null. A key of None and an empty key are the same: no
    key. `timestamps` in milliseconds (u64), one for all or one a message. `codec` None compresses when the
    official client does (more than 512 messages, or more than 1,024 bytes of keys and contents), unless a
    sample of a set over SAMPLE_ABOVE_BYTES hardly becomes smaller; a message set that snappy does not make
    smaller, or that is over MAX_MESSAGE_SET_BYTES, is left plain whatever was asked. The same input gives the
    same bytes. Raises OutOfRange: no messages, columns of different lengths, a timestamp that is no u64, a
    key over 255 bytes (the message names `topic`).
    """
    contents, lengths = _measured(values)
    body = _message_set(contents, lengths, timestamps, keys, None, topic)
    return finish(_count(len(contents), 0), body, _codec(codec, lengths, keys), sampled=codec is None)


@twin("bundle_encode")
def encode_sparse(
    numbers: Sequence[int],
    values: Sequence[Buffer | None],
    *,
    timestamps: Sequence[int] | int,
    keys: Sequence[Buffer | None] | None = None,
    codec: Codec | None = None,
    topic: str = "",
) -> bytes:
    """A sparse bundle: each message has the number given for it; otherwise as `encode`.

    Numbers rise, from 1 to MAX_SEQUENCE_NUMBER, and any two neighbours, and the first and last, are less than
    2^32 apart. Raises OutOfRange.
    """
    contents, lengths = _measured(values)
    if len(numbers) != len(contents):
        raise OutOfRange(f"{len(numbers)} numbers for {len(contents)} messages")
    body = _message_set(contents, lengths, timestamps, keys, numbers, topic)
    head = _sparse_head(numbers[0], numbers[-1], len(contents))
    return finish(head, body, _codec(codec, lengths, keys), sampled=codec is None)


def make_sparse(bundle: Buffer, first: int) -> bytes:
    """Turns a dense bundle into a sparse one with numbers from `first` on; the codec stays.

    For a produce with a base number beyond the end of the log, whose gap only the bundle itself can record. A
    sparse bundle is returned unchanged. Raises InvalidBundle, OutOfRange.
    """
    header = read_header(bundle)
    if header.sparse:
        return bytes(bundle)
    messages, numbers = read_messages(bundle, header, first, MAX_MESSAGE_SET_BYTES)
    return encode_sparse(
        numbers,
        messages.values,
        timestamps=timestamp_list(messages),
        keys=messages.keys,
        codec=header.codec,
    )


def _measured(values: Sequence[Buffer | None]) -> tuple[Sequence[Buffer], list[int]]:
    """The values, with None as an empty value, and their lengths."""
    try:
        # None has no length, so the check costs nothing when there is none.
        return cast("Sequence[Buffer]", values), list(map(len, cast("Sequence[Buffer]", values)))
    except TypeError:
        contents = [b"" if value is None else value for value in values]
        return contents, list(map(len, contents))


def _count(messages: int, flags: int) -> bytes:
    """Flags (codec left open) and the count."""
    if messages <= COUNT_MASK:
        return bytes((flags | messages << COUNT_SHIFT,))
    return bytes((flags,)) + varint.encode(messages)


def _sparse_head(first: int, last: int, messages: int) -> bytes:
    if not 1 <= first <= last <= MAX_SEQUENCE_NUMBER:
        raise OutOfRange(f"sequence numbers {first} to {last} are not within 1 to {MAX_SEQUENCE_NUMBER}")
    span = varint.encode(last - first - 1) if messages > 1 else b""
    return _count(messages, SPARSE) + _U64.pack(first) + span


def _codec(codec: Codec | None, lengths: list[int], keys: Sequence[Buffer | None] | None) -> Codec:
    """The requested codec, or the one that the official client would choose."""
    if codec is not None:
        return codec
    size = sum(lengths)
    if keys is not None and size <= COMPRESS_ABOVE_BYTES:
        size += sum(map(len, filter(None, keys)))
    worth_it = size > COMPRESS_ABOVE_BYTES or len(lengths) > COMPRESS_ABOVE_MESSAGES
    return Codec.SNAPPY if worth_it else Codec.NONE


def _message_set(
    values: Sequence[Buffer],
    lengths: list[int],
    timestamps: Sequence[int] | int,
    keys: Sequence[Buffer | None] | None,
    numbers: Sequence[int] | None,
    topic: str,
) -> bytes:
    count = len(lengths)
    if not count:
        raise OutOfRange("a bundle needs at least one message")
    if keys is not None and len(keys) != count:
        raise OutOfRange(f"{len(keys)} keys for {count} messages")
    if isinstance(timestamps, int):
        stamp, alike = timestamps, True
    elif len(timestamps) != count:
        raise OutOfRange(f"{len(timestamps)} timestamps for {count} messages")
    else:
        stamp = timestamps[0]
        alike = timestamps.count(stamp) == count
    try:
        if numbers is None and alike and (keys is None or not any(keys)):
            return _plain_set(values, lengths, stamp)
        stamps = [stamp] * count if isinstance(timestamps, int) else timestamps
        if numbers is None:
            return _dense_set(values, lengths, stamps, keys)
        return _sparse_set(values, lengths, stamps, keys, numbers)
    except StructError:
        raise OutOfRange("a timestamp is no unsigned 64-bit number of milliseconds") from None
    except IndexError:
        longest = max(len(key) for key in keys or () if key)
        raise OutOfRange(key_too_long(longest, topic)) from None


def _plain_set(values: Sequence[Buffer], lengths: list[int], stamp: int) -> bytes:
    """The set of messages without keys and with one timestamp for all: the hot path."""
    first, count = lengths[0], len(lengths)
    # The first message's head differs: it has a timestamp, then the length.
    if lengths.count(first) == count:
        return _FIRST.pack(0, stamp) + varint.encode(first) + _head(first).join(values)
    parts: list[Buffer] = [b""] * (2 * count)
    parts[::2] = map(_head, lengths)
    parts[1::2] = values
    parts[0] = _FIRST.pack(0, stamp) + varint.encode(first)
    return b"".join(parts)


def _dense_set(
    values: Sequence[Buffer],
    lengths: list[int],
    stamps: Sequence[int],
    keys: Sequence[Buffer | None] | None,
) -> bytes:
    """The set of messages with keys or several timestamps. Raises IndexError for a key that is too long."""
    parts: list[Buffer] = []
    previous = -1
    each_key = repeat(None) if keys is None else keys
    for value, length, key, stamp in zip(values, lengths, each_key, stamps, strict=False):
        if stamp != previous:
            head = _FIRST.pack(KEY if key else 0, stamp)
            previous = stamp
        else:
            head = _KEYED if key else _KEYLESS
        if key:
            parts += (head, _KEY_LENGTH[len(key)], key, _length(length), value)
        else:
            parts += (head, _length(length), value)
    return b"".join(parts)


def _sparse_set(
    values: Sequence[Buffer],
    lengths: list[int],
    stamps: Sequence[int],
    keys: Sequence[Buffer | None] | None,
    numbers: Sequence[int],
) -> bytes:
    """The set of messages with numbers. Raises IndexError for a key that is too long."""
    parts: list[Buffer] = []
    previous = -1
    each_key = repeat(None) if keys is None else keys
    rows = zip(values, lengths, each_key, stamps, _number_heads(numbers), strict=False)
    for value, length, key, stamp, (flags, delta) in rows:
        flags |= (KEY if key else 0) | (SAME_TIMESTAMP if stamp == previous else 0)
        parts += (bytes((flags,)), delta)
        if stamp != previous:
            parts.append(_U64.pack(stamp))
            previous = stamp
        if key:
            parts += (_KEY_LENGTH[len(key)], key)
        parts += (_length(length), value)
    return b"".join(parts)


def key_too_long(length: int, topic: str) -> str:
    """The error's text for a key that is too long."""
    where = f" for topic {topic!r}" if topic else ""
    return (
        f"a key of {length} bytes{where}: TANK's keys hold at most {MAX_KEY_BYTES} bytes; "
        "shorten it (a hash of it, say) or carry it in the value"
    )


def _number_heads(numbers: Sequence[int]) -> list[tuple[int, bytes]]:
    """Flags and delta of each message of a sparse bundle; the first and the last have neither."""
    heads: list[tuple[int, bytes]] = [(0, b"")]
    for previous, number in pairwise(numbers):
        if number <= previous:
            raise OutOfRange(f"number {number} follows {previous}: the numbers of a sparse bundle must rise")
        distance = number - previous - 1
        heads.append((0, varint.encode(distance)) if distance else (NEXT_NUMBER, b""))
    if len(heads) > 1:
        heads[-1] = (0, b"")
    return heads
