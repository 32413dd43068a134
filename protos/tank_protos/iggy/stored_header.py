"""The one reserved header of a record: what Iggy's messages have and records don't.

`u8 1, u128 id, u16 microseconds, u8 ...`, little-endian: the id (0: derived from the message's place), what
the timestamp has beside whole milliseconds, and a byte for each user header behind it, its value's kind in
the low four bits and its key's kind in the high ones. It stands first in a record that needs it. A user
header of the same name may stand first only behind one of ours.
"""

from struct import Struct
from typing import Final

from tank_protos.iggy.kinds import HeaderKind

NAME: Final = b"iggy"
_VERSION: Final = 1
_HEAD: Final = Struct("<B16sH")
HEAD_BYTES: Final = _HEAD.size
NO_ID: Final = bytes(16)
_KIND_BITS: Final = 4
_KIND_MASK: Final = 0x0F
_US_PER_MS: Final = 1000

DEFAULT_KINDS: Final = HeaderKind.STRING << _KIND_BITS | HeaderKind.RAW
"""Of a header without a byte here, as Kafka's clients write them: the key is a text, the value is raw."""


def kinds_byte(key_kind: int, value_kind: int) -> int:
    """Returns both kinds in one byte."""
    return key_kind << _KIND_BITS | value_kind


def kinds_of(byte: int) -> tuple[int, int]:
    """Returns the kinds of key and value."""
    return byte >> _KIND_BITS, byte & _KIND_MASK


def pack(message_id: bytes, rest_us: int, kinds: bytes) -> bytes:
    """Returns the header's value. `message_id`: sixteen bytes; `rest_us`: 0 to 999."""
    return _HEAD.pack(_VERSION, message_id, rest_us) + kinds


def unpack(value: bytes | None) -> tuple[bytes, int, bytes] | None:
    """Returns id, microseconds and kinds; None: a client of another protocol wrote this header for itself."""
    if value is None or len(value) < HEAD_BYTES:
        return None
    version, message_id, rest_us = _HEAD.unpack_from(value)
    kinds = value[HEAD_BYTES:]
    if version != _VERSION or rest_us >= _US_PER_MS or not all(map(_is_kinds, kinds)):
        return None
    return message_id, rest_us, kinds


def _is_kinds(byte: int) -> bool:
    return byte >> _KIND_BITS != 0 and byte & _KIND_MASK != 0
