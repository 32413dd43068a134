"""Bounds the unpacked size of Zstandard's frames by their headers.

A frame is `magic u32, descriptor, [window], [dictionary], [content size]`, then blocks with three bytes of
header (bit 0: the last one, bits 1-2: its type, the rest: its size), then `[checksum u32]`; little-endian.
A skippable frame is `magic u32, size u32` and as many bytes, which have no meaning.
"""

from typing import Final

from tank_protos.kafka.errors import invalid, too_large
from tank_protos.kafka.limits import MAX_FRAMES, ZSTD_WINDOW_BYTES

MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
_SKIPPABLE_MASK: Final = 0xFFFFFFF0
_MAGIC_BYTES: Final = 4
_SINGLE_SEGMENT: Final = 0x20
_RESERVED: Final = 0x08
_CHECKSUM: Final = 0x04
_DICTIONARY_MASK: Final = 0x03
_CONTENT_SIZE_SHIFT: Final = 6
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_SHORT_CONTENT_SIZE: Final = 256
"""A content size in two bytes counts from here."""
_SMALLEST_WINDOW_BITS: Final = 10
_BLOCK_HEADER_BYTES: Final = 3
_MOST_BLOCK_BYTES: Final = 128 << 10
_RLE: Final = 1
_COMPRESSED: Final = 2


def most_unpacked(packed: memoryview) -> int:
    """Returns the most that the frames in `packed` can unpack to, by the sizes of their blocks.

    Raises InvalidRecords if a frame is cut, the bytes are no frames, or a window is above ZSTD_WINDOW_BYTES.
    """
    most = at = frames = skipped = 0
    while at < len(packed):
        if frames + skipped >= MAX_FRAMES:
            raise too_large(f"more than {MAX_FRAMES} frames of zstd")
        magic = _number(packed, at, _MAGIC_BYTES)
        at += _MAGIC_BYTES
        if magic & _SKIPPABLE_MASK == _SKIPPABLE:
            at += _MAGIC_BYTES + _number(packed, at, _MAGIC_BYTES)
            skipped += 1
        elif magic == MAGIC:
            frame, at = _frame(packed, at)
            most += frame
            frames += 1
        else:
            raise invalid("the records are no frame of zstd")
    if at > len(packed) or not frames:
        raise invalid("the zstd frame is cut")
    return most


def _frame(packed: memoryview, at: int) -> tuple[int, int]:
    """Returns the most that a frame unpacks to, and the place of its end. `at`: the place behind its
    magic."""
    descriptor = _number(packed, at, 1)
    at += 1
    if descriptor & (_RESERVED | _DICTIONARY_MASK):
        raise invalid("a zstd frame that needs a dictionary, or has unknown flags")
    window = 0
    if not descriptor & _SINGLE_SEGMENT:
        window, at = _window(_number(packed, at, 1)), at + 1
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> _CONTENT_SIZE_SHIFT]
    if descriptor & _SINGLE_SEGMENT:
        size_bytes = size_bytes or 1
    size = _number(packed, at, size_bytes) + (_SHORT_CONTENT_SIZE if size_bytes == 2 else 0)
    at += size_bytes
    block_bytes = min(window or size, _MOST_BLOCK_BYTES)
    if (window or size) > ZSTD_WINDOW_BYTES:
        raise too_large(f"a zstd frame with a window of {window or size} bytes")
    most, at = _blocks(packed, at, block_bytes)
    if descriptor & _CHECKSUM:
        at += _MAGIC_BYTES
    return min(most, size) if size_bytes else most, at


def _window(descriptor: int) -> int:
    base = 1 << (_SMALLEST_WINDOW_BITS + (descriptor >> 3))
    return base + base // 8 * (descriptor & 7)


def _blocks(packed: memoryview, at: int, block_bytes: int) -> tuple[int, int]:
    """Returns the most that a frame's blocks unpack to, and the place of their end."""
    most = 0
    while True:
        header = _number(packed, at, _BLOCK_HEADER_BYTES)
        at += _BLOCK_HEADER_BYTES
        kind, size = header >> 1 & 3, header >> 3
        if size > _MOST_BLOCK_BYTES or kind > _COMPRESSED:
            raise invalid(f"a zstd block of {size} bytes and type {kind}")
        most += block_bytes if kind == _COMPRESSED else size
        at += 1 if kind == _RLE else size
        if header & 1:
            return most, at


def _number(packed: memoryview, at: int, length: int) -> int:
    if at + length > len(packed):
        raise invalid("the zstd frame is cut")
    return int.from_bytes(packed[at : at + length], "little")
