"""User headers on the wire: `u8 key kind, u32 length, key, u8 value kind, u32 length, value`, repeated.

Before B3 there is no key kind: keys are texts.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.kinds import HeaderKind
from tank_protos.iggy.limits import MAX_HEADER_FIELD_BYTES
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import Truncated

_LENGTH: Final = Struct("<I")
_FIELD: Final = Struct("<BI")
_KINDS: Final = frozenset(int(kind) for kind in HeaderKind)


class UserHeader(NamedTuple):
    """A header of a message, or an option."""

    key: bytes
    value: bytes
    value_kind: int = HeaderKind.RAW
    key_kind: int = HeaderKind.STRING


def read(data: Buffer, has_key_kinds: bool) -> list[UserHeader]:
    """Returns the headers in their order; a key may occur twice.

    Raises Truncated, and IggyRefusal for a kind that there isn't, and for a key or value that is empty or has
    more than 255 bytes.
    """
    view = memoryview(data)
    at, size = 0, len(view)
    found: list[UserHeader] = []
    try:
        while at < size:
            if has_key_kinds:
                key_kind, length = _FIELD.unpack_from(view, at)
                at += _FIELD.size
            else:
                key_kind = HeaderKind.STRING
                (length,) = _LENGTH.unpack_from(view, at)
                at += _LENGTH.size
            if not 1 <= length <= MAX_HEADER_FIELD_BYTES:
                raise IggyRefusal(IggyError.INVALID_HEADER_KEY, f"a header whose key has {length} bytes")
            key = bytes(view[at : at + length])
            at += length
            value_kind, length = _FIELD.unpack_from(view, at)
            at += _FIELD.size
            if not 1 <= length <= MAX_HEADER_FIELD_BYTES:
                raise IggyRefusal(IggyError.INVALID_HEADER_VALUE, f"a header whose value has {length} bytes")
            if key_kind not in _KINDS or value_kind not in _KINDS:
                what = f"a header of the kinds {key_kind} and {value_kind}"
                raise IggyRefusal(IggyError.INVALID_HEADER_KIND, what)
            found.append(UserHeader(key, bytes(view[at : at + length]), value_kind, key_kind))
            at += length
    except StructError:
        raise Truncated("the headers end inside a header") from None
    if at != size:
        raise Truncated("the headers end inside a value")
    return found


def bytes_beside(has_key_kinds: bool) -> int:
    """Returns how many bytes a header takes besides its key and value."""
    return _FIELD.size + (_FIELD.size if has_key_kinds else _LENGTH.size)


def write(headers: Iterable[UserHeader], has_key_kinds: bool) -> bytes:
    """Returns the bytes of headers that `read` takes."""
    parts: list[bytes] = []
    for key, value, value_kind, key_kind in headers:
        length = _FIELD.pack(key_kind, len(key)) if has_key_kinds else _LENGTH.pack(len(key))
        parts += (length, key, _FIELD.pack(value_kind, len(value)), value)
    return b"".join(parts)
