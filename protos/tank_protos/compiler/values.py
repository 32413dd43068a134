"""Understands the keys about a field's value: nullableVersions, default, measures."""

import math

from tank_protos.compiler.members import Members
from tank_protos.compiler.schema import (
    BOOL,
    FLOAT64,
    VARINT_MAX,
    Array,
    Bytes,
    DefaultValue,
    Field,
    Fixed,
    Marker,
    Scalar,
    Struct,
    Text,
    Type,
    Varint,
    Versions,
)


def set_nullable(field: Field, members: Members, present: Versions) -> None:
    """Reads `nullableVersions`; `present`: the field's versions. Raises DefinitionError."""
    if "nullableVersions" not in members:
        return
    width = _prefix(field.type)
    if width is None or width.size < 2:
        what = f"'{members.text('type')}' has no null; only a uint16 or uint32 length or count has"
        raise members.error("nullableVersions", what)
    if isinstance(field.type, Bytes) and field.type.keep_prefix:
        raise members.error(
            "nullableVersions", "bytes that keep their length can't be null; remove one of both"
        )
    versions = members.versions("nullableVersions")
    field.nullable = versions.within(present)
    if field.nullable is None:
        what = f"versions {versions} are none of the field's, {present}; name some that it has"
        raise members.error("nullableVersions", what)


def _prefix(field_type: Type) -> Scalar | None:
    """The length or count of stated width before a value: all its bits set is null."""
    if isinstance(field_type, Text | Bytes):
        return field_type.length if isinstance(field_type.length, Scalar) else None
    if isinstance(field_type, Array):
        return field_type.count if isinstance(field_type.count, Scalar) else None
    return None


def set_default(field: Field, members: Members, present: Versions) -> None:
    """Reads `default`, after the type and nullableVersions; `present`: the field's versions.

    Raises DefinitionError.
    """
    field.default = _empty(field.type)
    if "default" not in members:
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
    if field_type is FLOAT64:
        return 0.0
    if isinstance(field_type, Scalar | Varint):
        return 0
    return "" if isinstance(field_type, Text | Bytes | Array) else None


def _parse(text: str, field_type: Type, members: Members) -> DefaultValue:
    type_name = members.text("type")
    if isinstance(field_type, Text):
        if len(text.encode()) > field_type.length.high:
            raise members.error(
                "default", f"the default is longer than the {field_type.length.high} bytes of {type_name}"
            )
        return text
    if isinstance(field_type, Marker) or field_type is BOOL:
        if text not in ("true", "false"):
            raise members.error("default", f"the default '{text}' is no bool; write true or false")
        return text == "true"
    if not isinstance(field_type, Scalar | Varint):
        raise members.error("default", f"a default has no meaning for the type '{type_name}'; remove it")
    try:
        if field_type is FLOAT64:
            return _finite(text)
        number = int(text, 0)
    except ValueError:
        raise members.error("default", f"the default '{text}' is no {type_name}; write a number") from None
    low, high = (0, VARINT_MAX) if isinstance(field_type, Varint) else (field_type.low, field_type.high)
    if not low <= number <= high:
        raise members.error("default", f"the default {number} does not fit into {type_name} ({low}..{high})")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def set_measures(field: Field, members: Members, root: Struct) -> None:
    """The fields right behind this one whose length on the wire it holds."""
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
