"""Chooses the partition of a message; pure.

A message with a key goes to `hash(key) % partitions`, so that messages of one key keep their order. Two
hashes:

- `crc32c` (the default): CRC-32C (Castagnoli, as in iSCSI, RFC 3720) of the key's bytes, an unsigned 32-bit
  number. One table-driven or hardware-assisted call in every language.
- `murmur2`: what Kafka's Java producer does: MurmurHash2 with seed 0x9747b28c of the key's bytes, its lowest
  31 bits. For topics that programs share which speak Kafka. Slower in Python: keys met before are remembered
  (up to 4,096).

A message without key sticks to one partition until its bundle there is full or sent, then another is drawn:
full bundles instead of one small one per partition. An empty key is no key. Adding partitions moves keys.
"""

from collections.abc import Callable
from functools import lru_cache

from fastcrc.crc32 import iscsi

from tank_client.errors import InvalidArgument

KeyHash = Callable[[bytes], int]
_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def crc32c(key: bytes) -> int:
    """CRC-32C of the key."""
    value: int = iscsi(key)
    return value


@lru_cache(maxsize=4096)
def murmur2(key: bytes) -> int:
    """MurmurHash2 as in Kafka's default partitioner, without the sign bit."""
    length = len(key)
    value = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        value = (value * _M & _MASK) ^ k
    rest = key[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return (value ^ value >> 15) & 0x7FFFFFFF


_HASHES: dict[str, KeyHash] = {"crc32c": crc32c, "murmur2": murmur2}


def key_hash(name: str) -> KeyHash:
    """Returns the hash of this name. Raises InvalidArgument for another name."""
    try:
        return _HASHES[name]
    except KeyError:
        raise InvalidArgument(
            f"there is no partitioner {name!r}: choose one of {', '.join(_HASHES)}"
        ) from None
