"""Messages to bundles, dense or sparse, and a dense bundle to a sparse one; for clients, mirrors, compaction.

The format is described in `docs/protocol/bundle.md`. Use it through `tank_protos.bundle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, cast

import cramjam

from tank_protos import varint
from tank_protos.bundle_decode import read_messages, timestamp_list
from tank_protos.bundle_header import (
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
from tank_protos.errors import OutOfRange

if TYPE_CHECKING:
    from tank_protos.wire import Buffer

# The official client compresses a bundle of more messages than this, or of more bytes in keys and contents.
COMPRESS_ABOVE_MESSAGES = 512
COMPRESS_ABOVE_BYTES = 1024

_U64 = Struct("<Q")
_FIRST = Struct("<BQ")


class _Heads(dict[int, bytes]):
    """`flags 02, varint length` by length: the head of a message without key that shares the timestamp.

    Filled as lengths are met; bounded, for contents come in as many lengths as they like.
    """

    LIMIT = 16384

    def __missing__(self, length: int) -> bytes:
        head = b"\x02" + varint.encode(length)
        if length < self.LIMIT:
            self[length] = head
        return head


_head = _Heads().__getitem__


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
    official client does (more than 512 messages, or more than 1,024 bytes of keys and contents); a message
    set that snappy does not make smaller, or that is over MAX_MESSAGE_SET_BYTES, is left plain whatever was
    asked. The same input gives the same bytes. Raises OutOfRange: no messages, columns of different lengths,
    a timestamp that is no u64, a key over 255 bytes (the message names `topic`).
    """
    contents = _contents(values)
    body = _message_set(contents, timestamps, keys, None, topic)
    return _finish(_count(len(contents), 0), body, contents, keys, codec)


def encode_sparse(
    numbers: Sequence[int],
    values: Sequence[Buffer | None],
    *,
    timestamps: Sequence[int] | int,
    keys: Sequence[Buffer | None] | None = None,
    codec: Codec | None = None,
    topic: str = "",
) -> bytes:
    """A sparse bundle: each message has the number given for it; else as `encode`.

    Numbers rise, from 1 to MAX_SEQUENCE_NUMBER, and any two neighbours, and the first and last, are less than
    2^32 apart. Raises OutOfRange.
    """
    contents = _contents(values)
    if len(numbers) != len(contents):
        raise OutOfRange(f"{len(numbers)} numbers for {len(contents)} messages")
    body = _message_set(contents, timestamps, keys, numbers, topic)
    return _finish(_sparse_head(numbers[0], numbers[-1], len(contents)), body, contents, keys, codec)


def make_sparse(bundle: Buffer, first: int) -> bytes:
    """A dense bundle as a sparse one whose messages are numbered from `first` on; compressed as it was.

    For a produce with a base number beyond the end of the log: the gap must be told by the bundle itself. A
    sparse bundle comes back as it is. Raises InvalidBundle, OutOfRange.
    """
    header = read_header(bundle)
    if header.sparse:
        return bytes(bundle)
    messages, _ = read_messages(bundle, first, MAX_MESSAGE_SET_BYTES)
    numbers = range(first, first + header.messages)
    body = _message_set(messages.values, timestamp_list(messages), messages.keys, numbers, "")
    return _finish(_sparse_head(first, numbers[-1], header.messages), body, (), None, header.codec)


def _contents(values: Sequence[Buffer | None]) -> Sequence[Buffer]:
    if None in values:
        return [b"" if value is None else value for value in values]
    return cast("Sequence[Buffer]", values)


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


def _finish(
    head: bytes,
    body: bytes,
    values: Sequence[Buffer],
    keys: Sequence[Buffer | None] | None,
    codec: Codec | None,
) -> bytes:
    if codec is None and not _worth_packing(values, keys):
        codec = Codec.NONE
    if codec != Codec.NONE and len(body) <= MAX_MESSAGE_SET_BYTES:
        packed = cramjam.snappy.compress_raw(body)
        if len(packed) < len(body):
            return b"".join((bytes((head[0] | Codec.SNAPPY,)), head[1:], packed))
    return head + body


def _worth_packing(values: Sequence[Buffer], keys: Sequence[Buffer | None] | None) -> bool:
    if len(values) > COMPRESS_ABOVE_MESSAGES:
        return True
    size = sum(map(len, values)) + (sum(map(len, filter(None, keys))) if keys is not None else 0)
    return size > COMPRESS_ABOVE_BYTES


def _message_set(
    values: Sequence[Buffer],
    timestamps: Sequence[int] | int,
    keys: Sequence[Buffer | None] | None,
    numbers: Sequence[int] | None,
    topic: str,
) -> bytes:
    count = len(values)
    if not count:
        raise OutOfRange("a bundle needs at least one message")
    if keys is not None and len(keys) != count:
        raise OutOfRange(f"{len(keys)} keys for {count} messages")
    if isinstance(timestamps, int):
        stamp = timestamps
        alike = True
    else:
        if len(timestamps) != count:
            raise OutOfRange(f"{len(timestamps)} timestamps for {count} messages")
        stamp = timestamps[0]
        alike = timestamps.count(stamp) == count
    try:
        if numbers is None and alike and (keys is None or not any(keys)):
            return _plain_set(values, stamp)
        stamps = [stamp] * count if isinstance(timestamps, int) else timestamps
        return _general_set(values, stamps, keys, numbers, topic)
    except StructError:
        raise OutOfRange("a timestamp is no unsigned 64-bit number of milliseconds") from None


def _plain_set(values: Sequence[Buffer], stamp: int) -> bytes:
    """Without keys, with one timestamp for all: the hot path."""
    lengths = list(map(len, values))
    first = lengths[0]
    if lengths.count(first) == len(lengths):
        return _FIRST.pack(0, stamp) + varint.encode(first) + _head(first).join(values)
    heads = map(_head, lengths)
    # The first message's head is another one: its own timestamp, then the length.
    next(heads)
    tail = b"".join(chain.from_iterable(zip(heads, values[1:], strict=True)))
    return b"".join((_FIRST.pack(0, stamp), varint.encode(first), values[0], tail))


def _general_set(
    values: Sequence[Buffer],
    timestamps: Sequence[int],
    keys: Sequence[Buffer | None] | None,
    numbers: Sequence[int] | None,
    topic: str,
) -> bytes:
    parts: list[Buffer] = []
    append = parts.append
    previous = None
    inner = _number_heads(numbers) if numbers is not None else None
    for index, value in enumerate(values):
        flags, delta = inner[index] if inner is not None else (0, b"")
        key = keys[index] if keys is not None else None
        stamp = timestamps[index]
        if key:
            flags |= KEY
            if len(key) > MAX_KEY_BYTES:
                raise OutOfRange(key_too_long(len(key), topic))
        if stamp == previous:
            append(bytes((flags | SAME_TIMESTAMP,)) + delta)
        else:
            append(bytes((flags,)) + delta + _U64.pack(stamp))
            previous = stamp
        if key:
            append(bytes((len(key),)))
            append(key)
        append(varint.encode(len(value)))
        append(value)
    return b"".join(parts)


def key_too_long(length: int, topic: str) -> str:
    """The sentence about a key that does not fit."""
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
