"""Reads the head of a TANK bundle, and checks a bundle without decoding its messages.

The format is described in `docs/protocol/bundle.md`. Use it through `tank_protos.bundle`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tank_protos.kernel import twin
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle, Truncated, WireError

if TYPE_CHECKING:
    from tank_protos.wire.buffer import Buffer

# Message flags, the first byte of each message.
KEY: Final = 1
SAME_TIMESTAMP: Final = 2
NEXT_NUMBER: Final = 4
_LARGEST_FLAGS: Final = KEY | SAME_TIMESTAMP | NEXT_NUMBER

# Bundle flags, the first byte of a bundle.
CODEC_MASK: Final = 0x03
COUNT_SHIFT: Final = 2
COUNT_MASK: Final = 0x0F
SPARSE: Final = 0x40
RESERVED: Final = 0x80

MAX_KEY_BYTES: Final = 255
# Numbers travel as u64, but offsets of Kafka, Spark and Arrow are signed: nothing above is accepted or
# written.
MAX_SEQUENCE_NUMBER: Final = (1 << 63) - 2
# The greatest unpacked size of a message set: the most that a consumer can request at once (fetch_size is
# clamped to 64 MiB), so that a compressed bundle needs no more memory than a plain chunk.
MAX_MESSAGE_SET_BYTES: Final = 64 * 1024 * 1024
# The densest element of a snappy block: 3 bytes that copy 64. A block that announces more is malformed.
_SNAPPY_BEST: Final = 22
# The bits of a snappy element's first byte that are 0 when its bytes follow; otherwise it copies earlier
# ones.
_SNAPPY_KIND: Final = 0x03
# Flags, timestamp and length of a first message without key and content; flags and length of a later one.
_FIRST_MESSAGE_BYTES: Final = 10
_MESSAGE_BYTES: Final = 2

_U64 = Struct("<Q")


class Codec(IntEnum):
    """How the message set of a bundle is compressed; bits 0-1 of its flags."""

    NONE = 0
    SNAPPY = 1


# A global is faster than the lookup of an enum member.
_NONE, _SNAPPY = Codec.NONE, Codec.SNAPPY


class BundleHeader(NamedTuple):
    """The fields of a bundle's head. A tuple, because it is faster than a dataclass, and the broker makes one
    for every produce.
    """

    codec: Codec
    # At least 1.
    messages: int
    sparse: bool
    # Numbers of the first and last message; 0 and 0 when the bundle is dense (the log numbers it).
    first: int
    last: int
    # The offset of the message set in the buffer.
    body_offset: int

    @property
    def span(self) -> int:
        """Last number minus first, for dense and sparse bundles alike."""
        return self.last - self.first if self.sparse else self.messages - 1


@twin("bundle_header")
def read_header(bundle: Buffer, offset: int = 0) -> BundleHeader:
    """The header of the bundle that lies from `offset` to the end of the buffer.

    Checks the header: known flags, at least one message, numbers that rise and are in range, a message set
    that is long enough for its count, and, when it is compressed, an announced size that is possible and
    below MAX_MESSAGE_SET_BYTES. Raises InvalidBundle.
    """
    try:
        return _read_header(bundle, offset, len(bundle))
    except InvalidBundle:
        raise
    except (WireError, IndexError) as error:
        raise InvalidBundle(f"the bundle ends inside its header ({error})") from None


def _read_header(bundle: Buffer, offset: int, end: int) -> BundleHeader:
    flags = bundle[offset]
    offset += 1
    if flags & RESERVED:
        raise InvalidBundle("bit 7 of the bundle flags is reserved")
    if flags & CODEC_MASK > 1:
        raise InvalidBundle(
            f"unknown compression codec {flags & CODEC_MASK}; known are 0 (none) and 1 (snappy)"
        )
    messages = flags >> COUNT_SHIFT & COUNT_MASK
    if not messages:
        messages = bundle[offset]
        offset += 1
        if messages > 0x7F:
            messages, offset = varint.read(bundle, offset - 1)
        if not messages:
            raise InvalidBundle("a bundle without messages")
    first = last = 0
    if flags & SPARSE:
        if offset + 8 > end:
            raise InvalidBundle("the bundle ends inside its first number")
        last = first = _U64.unpack_from(bundle, offset)[0]
        offset += 8
        if messages > 1:
            span, offset = varint.read(bundle, offset)
            last = first + span + 1
        if not 1 <= first <= last <= MAX_SEQUENCE_NUMBER:
            raise InvalidBundle(
                f"sequence numbers {first} to {last} are not within 1 to {MAX_SEQUENCE_NUMBER}"
            )
        if last - first + 1 < messages:
            raise InvalidBundle(f"{messages} messages do not fit the numbers {first} to {last}")
    if flags & CODEC_MASK:
        codec, size = _SNAPPY, unpacked_bytes(bundle, offset)
    else:
        codec, size = _NONE, end - offset
    if size < _FIRST_MESSAGE_BYTES + _MESSAGE_BYTES * (messages - 1):
        raise InvalidBundle(f"a message set of {size} bytes is too short for {messages} messages")
    # Takes half the time of BundleHeader(...), which matters for a million of them.
    return tuple.__new__(BundleHeader, (codec, messages, flags & SPARSE != 0, first, last, offset))


def unpacked_bytes(bundle: Buffer, body_offset: int, max_bytes: int = MAX_MESSAGE_SET_BYTES) -> int:
    """The unpacked size that a snappy message set announces, in bytes.

    Raises InvalidBundle when that is above `max_bytes` or more than its compressed bytes can give, so that a
    false size costs no memory.
    """
    try:
        size, _ = varint.read(bundle, body_offset)
    except WireError as error:
        raise InvalidBundle(f"the size of the compressed message set is unreadable ({error})") from None
    if size > max_bytes:
        raise InvalidBundle(f"the message set unpacks to {size} bytes; the limit is {max_bytes}")
    if size > _SNAPPY_BEST * (len(bundle) - body_offset):
        raise InvalidBundle(f"{len(bundle) - body_offset} compressed bytes cannot unpack to {size}")
    return size


def _simple_headers() -> list[list[BundleHeader | None]]:
    """Headers of dense, uncompressed bundles of 1 to 15 messages, by [offset of the bundle][flags].

    Headers are immutable, and nearly every small produce has one of these: they are looked up, not made.
    """
    return [
        [
            BundleHeader(Codec.NONE, flags >> COUNT_SHIFT, False, 0, 0, offset + 1)
            if flags < SPARSE and flags & CODEC_MASK == 0 and flags
            else None
            for flags in range(256)
        ]
        for offset in range(varint.MAX_BYTES + 1)
    ]


_SIMPLE = _simple_headers()


@twin("bundle_header")
def validate(batch: memoryview, walk: bool = False) -> BundleHeader:
    """Checks a produced batch, `varint length, bundle`, without decoding its messages; for the broker.

    Checks that the length is that of the bundle, everything that `read_header` checks, and, uncompressed,
    that the first message has a timestamp of its own; with `walk`, also from length to length that there are
    as many messages as the header says, with the numbers that it says, and nothing behind them: then readers
    take an uncompressed bundle. A compressed message set must begin as a snappy block does; more can be known
    only by unpacking. `body_offset` of the returned header counts from the start of the batch. Raises
    InvalidBundle.
    """
    try:
        length = batch[0]
        offset = 1
        if length > 0x7F:
            # Bundles of up to 16 KiB have two bytes of length; the function call is for other lengths.
            if (second := batch[1]) < 0x80:
                length, offset = length & 0x7F | second << 7, 2
            else:
                length, offset = varint.read(batch, 0)
        if offset + length != len(batch):
            raise InvalidBundle(f"the batch says {length} bytes and brings {len(batch) - offset}")
        header = _SIMPLE[offset][batch[offset]]
        if header is None:
            header = _read_header(batch, offset, len(batch))
        elif length < 9 + 2 * header.messages:
            raise InvalidBundle(f"a bundle of {length} bytes is too short for {header.messages} messages")
        if header.codec:
            _check_block(batch, header.body_offset)
        elif batch[header.body_offset] & ~(KEY | NEXT_NUMBER):
            raise InvalidBundle("the first message has no timestamp of its own, or unknown flags")
        elif walk:
            _walk(batch, header)
    except InvalidBundle:
        raise
    except (WireError, IndexError) as error:
        raise InvalidBundle(f"the batch ends inside its header ({error})") from None
    return header


def _check_block(batch: Buffer, offset: int) -> None:
    """Checks that a snappy block's first element contains bytes, because there are none to copy yet."""
    _, at = varint.read(batch, offset)
    if batch[at] & _SNAPPY_KIND:
        raise InvalidBundle("the message set is no snappy block: it begins with a copy of nothing")


def _walk(batch: Buffer, header: BundleHeader) -> None:
    """Walks from message to message, by their lengths, to the end. Raises InvalidBundle."""
    at, end, last_index = header.body_offset, len(batch), header.messages - 1
    number = header.first - 1
    try:
        for index in range(header.messages):
            flags = batch[at]
            at += 1
            if flags > _LARGEST_FLAGS:
                raise InvalidBundle(f"unknown message flags {flags:#04x}")
            number += 1
            if header.sparse and index and not flags & NEXT_NUMBER:
                if index == last_index:
                    number = max(number, header.last)
                else:
                    delta, at = varint.read(batch, at)
                    number += delta
            if not flags & SAME_TIMESTAMP:
                at += 8
            if flags & KEY:
                at += 1 + batch[at]
            length = batch[at]
            at += 1
            if length > 0x7F:
                length, at = varint.read(batch, at - 1)
            at += length
    except InvalidBundle:
        raise
    except (WireError, IndexError):
        at = end + 1
    if at > end:
        raise InvalidBundle(f"the bundle ends inside one of the {header.messages} messages of its header")
    if at < end:
        raise InvalidBundle(f"{end - at} bytes follow the {header.messages} messages of the bundle's header")
    if header.sparse and number != header.last:
        raise InvalidBundle(f"the numbers of a sparse bundle end at {number}, its header says {header.last}")


def first_timestamp_ms(batch: Buffer, header: BundleHeader) -> int | None:
    """The first message's timestamp, u64 milliseconds; None when the bundle is compressed.

    `header` is the result of `validate` or `read_header` for the same buffer.
    """
    if header.codec:
        return None
    timestamp: int = _U64.unpack_from(batch, header.body_offset + 1)[0]
    return timestamp


def max_timestamp_ms(batch: Buffer, header: BundleHeader) -> int | None:
    """The greatest timestamp of an uncompressed bundle of one message; None for any other, which would have
    to be read.
    """
    return first_timestamp_ms(batch, header) if header.messages == 1 else None


def as_batch(bundle: Buffer) -> bytes:
    """`varint length, bundle`: as a bundle lies in requests, chunks and segments."""
    return b"".join((varint.encode(len(bundle)), bundle))


def bundles(chunk: Buffer) -> Iterator[memoryview]:
    """The bundles of a chunk, `{varint length, bundle}*`, as slices of it.

    A partial last bundle is left out, because brokers of the old document cut chunks at the fetch size.
    Raises InvalidBundle for a malformed length (over five bytes, or 0).
    """
    view = memoryview(chunk)
    offset, end = 0, len(view)
    while offset < end:
        length = view[offset]
        if 0 < length < 0x80:
            offset += 1
        else:
            try:
                length, offset = varint.read(view, offset)
            except Truncated:
                return
            except WireError as error:
                raise InvalidBundle(f"a chunk holds no bundle length where one should be ({error})") from None
            if not length:
                raise InvalidBundle("a chunk holds a bundle of length 0")
        if offset + length > end:
            return
        yield view[offset : offset + length]
        offset += length
