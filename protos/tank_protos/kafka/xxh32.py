"""The hash xxh32 with seed 0, for short input. The checksum of an lz4 frame's header comes from it."""

from typing import Final

from tank_protos.wire.buffer import Buffer

_MASK: Final = 0xFFFFFFFF
_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_STRIPE_BYTES: Final = 16


def xxh32(data: Buffer) -> int:
    """Returns the hash of data shorter than 16 bytes. From there on the hash has four lanes, which this
    function leaves out."""
    assert len(data) < _STRIPE_BYTES
    _, prime2, prime3, prime4, prime5 = _PRIMES
    hashed = prime5 + len(data)
    words = len(data) // 4 * 4
    for at in range(0, words, 4):
        hashed += int.from_bytes(data[at : at + 4], "little") * prime3
        hashed = _rotated(hashed & _MASK, 17) * prime4
    for byte in data[words:]:
        hashed += byte * prime5
        hashed = _rotated(hashed & _MASK, 11) * _PRIMES[0]
    hashed &= _MASK
    hashed = (hashed ^ hashed >> 15) * prime2 & _MASK
    hashed = (hashed ^ hashed >> 13) * prime3 & _MASK
    return hashed ^ hashed >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
