"""Options of streams, topics and users, since V11: a header map whose keys are texts.

A number may also be written as text. What an option means is up to its reader.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from tank_protos.iggy import header_map
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.header_map import UserHeader
from tank_protos.iggy.kinds import HeaderKind
from tank_protos.wire.buffer import Buffer

OptionValue: TypeAlias = int | str
"""A number, or a text."""

_UNSIGNED: Final = {
    HeaderKind.UINT8: 1,
    HeaderKind.UINT16: 2,
    HeaderKind.UINT32: 4,
    HeaderKind.UINT64: 8,
    HeaderKind.UINT128: 16,
    HeaderKind.BOOL: 1,
}
_SIGNED: Final = {
    HeaderKind.INT8: 1,
    HeaderKind.INT16: 2,
    HeaderKind.INT32: 4,
    HeaderKind.INT64: 8,
    HeaderKind.INT128: 16,
}
_U64_BYTES: Final = 8


def read(data: Buffer) -> dict[str, OptionValue]:
    """Returns the options by name.

    Raises Truncated, and IggyRefusal (INVALID_OPTION) for a name that is no text or stands twice, and for a
    value that is neither a number nor a text.
    """
    found: dict[str, OptionValue] = {}
    for header in header_map.read(data, True):
        try:
            name = header.key.decode()
        except UnicodeDecodeError:
            raise _invalid(f"an option's name is not UTF-8: {header.key.hex()}") from None
        if header.key_kind != HeaderKind.STRING or name in found:
            raise _invalid(f"the option {name!r} stands twice, or its name is no text")
        found[name] = _value(name, header)
    return found


def _value(name: str, header: UserHeader) -> OptionValue:
    kind, value = HeaderKind(header.value_kind), header.value
    if kind is HeaderKind.STRING:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise _invalid(f"the option {name!r} is not UTF-8") from None
    if _UNSIGNED.get(kind) == len(value):
        return int.from_bytes(value, "little")
    if _SIGNED.get(kind) == len(value):
        return int.from_bytes(value, "little", signed=True)
    raise _invalid(f"the option {name!r} is {len(value)} bytes of the kind {kind.name}")


def _invalid(sentence: str) -> IggyRefusal:
    return IggyRefusal(IggyError.INVALID_OPTION, sentence)


def write(options: Mapping[str, OptionValue]) -> bytes:
    """Returns the bytes of options: numbers as u64, texts as they are, which must not be empty."""
    return header_map.write((_header(name, value) for name, value in options.items()), True)


def _header(name: str, value: OptionValue) -> UserHeader:
    if isinstance(value, int):
        return UserHeader(name.encode(), value.to_bytes(_U64_BYTES, "little"), HeaderKind.UINT64)
    return UserHeader(name.encode(), value.encode(), HeaderKind.STRING)
