"""Makes bad input out of good: bits flipped, lengths that lie, cuts, insertions, splices. Deterministic."""

from collections.abc import Callable
from random import Random
from typing import Final

_BYTES: Final = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
_NUMBERS: Final = (
    0,
    1,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
_WIDTHS: Final = (2, 4, 8)
_HEADER_BYTES: Final = 5

UNTOUCHED_SHARE: Final = 0.06
"""So that state builds up: a broker that refuses everything at its door is never tried inside."""


def payload(chance: Random, good: bytes, other: bytes) -> bytes:
    """`good` after one to four changes; `other` is what splices take from."""
    if chance.random() < UNTOUCHED_SHARE:
        return good
    data = bytearray(good)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        chance.choice(_CHANGES)(chance, data, other)
    return bytes(data)


def frame(chance: Random, message_id: int, body: bytes) -> bytes:
    """A frame around a payload, whose header sometimes lies."""
    roll = chance.random()
    length = len(body)
    if roll < 0.02:
        message_id = chance.randrange(256)
    elif roll < 0.04:
        length = max(0, length + chance.choice((-1, 1, -4, 7)))
    elif roll < 0.045:
        length = chance.getrandbits(32)
    elif roll < 0.05:
        return body  # no header at all
    return bytes((message_id,)) + length.to_bytes(_HEADER_BYTES - 1, "little") + body


def _flip_bit(chance: Random, data: bytearray, other: bytes) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set_byte(chance: Random, data: bytearray, other: bytes) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice(_BYTES)


def _set_number(chance: Random, data: bytearray, other: bytes) -> None:
    """An integer at its ends, or around the payload's own length: lengths and counts that lie."""
    width = chance.choice(_WIDTHS)
    number = chance.choice(_NUMBERS) if chance.random() < 0.7 else len(data) + chance.randrange(-3, 4)
    if len(data) >= width:
        at = chance.randrange(len(data) - width + 1)
        data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")


def _cut(chance: Random, data: bytearray, other: bytes) -> None:
    if data:
        del data[chance.randrange(len(data)) :]


def _remove(chance: Random, data: bytearray, other: bytes) -> None:
    if data:
        at = chance.randrange(len(data))
        del data[at : at + chance.randrange(1, 9)]


def _insert(chance: Random, data: bytearray, other: bytes) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.randbytes(chance.randrange(1, 9))


def _append(chance: Random, data: bytearray, other: bytes) -> None:
    data += chance.randbytes(chance.randrange(1, 20))


def _repeat(chance: Random, data: bytearray, other: bytes) -> None:
    if data:
        at = chance.randrange(len(data))
        piece = data[at : at + chance.randrange(1, 33)]
        data[at:at] = piece * chance.choice((1, 1, 2, 40))


def _splice(chance: Random, data: bytearray, other: bytes) -> None:
    """The end of another payload behind the beginning of this one."""
    del data[chance.randrange(len(data) + 1) :]
    data += other[chance.randrange(len(other) + 1) :]


_CHANGES: Final[tuple[Callable[[Random, bytearray, bytes], None], ...]] = (
    _flip_bit, _flip_bit, _set_byte, _set_byte, _set_number, _set_number,
    _cut, _remove, _insert, _append, _repeat, _splice,
)  # fmt: skip
