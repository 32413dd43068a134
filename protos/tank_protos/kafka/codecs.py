"""The compression codecs of Kafka's batches: packs, and unpacks within bounds.

The headers of snappy, lz4 and zstd bound the unpacked size before memory is taken; gzip is unpacked step by
step. Data beyond the limits are refused as TOO_LARGE. Data that cannot be unpacked are refused as
INVALID_RECORD: the batch's checksum was right, so that the client sent them so.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final

import cramjam

from tank_protos.kafka import lz4_frame, zstd_frame
from tank_protos.kafka.errors import InvalidRecords, RecordsFault, invalid, too_large
from tank_protos.kafka.limits import (
    MAX_FRAMES,
    MAX_UNPACKED_BYTES,
    UNPACKED_FLOOR_BYTES,
    UNPACKED_RATIO,
)
from tank_protos.wire.buffer import Buffer


class KafkaCodec(IntEnum):
    """How records are compressed; bits 0-2 of the attributes of a batch, or of a message."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_MASK: Final = 0x07
_CODECS: Final = tuple(KafkaCodec)

_GZIP_WINDOW: Final = 31
"""zlib's number for a window of 32 KiB with gzip's header and trailer."""
_GZIP_LEVEL: Final = 6

XERIAL: Final = b"\x82SNAPPY\0"
"""The first bytes of the framing that Java's client uses for snappy. Data without them are one raw block."""
_XERIAL_VERSIONS: Final = Struct(">ii").pack(1, 1)
_XERIAL_HEAD_BYTES: Final = len(XERIAL) + len(_XERIAL_VERSIONS)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
"""The unpacked size of a block, as Java's library writes it."""
_block_length = Struct(">i")
_SNAPPY_BEST: Final = 22
"""The densest element of a snappy block: 3 bytes that copy 64."""
_SNAPPY_LENGTH_BYTES: Final = 5


def codec_of(attributes: int) -> KafkaCodec:
    """Returns the codec that the attributes name. Raises InvalidRecords for the numbers 5, 6 and 7."""
    number = attributes & CODEC_MASK
    if number >= len(_CODECS):
        raise InvalidRecords(RecordsFault.UNSUPPORTED_CODEC, f"no compression codec has the number {number}")
    return _CODECS[number]


def pack(codec: KafkaCodec, data: Buffer) -> bytes:
    """Returns the data, compressed. Snappy is in xerial's framing, and lz4 in independent blocks, because the
    oldest clients read nothing else."""
    if codec == KafkaCodec.NONE:
        return bytes(data)
    if codec == KafkaCodec.GZIP:
        packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
        return packer.compress(data) + packer.flush()
    if codec == KafkaCodec.SNAPPY:
        return _pack_snappy(memoryview(data))
    if codec == KafkaCodec.LZ4:
        return lz4_frame.pack(memoryview(data))
    return bytes(cramjam.zstd.compress(data))


def unpack(
    codec: KafkaCodec, packed: Buffer, *, max_bytes: int = MAX_UNPACKED_BYTES, mend_lz4: bool = False
) -> bytes:
    """Returns the data, uncompressed. mend_lz4: corrects the header checksum of an lz4 frame first, as
    messages of magic 0 need it.

    Raises InvalidRecords, with TOO_LARGE if the data unpack to more than `max_bytes`, or than UNPACKED_RATIO
    and UNPACKED_FLOOR_BYTES allow for their size.
    """
    if codec == KafkaCodec.NONE:
        if len(packed) > max_bytes:
            raise too_large(f"{len(packed)} bytes of records; the limit is {max_bytes}")
        return bytes(packed)
    limit = most_unpacked(len(packed), max_bytes)
    view = memoryview(packed)
    if codec == KafkaCodec.GZIP:
        return _unpack_gzip(view, limit)
    if codec == KafkaCodec.SNAPPY:
        return _unpack_snappy(view, limit)
    if codec == KafkaCodec.LZ4:
        if mend_lz4:
            view = memoryview(lz4_frame.mended(view))
        return _unpack_frames(cramjam.lz4.decompress_into, view, lz4_frame.most_unpacked(view), limit)
    return _unpack_frames(cramjam.zstd.decompress_into, view, zstd_frame.most_unpacked(view), limit)


def most_unpacked(size: int, max_bytes: int) -> int:
    """Returns the most bytes that compressed data of this size may unpack to, where the limit for all data is
    `max_bytes`."""
    return min(max_bytes, max(UNPACKED_FLOOR_BYTES, UNPACKED_RATIO * size))


def _unpack_gzip(packed: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    size, rest = 0, bytes(packed)
    for _ in range(MAX_FRAMES):
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            # One byte above the limit shows that the member is too large; a bound of 0 would mean no bound.
            part = unpacker.decompress(rest, limit - size + 1)
        except zlib.error as error:
            raise invalid(f"the records are not compressed by gzip ({error})") from None
        parts.append(part)
        size += len(part)
        if size > limit:
            raise _over(limit)
        if not unpacker.eof:
            raise invalid("the gzip member ends before its trailer")
        rest = unpacker.unused_data
        if not rest:
            return b"".join(parts)
    raise too_large(f"more than {MAX_FRAMES} gzip members")


def _unpack_frames(
    unpack_into: Callable[[memoryview, bytearray], int], packed: memoryview, most: int, limit: int
) -> bytes:
    """Unpacks into a buffer of `most` bytes, or of the limit if that is less."""
    buffer = bytearray(min(most, limit))
    try:
        size = unpack_into(packed, buffer)
    except cramjam.DecompressionError as error:
        # Both libraries use these words if the buffer is full and data are left.
        if most > limit and "whole buffer" in str(error):
            raise _over(limit) from None
        raise invalid(f"the records cannot be unpacked ({error})") from None
    return bytes(memoryview(buffer)[:size])


def _pack_snappy(data: memoryview) -> bytes:
    parts = [XERIAL, _XERIAL_VERSIONS]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_block_length.pack(len(block)), block)
    return b"".join(parts)


def _unpack_snappy(packed: memoryview, limit: int) -> bytes:
    if bytes(packed[: len(XERIAL)]) != XERIAL:
        return _unpack_block(packed, limit)
    parts: list[bytes] = []
    at, end, size = _XERIAL_HEAD_BYTES, len(packed), 0
    if at > end:
        raise invalid("the snappy frame ends inside its header")
    while at < end:
        try:
            (length,) = _block_length.unpack_from(packed, at)
        except StructError:
            raise invalid("the snappy frame ends inside the length of a block") from None
        at += _block_length.size
        if not 0 < length <= end - at:
            raise invalid(f"a snappy block of {length} bytes, where {end - at} are left")
        parts.append(_unpack_block(packed[at : at + length], limit - size))
        size += len(parts[-1])
        at += length
    return b"".join(parts)


def _unpack_block(block: memoryview, limit: int) -> bytes:
    size = shift = 0
    for byte in block[:_SNAPPY_LENGTH_BYTES]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise _over(limit)
    if size > _SNAPPY_BEST * len(block):
        raise invalid(f"{len(block)} bytes of snappy cannot unpack to {size}")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise invalid(f"the records are no snappy block ({error})") from None


def _over(limit: int) -> InvalidRecords:
    return too_large(f"the records unpack to more than {limit} bytes")
