"""Kafka's variable-length integers inside records: zigzag, seven bits a byte, the least significant first.

Zigzag puts the sign into the lowest bit: 0, -1, 1, -2 are `00`, `01`, `02`, `03`. An i32 takes five bytes at
most, an i64 ten.
"""

from __future__ import annotations

from typing import Final

from tank_protos.kafka.errors import invalid
from tank_protos.wire.buffer import Buffer

I32_BYTES: Final = 5
I64_BYTES: Final = 10
_U32_END: Final = 1 << 32
_U64_END: Final = 1 << 64

_SMALL: Final = tuple(
    bytes((raw,)) if raw < 0x80 else bytes((raw & 0x7F | 0x80, raw >> 7)) for raw in range(1 << 11)
)
"""The forms of -1024 to 1023: most lengths and deltas are among them."""


def encode(value: int) -> bytes:
    """Returns the shortest form of a signed value, which must fit an i64."""
    raw = value << 1 if value >= 0 else (~value << 1) | 1
    if raw < len(_SMALL):
        return _SMALL[raw]
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def read_i32(data: Buffer, at: int) -> tuple[int, int]:
    """Returns the i32 at place `at`, and the place behind it. Raises InvalidRecords if it is longer than an
    i32, and IndexError if the data end first."""
    raw = data[at]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), at + 1
    # Lengths of contents mostly have two bytes.
    second = data[at + 1]
    if second < 0x80:
        raw = raw & 0x7F | second << 7
        return (raw >> 1) ^ -(raw & 1), at + 2
    raw, at = _read_raw(data, at, I32_BYTES, _U32_END)
    return (raw >> 1) ^ -(raw & 1), at


def read_i64(data: Buffer, at: int) -> tuple[int, int]:
    """Does the same as `read_i32`, for an i64."""
    raw, at = _read_raw(data, at, I64_BYTES, _U64_END)
    return (raw >> 1) ^ -(raw & 1), at


def _read_raw(data: Buffer, at: int, most_bytes: int, end: int) -> tuple[int, int]:
    raw = shift = 0
    for place in range(at, at + most_bytes):
        byte = data[place]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >= end:
                break
            return raw, place + 1
        shift += 7
    raise invalid(f"an integer of a record takes more than {most_bytes} bytes, or more than its bits")
