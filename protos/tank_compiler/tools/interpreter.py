"""Encodes a message by walking its schema, slowly, to check the generated encoders and to make the fuzzer's
seeds.
"""

import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, TypeAlias

from tank_compiler.schema import layouts
from tank_compiler.schema.schema import (
    Array,
    Bytes,
    Compact,
    Comparison,
    Element,
    Extent,
    Field,
    FieldCondition,
    Fixed,
    FromField,
    Marker,
    Message,
    Operator,
    Scalar,
    Struct,
    Text,
    Varint,
)
from tank_compiler.schema.values import extent_of

UNKNOWN_TAGS: Final = "unknown_tags"
"""The key of a struct's unknown tags among its values."""

Value: TypeAlias = "int | float | str | bytes | list[Value] | Mapping[str, Value] | None"
"""A message's value: fields by their names in the definition. Bytes that keep their prefix include it."""


class ValueScope:
    """The values that conditions and lengths can refer to: the struct's own and the enclosing ones."""

    def __init__(self, struct: Struct, values: "Mapping[str, Value]", outer: "ValueScope | None") -> None:
        self._fields = {id(field): values[field.name] for field in struct.fields}
        self._outer = outer

    def integer(self, field: Field) -> int:
        if id(field) in self._fields:
            value = self._fields[id(field)]
            assert isinstance(value, int), "conditions and lengths refer to integers: the loader checks it"
            return value
        assert self._outer is not None, "the loader resolved the name in an enclosing struct"
        return self._outer.integer(field)

    def holds(self, condition: FieldCondition) -> bool:
        return any(all(self._compare(one) for one in together) for together in condition.alternatives)

    def _compare(self, comparison: Comparison) -> bool:
        value, number = self.integer(comparison.field), comparison.number
        match comparison.operator:
            case Operator.EQUAL:
                return value == number
            case Operator.UNEQUAL:
                return value != number
            case Operator.LESS:
                return value < number
            case Operator.LESS_OR_EQUAL:
                return value <= number
            case Operator.GREATER:
                return value > number
            case Operator.GREATER_OR_EQUAL:
                return value >= number
            case Operator.BITS:
                return bool(value & number)


def is_present(field: Field, version: int, scope: ValueScope) -> bool:
    """Whether the field is on the wire, in its place or as a tagged field."""
    if field.is_absent:
        return False
    if field.versions is not None and version not in field.versions:
        return False
    return field.when is None or scope.holds(field.when)


def mistakable(message: Message) -> dict[int, int]:
    """The fields, by identity, that readers could mistake for a marker, and the value that they must not
    have."""
    found = {}
    for kind in message.structs:
        for field, following in pairwise(kind.fields):
            element = following.type.element if isinstance(following.type, Array) else following.type
            if isinstance(field.type, Marker) and isinstance(element, Struct):
                found[id(element.fields[0])] = field.type.value
    return found


def lay_out(message: Message, values: "Mapping[str, Value]", version: int) -> bytes:
    """Encodes a message with these values.

    The values of a struct with tagged fields may have unknown ones as `unknown_tags`: [[tag, bytes], ...].
    """
    layout = layouts.of_version(message, version)
    return _Layout(layout, version).struct(layout.root, values, None)


def default_of(field: Field) -> Value:
    """The default of a field, in the form that `lay_out` takes."""
    kind = field.type
    if field.default is None:
        return None
    if isinstance(kind, Array):
        return []
    if isinstance(kind, Bytes):
        return bytes(kind.length.size) if isinstance(kind.length, Fixed) else bytes(kind.keep_prefix)
    if isinstance(kind, Struct):
        return defaults_of(kind)
    return field.default


def defaults_of(struct: Struct) -> dict[str, Value]:
    """The values of a struct whose fields all have their defaults."""
    found: dict[str, Value] = {field.name: default_of(field) for field in struct.fields}
    return found | {UNKNOWN_TAGS: []} if struct.keeps_tags else found


def with_length(message: Message, kind: Bytes, content: bytes) -> bytes:
    """The content with its length before it, as the value of a field that keeps its prefix."""
    return _Layout(message, message.versions.low).extent(kind.length, len(content)) + content


class _Layout:
    def __init__(self, message: Message, version: int) -> None:
        self._order = "<" if message.little_endian else ">"
        self._little = message.little_endian
        self._version = version

    def struct(self, kind: Struct, values: "Mapping[str, Value]", outer: ValueScope | None) -> bytes:
        scope = ValueScope(kind, values, outer)
        parts: dict[str, bytes] = {}
        for field in kind.fields:
            there = field.tag is None and is_present(field, self._version, scope)
            parts[field.name] = self._field(field, values[field.name], scope) if there else b""
        for field in kind.fields:
            if field.measures:
                assert isinstance(field.type, Scalar)
                measured = sum(len(parts[other.name]) for other in field.measures)
                parts[field.name] = self._scalar(field.type, measured)
        tags = self._tags(kind, values, scope) if kind.has_tags else b""
        return b"".join(parts.values()) + tags

    def _tags(self, kind: Struct, values: "Mapping[str, Value]", scope: ValueScope) -> bytes:
        """The tagged fields that differ from their defaults, and unknown ones."""
        found: dict[int, bytes] = {}
        for field in kind.fields:
            if field.tag is not None and values[field.name] != default_of(field):
                found[field.tag] = self._field(field, values[field.name], scope)
        unknown = values.get(UNKNOWN_TAGS, [])
        assert isinstance(unknown, list)
        for pair in unknown:
            assert isinstance(pair, list)
            tag, data = pair
            assert isinstance(tag, int)
            assert isinstance(data, bytes)
            found[tag] = data
        parts = [_varint(tag) + _varint(len(found[tag])) + found[tag] for tag in sorted(found)]
        return _varint(len(found)) + b"".join(parts)

    def _field(self, field: Field, value: Value, scope: ValueScope) -> bytes:
        kind = field.type
        if value is None:
            return self._null(field)
        if isinstance(kind, Struct) and field.nullable is not None:
            return b"\1" + self._element(kind, value, scope)
        if isinstance(kind, Marker):
            return kind.wire_form(little_endian=self._little) if value else b""
        if isinstance(kind, Bytes):
            assert isinstance(value, bytes)
            return value if kind.keep_prefix else self.extent(kind.length, len(value)) + value
        if isinstance(kind, Array):
            assert isinstance(value, list)
            elements = b"".join(self._element(kind.element, element, scope) for element in value)
            return self.extent(kind.count, len(value)) + elements
        return self._element(kind, value, scope)

    def _null(self, field: Field) -> bytes:
        if isinstance(field.type, Struct):
            return b"\xff" if field.tag is None else b"\0"
        extent = extent_of(field.type)
        if isinstance(extent, Compact):
            return b"\0"
        assert isinstance(extent, Scalar), "only lengths and counts of stated width have a null"
        return b"\xff" * extent.size

    def _element(self, kind: Element, value: Value, scope: ValueScope) -> bytes:
        if isinstance(kind, Struct):
            assert isinstance(value, Mapping)
            return self.struct(kind, value, scope)
        if isinstance(kind, Text):
            assert isinstance(value, str)
            encoded = value.encode("utf-8", "surrogateescape")
            return self.extent(kind.length, len(encoded)) + encoded
        if isinstance(kind, Varint):
            assert isinstance(value, int)
            return _varint(value)
        return self._scalar(kind, value)

    def extent(self, extent: Extent, length: int) -> bytes:
        if isinstance(extent, Scalar):
            return self._scalar(extent, length)
        if isinstance(extent, Varint):
            return _varint(length)
        if isinstance(extent, Compact):
            return _varint(length + 1)
        assert not isinstance(extent, Fixed) or extent.size == length
        assert not isinstance(extent, FromField) or extent.field, "the field was laid out before"
        return b""

    def _scalar(self, kind: Scalar, value: Value) -> bytes:
        return struct.pack(self._order + kind.code, value)


def _varint(value: int) -> bytes:
    groups = [value >> shift & 127 for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([group | 128 for group in groups[:-1]] + groups[-1:])
