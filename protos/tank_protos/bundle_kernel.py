"""The hot loops of bundle decoding: an unpacked message set in, columns out.

Functions of plain bytes and numbers only, so that a compiled module can stand in their place. They never
allocate by what a header claims, only by the bytes they walk over. Use `tank_protos.bundle`.
"""

from __future__ import annotations

from struct import Struct, iter_unpack
from struct import error as StructError
from typing import NamedTuple

from tank_protos import varint
from tank_protos.errors import InvalidBundle, WireError

_timestamp_at = Struct("<Q").unpack_from


class MessageSet(NamedTuple):
    """A decoded message set in columns."""

    values: list[bytes]
    # None: no message has a key. Else one entry a message, None where there is none.
    keys: list[bytes | None] | None
    # Timestamps in runs: stamps[i] holds from message starts[i] on; starts[0] is 0.
    stamps: list[int]
    starts: list[int]


def parse_dense(data: bytes, start: int, end: int) -> MessageSet:
    """The messages of a dense bundle between `start` and `end` of `data`. Raises InvalidBundle."""
    values: list[bytes] = []
    append = values.append
    keys: list[bytes | None] | None = None
    stamps: list[int] = []
    starts: list[int] = []
    at = start
    uniform_untried = True
    try:
        while at < end:
            flags = data[at]
            length = data[at + 1]
            if flags == 2 and length < 0x80:
                # A short message without key that shares the timestamp: nearly all of them. A slice that
                # would leave the set is cut short by Python, and found by the check behind the loop.
                stop = at + 2 + length
                append(data[at + 2 : stop])
                at = stop
                if uniform_untried:
                    uniform_untried = False
                    at = _take_uniform(data, at, end, length, values)
                continue
            if flags > 7:
                raise InvalidBundle(f"unknown message flags {flags:#04x}")
            at += 1
            if not flags & 2:
                stamps.append(_timestamp_at(data, at)[0])
                starts.append(len(values))
                at += 8
            if flags & 1:
                stop = at + 1 + data[at]
                if keys is None:
                    keys = []
                keys.extend([None] * (len(values) - len(keys)))
                keys.append(data[at + 1 : stop] or None)
                at = stop
            length = data[at]
            at += 1
            if length > 0x7F:
                length, at = varint.read(data, at - 1)
            stop = at + length
            append(data[at:stop])
            at = stop
    except InvalidBundle:
        raise
    except (IndexError, StructError, WireError):
        at = end + 1
    _check_end(at, end, starts)
    if keys is not None:
        keys.extend([None] * (len(values) - len(keys)))
    return MessageSet(values, keys, stamps, starts)


def parse_sparse(
    data: bytes, start: int, end: int, count: int, first: int, last: int
) -> tuple[MessageSet, list[int]]:
    """The messages of a sparse bundle of `count` messages, and their numbers. Raises InvalidBundle.

    An inner message's number is the one before plus 1 plus its delta (no delta with flag 4); the last one's
    is `last`, and it has no delta.
    """
    values: list[bytes] = []
    numbers: list[int] = []
    keys: list[bytes | None] | None = None
    stamps: list[int] = []
    starts: list[int] = []
    at = start
    number = first - 1
    try:
        while at < end:
            flags = data[at]
            at += 1
            if flags > 7:
                raise InvalidBundle(f"unknown message flags {flags:#04x}")
            number += 1
            if not flags & 4 and numbers:
                if len(numbers) == count - 1:
                    number = max(number, last)
                else:
                    delta, at = varint.read(data, at)
                    number += delta
            numbers.append(number)
            if not flags & 2:
                stamps.append(_timestamp_at(data, at)[0])
                starts.append(len(values))
                at += 8
            if flags & 1:
                stop = at + 1 + data[at]
                if keys is None:
                    keys = []
                keys.extend([None] * (len(values) - len(keys)))
                keys.append(data[at + 1 : stop] or None)
                at = stop
            length = data[at]
            at += 1
            if length > 0x7F:
                length, at = varint.read(data, at - 1)
            stop = at + length
            values.append(data[at:stop])
            at = stop
    except InvalidBundle:
        raise
    except (IndexError, StructError, WireError):
        at = end + 1
    _check_end(at, end, starts)
    if number != last:
        raise InvalidBundle(f"the numbers of a sparse bundle end at {number}, its header says {last}")
    if keys is not None:
        keys.extend([None] * (len(values) - len(keys)))
    return MessageSet(values, keys, stamps, starts), numbers


def _take_uniform(data: bytes, at: int, end: int, length: int, values: list[bytes]) -> int:
    """Takes the rest of the set at one stroke when it is nothing but messages with this very head.

    Two strided comparisons prove it; when they fail nothing has been done.
    """
    stride = length + 2
    count, odd = divmod(end - at, stride)
    if odd or count < 4:
        return at
    if data[at:end:stride] != b"\x02" * count or data[at + 1 : end : stride] != bytes((length,)) * count:
        return at
    values += [value for (value,) in iter_unpack(f"2x{length}s", memoryview(data)[at:end])]
    return end


def _check_end(at: int, end: int, starts: list[int]) -> None:
    if at != end:
        raise InvalidBundle("the message set ends inside a message")
    if not starts or starts[0]:
        raise InvalidBundle("the first message has no timestamp of its own")
