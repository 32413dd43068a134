"""TANK's variable-length integers: unsigned 32-bit LEB128, the same as protobuf's.

Each byte has seven bits, the least significant group first, and its high bit set when more bytes follow;
there are at most five bytes. 127 is `7f`, 300 is `ac 02`, 2^32 - 1 is `ff ff ff ff 0f`.
"""

from __future__ import annotations

from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange, Truncated

MAX_VALUE = 0xFFFF_FFFF
MAX_BYTES = 5

_ONE_BYTE = tuple(bytes([value]) for value in range(128))


def encode(value: int) -> bytes:
    """The shortest form of `value`, 1 to 5 bytes. Raises OutOfRange unless 0 <= value < 2^32."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not 0 <= value <= MAX_VALUE:
        raise OutOfRange(f"{value} does not fit a varint: it holds 0 to {MAX_VALUE}")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read(buffer: Buffer, offset: int) -> tuple[int, int]:
    """Returns the value at `offset`, and the offset behind it.

    Forms longer than needed (`80 00`) are accepted, as by every reader of the format. Raises Truncated when
    the buffer ends first, OutOfRange for a value above 2^32 - 1 or more than five bytes.
    """
    try:
        byte = buffer[offset]
        offset += 1
        if byte < 0x80:
            return byte, offset
        value = byte & 0x7F
        for shift in (7, 14, 21, 28):
            byte = buffer[offset]
            offset += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > MAX_VALUE:
                    raise OutOfRange(f"varint {value} is above {MAX_VALUE}")
                return value, offset
    except IndexError:
        raise Truncated("the bytes end inside a varint") from None
    raise OutOfRange(f"a varint is longer than {MAX_BYTES} bytes")


def size(value: int) -> int:
    """How many bytes `encode(value)` has; `value` must be in range."""
    return 1 if value < 0x80 else (value.bit_length() + 6) // 7
