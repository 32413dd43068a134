"""Frames of lz4: writes them as Kafka's clients do, bounds their unpacked size, and mends their headers.

A frame is `magic u32, flags, block size, [content size u64], [dictionary u32], header checksum`, then blocks
`size u32, bytes, [checksum u32]` up to a size of 0, then `[checksum u32]`; little-endian. The highest bit of
a block's size says that the block is not compressed. The header checksum is the second byte of the xxh32 of
the bytes between the magic and the checksum. In messages of magic 0 it is wrong: an old mistake of Kafka's
clients includes the magic.
"""

from struct import Struct
from struct import error as StructError
from typing import Final

import cramjam

from tank_protos.kafka.errors import invalid, too_large
from tank_protos.kafka.limits import MAX_FRAMES
from tank_protos.kafka.xxh32 import xxh32

MAGIC: Final = bytes.fromhex("04224d18")
_DESCRIPTOR_AT: Final = len(MAGIC)
# The flags: the version (01), and the optional parts.
_VERSION_MASK: Final = 0xC0
_VERSION: Final = 0x40
_INDEPENDENT: Final = 0x20
_BLOCK_CHECKSUMS: Final = 0x10
_CONTENT_SIZE: Final = 0x08
_CONTENT_CHECKSUM: Final = 0x04
_DICTIONARY: Final = 0x01
_CHECKSUM_BYTES: Final = 4
_BLOCK_SIZES: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
"""The most that a block unpacks to, by bits 4-6 of the byte behind the flags."""
_BEST: Final = 255
"""The most unpacked bytes for a packed one: a byte of a length counts 255."""
_PLAIN: Final = 1 << 31
_size = Struct("<I")

_WRITTEN_BLOCK_BYTES: Final = _BLOCK_SIZES[4]
_WRITTEN_DESCRIPTOR: Final = bytes((_VERSION | _INDEPENDENT, 4 << 4))


def _checksum(descriptor: bytes) -> int:
    return xxh32(descriptor) >> 8 & 0xFF


_WRITTEN_HEAD: Final = MAGIC + _WRITTEN_DESCRIPTOR + bytes((_checksum(_WRITTEN_DESCRIPTOR),))


def pack(data: memoryview) -> bytes:
    """Returns one frame with independent blocks of 64 KiB and without checksums of its content, as Java's
    client writes it."""
    parts: list[bytes | memoryview] = [_WRITTEN_HEAD]
    for start in range(0, len(data), _WRITTEN_BLOCK_BYTES):
        block = data[start : start + _WRITTEN_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_size.pack(len(packed)), packed)
        else:
            parts += (_size.pack(len(block) | _PLAIN), block)
    parts.append(bytes(_size.size))
    return b"".join(parts)


def mended(packed: memoryview) -> bytes:
    """Returns the frame with the right header checksum. Raises InvalidRecords."""
    _, _, checksum_at = _head(packed, 0)
    frame = bytearray(packed)
    frame[checksum_at] = _checksum(bytes(packed[_DESCRIPTOR_AT:checksum_at]))
    return bytes(frame)


def most_unpacked(packed: memoryview) -> int:
    """Returns the most that the frames in `packed` can unpack to, by the sizes of their blocks.

    Raises InvalidRecords if a frame is cut, or the bytes are no frames.
    """
    if not len(packed):
        raise invalid("compressed records without a frame of lz4")
    most = at = frames = 0
    try:
        while at < len(packed):
            frames += 1
            if frames > MAX_FRAMES:
                raise too_large(f"more than {MAX_FRAMES} frames of lz4")
            flags, block_bytes, checksum_at = _head(packed, at)
            at = checksum_at + 1
            while size := _size.unpack_from(packed, at)[0]:
                length = size & ~_PLAIN
                most += length if size & _PLAIN else min(block_bytes, _BEST * length)
                at += _size.size + length + (_CHECKSUM_BYTES if flags & _BLOCK_CHECKSUMS else 0)
            at += _size.size + (_CHECKSUM_BYTES if flags & _CONTENT_CHECKSUM else 0)
    except StructError:
        at = len(packed) + 1
    if at > len(packed):
        raise invalid("the lz4 frame ends inside a block")
    return most


def _head(packed: memoryview, at: int) -> tuple[int, int, int]:
    """Returns a frame's flags, the most that each block unpacks to, and the place of its header checksum."""
    if bytes(packed[at : at + len(MAGIC)]) != MAGIC or len(packed) - at < len(_WRITTEN_HEAD):
        raise invalid("the records are no frame of lz4")
    flags, sizes = packed[at + _DESCRIPTOR_AT], packed[at + _DESCRIPTOR_AT + 1]
    block_bytes = _BLOCK_SIZES.get(sizes >> 4)
    if flags & _VERSION_MASK != _VERSION or block_bytes is None:
        raise invalid(f"an lz4 frame with the unknown flags {flags:#04x} {sizes:#04x}")
    if flags & _DICTIONARY:
        raise invalid("an lz4 frame that needs a dictionary")
    checksum_at = at + _DESCRIPTOR_AT + 2 + (8 if flags & _CONTENT_SIZE else 0)
    if checksum_at >= len(packed):
        raise invalid("the lz4 frame ends inside its header")
    return flags, block_bytes, checksum_at
