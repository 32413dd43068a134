"""Reads the keys about a field's value: nullableVersions, default, measures."""

import base64
import math
import re
from struct import Struct as Format
from typing import Final
from uuid import UUID as UniqueId

from tank_compiler.schema.members import Members
from tank_compiler.schema.schema import (
    BOOL,
    FLOAT32,
    FLOATS,
    UUID,
    VARINT_MAX,
    Array,
    Bytes,
    DefaultValue,
    Extent,
    Field,
    Fixed,
    Marker,
    Prefix,
    Scalar,
    Struct,
    Text,
    Type,
    Varint,
    Versions,
)

_NUMBER: Final = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]{1,16})|0([0-7]{1,22})|(0|[1-9][0-9]{0,19}))")
"""Sign; hexadecimal, octal or decimal digits. A number with a leading zero is octal, as in Java."""
_FRACTION: Final = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


_FLOAT32: Final = Format("<f")


def set_nullable(field: Field, members: Members, present: Versions) -> None:
    """Reads `nullableVersions`; `present`: the field's versions. Raises DefinitionError."""
    if "nullableVersions" not in members:
        return
    versions = members.versions_or_none("nullableVersions")
    if versions is None:
        return
    if not _has_null(field.type):
        what = f"'{members.text('type')}' has no null here; Kafka's texts, bytes, lists and structs have"
        what += ", and a uint16 or uint32 length or count"
        raise members.error("nullableVersions", what)
    if isinstance(field.type, Bytes) and field.type.keep_prefix:
        raise members.error(
            "nullableVersions", "bytes that keep their length can't be null; remove one of both"
        )
    field.nullable = versions.within(present)
    field.is_optional = field.nullable is not None
    if field.nullable is None and (versions.high is None or versions.high >= present.low):
        what = f"versions {versions} are none of the field's, {present}; name some that it has"
        raise members.error("nullableVersions", what)


def _has_null(field_type: Type) -> bool:
    """Whether the type has a form for null: a length or count with all bits set, or a struct of Kafka's."""
    extent = extent_of(field_type)
    if isinstance(extent, Scalar):
        return extent.size >= 2
    return isinstance(extent, Prefix) or isinstance(field_type, Struct)


def extent_of(field_type: Type) -> Extent | None:
    """The extent of a value; None: its type has a fixed size."""
    if isinstance(field_type, Text | Bytes):
        return field_type.length
    return field_type.count if isinstance(field_type, Array) else None


def set_default(field: Field, members: Members, present: Versions) -> None:
    """Reads `default`, after the type and nullableVersions; `present`: the field's versions.

    Raises DefinitionError.
    """
    field.default = _empty(field.type)
    if "default" not in members:
        if members.text("type") == "records" and field.nullable == present:
            field.default = None  # as in Kafka, where only this kind of field has null as unstated default
        return
    value = members.node("default").value
    text = (
        value
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool | int | float)
        else None
    )
    if text is None:
        raise members.error("default", "'default' must be a string, a number, true or false")
    if text == "null" and field.nullable == present:
        field.default = None
    elif text == "null":
        what = (
            f"the default is null, but not every version is nullable; write 'nullableVersions': '{present}'"
        )
        raise members.error("default", what)
    else:
        field.default = _parse(text, field.type, members)


def _empty(field_type: Type) -> DefaultValue:
    if isinstance(field_type, Marker) or field_type is BOOL:
        return False
    if field_type in FLOATS:
        return 0.0
    if field_type is UUID:
        return bytes(16)
    return 0 if isinstance(field_type, Scalar | Varint) else ""


def _parse(text: str, field_type: Type, members: Members) -> DefaultValue:
    type_name = members.text("type")
    if isinstance(field_type, Text):
        width = field_type.length.scalar if isinstance(field_type.length, Prefix) else field_type.length
        assert isinstance(width, Scalar), "texts have no other lengths"
        if len(text.encode()) > width.high:
            raise members.error(
                "default", f"the default is longer than the {width.high} bytes of {type_name}"
            )
        return text
    if isinstance(field_type, Marker) or field_type is BOOL:
        if text not in ("true", "false"):
            raise members.error("default", f"the default '{text}' is no bool; write true or false")
        return text == "true"
    if not isinstance(field_type, Scalar | Varint):
        if text == "":
            return ""
        raise members.error("default", f"a default has no meaning for the type '{type_name}'; remove it")
    try:
        if field_type in FLOATS:
            return _finite(text, narrow=field_type is FLOAT32)
        if field_type is UUID:
            return _uuid(text)
        number = _integer(text)
    except ValueError:
        wanted = "36 characters, or 22 of base64" if field_type is UUID else "a number"
        what = f"the default '{text[:40]}' is no {type_name}; write {wanted}"
        raise members.error("default", what) from None
    low, high = (0, VARINT_MAX) if isinstance(field_type, Varint) else (field_type.low, field_type.high)
    if not low <= number <= high:
        raise members.error("default", f"the default {number} does not fit into {type_name} ({low}..{high})")
    return number


def _integer(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(text)
    sign, hexadecimal, octal, decimal = found.groups()
    number = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    return -number if sign else number


def _uuid(text: str) -> bytes:
    """Parses the usual form of 36 characters, or Kafka's of 22 in base64 for URLs."""
    if len(text) == 36:
        return UniqueId(text).bytes
    value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(value) != 16:
        raise ValueError(text)
    return value


def _finite(text: str, *, narrow: bool) -> float:
    """Parses a finite number. `narrow`: rounds to a float32, so that a decoded value equals the default."""
    number = float(text if _FRACTION.fullmatch(text) else "nan")
    if not math.isfinite(number):
        raise ValueError(text)
    if not narrow:
        return number
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    except OverflowError:
        raise ValueError(text) from None
    return rounded


def set_measures(field: Field, members: Members, root: Struct) -> None:
    """Reads `measures`: the fields right behind this one, whose length in bytes this one holds."""
    if field not in root.fields or field.versions or field.when:
        raise members.error(
            "measures",
            "only a field of the message itself that is always there can measure; remove 'measures'",
        )
    at = root.fields.index(field) + 1
    for node in members.nodes("measures"):
        following = root.fields[at] if at < len(root.fields) else None
        if following is not None and (following.versions or following.when or following.nullable):
            what = f"'measures' names '{following.name}', which can be absent; measure what is always there"
            raise members.error("measures", what)
        if following is None or node.value != following.name:
            what = (
                f"'measures' names '{node.value}'; name the fields that follow, in their order, without a gap"
            )
            raise members.error("measures", what)
        if _holds_payload(following.type):
            what = f"'measures' names '{following.name}', which holds bytes of any length; measure less"
            raise members.error("measures", what)
        field.measures.append(following)
        at += 1
    if not field.measures:
        raise members.error("measures", "'measures' is empty; name the fields that follow, or remove it")


def _holds_payload(field_type: Type) -> bool:
    if isinstance(field_type, Bytes):
        return not isinstance(field_type.length, Fixed)
    element = field_type.element if isinstance(field_type, Array) else field_type
    return isinstance(element, Struct) and any(_holds_payload(field.type) for field in element.fields)
