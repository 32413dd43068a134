"""Reads a field's `type` and the keys that belong to it: length, count, marker."""

from collections.abc import Callable
from typing import Final

from tank_compiler.schema import names
from tank_compiler.schema.conditions import Scope
from tank_compiler.schema.members import Members
from tank_compiler.schema.schema import (
    BOOL,
    FLOATS,
    INTEGERS,
    SCALARS,
    Array,
    Bytes,
    Element,
    Extent,
    Fixed,
    FromField,
    Marker,
    Prefix,
    Rest,
    Scalar,
    Struct,
    Text,
    Type,
    Varint,
)

TEXTS: Final = {
    "str8": Text(INTEGERS["uint8"]),
    "str16": Text(INTEGERS["uint16"]),
    "str32": Text(INTEGERS["uint32"]),
    "string": Text(Prefix(INTEGERS["int16"])),
}
LENGTH: Final = Prefix(INTEGERS["int32"])
"""The length before Kafka's bytes, records and lists."""
WIDTHS: Final = {name: INTEGERS[name] for name in ("uint8", "uint16", "uint32")}
_KNOWN: Final = ", ".join(
    [*SCALARS, "varint", *TEXTS, "bytes", "records", "a struct's name, or [] before one of them"]
)

MAX_FIXED_BYTES: Final = 65535
"""The longest field with a fixed length. Such fields are copied, not sliced: they are for addresses and the
like."""


def parse(
    members: Members,
    scope: Scope,
    nested: Callable[[str], Struct],
    *,
    may_take_rest: bool,
    states_widths: bool,
) -> Type:
    """Returns the field's type. Raises DefinitionError.

    `nested`: returns the struct of a name. `states_widths`: whether the definition has to state lengths and
    counts; else those that it doesn't state are Kafka's.
    """
    text = members.text("type")
    parsed: Type
    if text.startswith("[]"):
        element = _element(members, text[2:], nested)
        if states_widths or "count" in members or "countFrom" in members:
            count = _extent(members, "count", "countFrom", scope, may_take_rest=may_take_rest)
        else:
            count = LENGTH
        parsed = Array(element, count)
    elif text == "records" and not states_widths:
        parsed = Bytes(LENGTH)
    elif text == "bytes":
        if states_widths or "length" in members or "lengthFrom" in members:
            length = _length(members, scope, may_take_rest=may_take_rest)
        else:
            length = LENGTH
        parsed = Bytes(length, members.flag("keepPrefix"))
        if parsed.keep_prefix and not isinstance(length, Scalar | Varint):
            raise members.error(
                "keepPrefix", "there is no length before these bytes to keep; remove 'keepPrefix'"
            )
    elif text == "bool" and "marker" in members:
        parsed = _marker(members)
    else:
        parsed = _element(members, text, nested)
    _refuse_strangers(members, parsed)
    return parsed


def _element(members: Members, text: str, nested: Callable[[str], Struct]) -> Element:
    if text in SCALARS:
        return SCALARS[text]
    if text in TEXTS:
        return TEXTS[text]
    if text == "varint":
        return Varint()
    if names.STRUCT_NAME.fullmatch(text):
        return nested(text)
    if members.text("type") == f"[]{text}" and (text in ("bytes", "records") or text.startswith("[]")):
        raise members.error("type", f"a list's elements cannot be '{text}'; put it into a struct of its own")
    if text == "records":
        raise members.error("type", "a message with an 'id' has no records; use bytes and state their length")
    raise members.error("type", f"unknown type '{text}'; known are {_KNOWN}")


def _extent(members: Members, key: str, from_key: str, scope: Scope, *, may_take_rest: bool) -> Extent:
    if (key in members) == (from_key in members):
        raise members.error(key, f"say either '{key}' or '{from_key}'")
    if from_key in members:
        name = members.text(from_key)
        field = scope.find(name)
        unsigned = field is not None and (field.type in WIDTHS.values() or isinstance(field.type, Varint))
        if field is None or not unsigned:
            what = f"'{name}' is no earlier uint8, uint16, uint32 or varint of this or an enclosing struct"
            raise members.error(from_key, f"{what}; name one")
        return FromField(field)
    text = members.text(key)
    if text == "varint":
        return Varint()
    if text == "rest":
        if not may_take_rest:
            raise members.error(
                key, f"'{key}' is 'rest', but only the message's last field can take the rest"
            )
        return Rest()
    if text not in WIDTHS:
        raise members.error(key, f"'{key}' is '{text}'; use one of {', '.join(WIDTHS)}, varint, rest")
    return WIDTHS[text]


def _length(members: Members, scope: Scope, *, may_take_rest: bool) -> Extent:
    if "length" not in members or isinstance(members.node("length").value, str):
        return _extent(members, "length", "lengthFrom", scope, may_take_rest=may_take_rest)
    size = members.whole_number("length")
    if not 1 <= size <= MAX_FIXED_BYTES:
        raise members.error(
            "length", f"a fixed length of {size} bytes is not possible; use 1..{MAX_FIXED_BYTES}"
        )
    return Fixed(size)


def _marker(members: Members) -> Marker:
    inner = Members(members.node("marker"), members.subject, ("type", "value"))
    type_name = inner.text("type")
    if type_name not in INTEGERS:
        raise inner.error("type", f"a marker's type is '{type_name}'; use one of {', '.join(INTEGERS)}")
    scalar = INTEGERS[type_name]
    try:
        value = int(inner.text("value"), 0)
    except ValueError:
        raise inner.error("value", f"'{inner.text('value')}' is no number; write it like 0xffff") from None
    if not scalar.low <= value <= scalar.high:
        raise inner.error("value", f"{value} does not fit into {type_name} ({scalar.low}..{scalar.high})")
    return Marker(scalar, value)


def _refuse_strangers(members: Members, parsed: Type) -> None:
    """Raises DefinitionError for a key that has no meaning for this type."""
    element = parsed.element if isinstance(parsed, Array) else parsed
    belongs = {
        "fields": isinstance(element, Struct),
        "length": isinstance(parsed, Bytes),
        "lengthFrom": isinstance(parsed, Bytes),
        "keepPrefix": isinstance(parsed, Bytes),
        "count": isinstance(parsed, Array),
        "countFrom": isinstance(parsed, Array),
        "marker": isinstance(parsed, Marker),
        "measures": isinstance(parsed, Scalar) and parsed in WIDTHS.values(),
    }
    for key, fits in belongs.items():
        if key in members and not fits:
            raise members.error(
                key, f"'{key}' has no meaning for the type '{members.text('type')}'; remove it"
            )


def without_compact(parsed: Type) -> Type:
    """The type in a message without flexible versions, whose lengths are never compact."""
    if isinstance(parsed, Array):
        element = parsed.element
        if isinstance(element, Text):
            element = Text(_plain(element.length))
        return Array(element, _plain(parsed.count))
    if isinstance(parsed, Bytes):
        return Bytes(_plain(parsed.length), parsed.keep_prefix)
    return Text(_plain(parsed.length)) if isinstance(parsed, Text) else parsed


def _plain(extent: Extent) -> Extent:
    return extent.scalar if isinstance(extent, Prefix) else extent


def can_be_key(parsed: Type) -> bool:
    """Whether elements of a list can be found by a field of this type."""
    return (
        parsed is BOOL
        or isinstance(parsed, Text | Varint)
        or (isinstance(parsed, Scalar) and parsed not in FLOATS)
    )
