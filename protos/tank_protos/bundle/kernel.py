"""The hot loops of bundle decoding: they read an unpacked message set into columns.

Functions of plain buffers and numbers only, each with a compiled twin. They allocate memory by the bytes that
they read, never by a header's numbers. Use `tank_protos.bundle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import SEEK_CUR, BytesIO
from itertools import repeat
from struct import Struct, iter_unpack
from struct import error as StructError
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from tank_protos.kernel import twin
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle, WireError

if TYPE_CHECKING:
    from tank_protos.wire.buffer import Buffer

Row = TypeVar("Row", bound=tuple[object, ...])

_timestamp_at = Struct("<Q").unpack_from


class MessageSet(NamedTuple):
    """A decoded message set in columns."""

    values: list[bytes]
    # None: no message has a key. Otherwise one entry per message, None for a message without key.
    keys: list[bytes | None] | None
    # Timestamps in runs: stamps[i] is valid from message starts[i] on; starts[0] is 0.
    stamps: list[int]
    starts: list[int]


@twin("bundle_kernel")
def parse_dense(data: Buffer, start: int) -> MessageSet:
    """The messages of a dense bundle from `start` to the end of `data`. Raises InvalidBundle.

    Reads the bytes as a stream: two calls into C per message cost less than indexing and slicing. A read
    beyond the end of the set is shortened; only the last read can be, and its length shows it.
    """
    data = bytes(data)
    values: list[bytes] = []
    append = values.append
    # The keys, and the indexes of their messages; likewise the first ten bytes of messages with a timestamp.
    found: list[bytes | None] = []
    keyed: list[int] = []
    heads: list[bytes] = []
    starts: list[int] = []
    stream = BytesIO(data)
    stream.seek(start)
    read = stream.read
    lengths = _LENGTHS
    length = -1
    head = b""
    untried = True
    try:
        while head := read(2):
            length = lengths[head]
            if length >= 0:
                append(read(length))
                continue
            if head[0] & 2:
                length = head[1]
            elif starts and starts[-1] == len(values) - 1:
                length = _take_stamped(head, stream, values, heads, starts, found, keyed)
                continue
            else:
                head += read(8)
                heads.append(head)
                starts.append(len(values))
                length = head[9]
            if head[0] & 1:
                keyed.append(len(values))
                found.append(read(length) or None)
                length = read(1)[0]
            if length > 0x7F:
                length = _long_length(length, read)
            append(read(length))
            if untried:
                untried = False
                length = _take_uniform(data, stream, values, length)
    except KeyError:
        _refuse_head(head)
    except IndexError:
        length = -1
    if not values or len(values[-1]) != length:
        raise InvalidBundle("the message set ends inside a message")
    if not starts or starts[0]:
        raise InvalidBundle("the first message has no timestamp of its own")
    if len(heads) == 1:
        stamps = [_timestamp_at(heads[0], 1)[0]]
    else:
        stamps = [stamp for (stamp,) in iter_unpack("<xQx", b"".join(heads))]
    return MessageSet(values, _spread_keys(found, keyed, len(values)), stamps, starts)


def _take_stamped(
    head: bytes,
    stream: BytesIO,
    values: list[bytes],
    heads: list[bytes],
    starts: list[int],
    found: list[bytes | None],
    keyed: list[int],
) -> int:
    """Takes the message whose first two bytes are `head`, and those like it behind it.

    Called when two messages in a row have timestamps of their own, so that the next is likely to have one,
    too. The next head of ten bytes is read at once, and put back when it has no timestamp. Returns the length
    that the last message should have. Raises IndexError where the set ends.
    """
    read = stream.read
    flags = head[0]
    head += read(8)
    while True:
        heads.append(head)
        starts.append(len(values))
        length = head[9]
        if flags & 1:
            keyed.append(len(values))
            found.append(read(length) or None)
            length = read(1)[0]
        if length > 0x7F:
            length = _long_length(length, read)
        values.append(read(length))
        head = read(10)
        if not head:
            return length
        if head[0] != flags:
            stream.seek(-len(head), SEEK_CUR)
            return length


@twin("bundle_kernel")
def parse_sparse(
    data: Buffer, start: int, messages: int, first: int, last: int
) -> tuple[MessageSet, list[int]]:
    """The messages of a sparse bundle from `start` to the end of `data`, and their numbers.

    Its header says `messages`, `first` and `last`. Raises InvalidBundle; the caller checks the count. An
    inner message's number is that of the message before, plus 1, plus its delta (no delta with flag 4); the
    last one's is `last`, and it has no delta.
    """
    data = bytes(data)
    end = len(data)
    values: list[bytes] = []
    numbers: list[int] = []
    found: list[bytes | None] = []
    keyed: list[int] = []
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
                if len(numbers) == messages - 1:
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
                keyed.append(len(values))
                found.append(data[at + 1 : stop] or None)
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
    return MessageSet(values, _spread_keys(found, keyed, len(values)), stamps, starts), numbers


@twin("bundle_kernel")
def tuples(
    kind: type[Row],
    numbers: Sequence[int],
    timestamps: list[int],
    keys: list[bytes | None] | None,
    values: list[bytes],
) -> list[Row]:
    """Columns as rows of a named tuple with these four places; `keys` None: no message has a key."""
    rows = zip(numbers, timestamps, repeat(None) if keys is None else keys, values, strict=False)
    return list(map(tuple.__new__, repeat(kind), rows))


def _spread_keys(found: list[bytes | None], keyed: list[int], count: int) -> list[bytes | None] | None:
    """One key (or None) for each message, from the keys and the indexes of their messages."""
    if not found:
        return None
    if len(found) == count:
        return found
    keys: list[bytes | None] = [None] * count
    for index, key in zip(keyed, found, strict=True):
        keys[index] = key
    return keys


def _long_length(length: int, read: Callable[[int], bytes]) -> int:
    """Reads the rest of a varint whose first byte is `length`."""
    length &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = read(1)[0]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length
    raise InvalidBundle("a content length is over five bytes long")


def _take_uniform(data: bytes, stream: BytesIO, values: list[bytes], length: int) -> int:
    """Takes the rest of the set at once when all its messages have the same short head.

    Two strided comparisons check that; when they fail, nothing is taken. Returns the length of the last
    message taken, or `length`.
    """
    at = stream.tell()
    if len(data) - at < 8 or data[at] != 2 or data[at + 1] > 0x7F:
        return length
    size = data[at + 1]
    stride = size + 2
    count, odd = divmod(len(data) - at, stride)
    if odd or count < 4 or data[at::stride].count(2) != count or data[at + 1 :: stride].count(size) != count:
        return length
    stream.seek(len(data))
    unpack = _BLOCKS[size] or _make_block(size)
    for _ in range(count // _BLOCK):
        values += unpack(data, at)
        at += stride * _BLOCK
    values += [data[begin + 2 : begin + stride] for begin in range(at, len(data), stride)]
    return size


def _make_block(length: int) -> Callable[[bytes, int], tuple[bytes, ...]]:
    block = Struct(f"2x{length}s" * _BLOCK).unpack_from
    _BLOCKS[length] = block
    return block


def _refuse_head(head: bytes) -> NoReturn:
    if len(head) < 2:
        raise InvalidBundle("the message set ends inside a message") from None
    raise InvalidBundle(f"unknown message flags {head[0]:#04x}") from None


def _check_end(at: int, end: int, starts: list[int]) -> None:
    if at != end:
        raise InvalidBundle("the message set ends inside a message")
    if not starts or starts[0]:
        raise InvalidBundle("the first message has no timestamp of its own")


def _lengths() -> dict[bytes, int]:
    """The length of a message by its first two bytes, when these are its whole head; else -1."""
    return {
        bytes((flags, second)): second if flags in (2, 6) and second < 0x80 else -1
        for flags in range(8)
        for second in range(256)
    }


_LENGTHS = _lengths()
# How many messages of one length one call takes; the functions are made when first needed, by length.
_BLOCK = 16
_BLOCKS: list[Callable[[bytes, int], tuple[bytes, ...]] | None] = [None] * 128
