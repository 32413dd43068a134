"""Values for any message, drawn from its schema: the Hypothesis strategies of the codec tests."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tank_compiler.schema.schema import (
    BOOL,
    FLOAT32,
    FLOATS,
    UUID,
    VARINT_MAX,
    Array,
    Bytes,
    Element,
    Field,
    Fixed,
    FromField,
    Marker,
    Message,
    Rest,
    Struct,
    Text,
    Varint,
)
from tank_compiler.tools.interpreter import (
    UNKNOWN_TAGS,
    Value,
    ValueScope,
    default_of,
    is_present,
    mistakable,
    with_length,
)

# Every byte must survive, so texts come from bytes, with the bytes that are not UTF-8 as surrogates.
_texts = st.one_of(
    st.text(max_size=12), st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)


@st.composite
def values(draw: st.DrawFn, message: Message, version: int) -> dict[str, Value]:
    """Values for all fields, those that are absent in this version and these conditions at their defaults."""
    return _Drawing(draw, message, version).struct(message.root, None)


def _interesting(message: Message) -> dict[int, list[int]]:
    """The numbers that conditions compare fields with, by the field's identity."""
    found: dict[int, list[int]] = {}
    for struct in message.structs:
        for field in struct.fields:
            for together in field.when.alternatives if field.when else []:
                for comparison in together:
                    found.setdefault(id(comparison.field), []).append(comparison.number)
    return found


class _Drawing:
    def __init__(self, draw: st.DrawFn, message: Message, version: int) -> None:
        self._draw = draw
        self._message = message
        self._version = version
        self._interesting = _interesting(message)
        self._mistakable = mistakable(message)

    def struct(self, kind: Struct, outer: ValueScope | None) -> dict[str, Value]:
        chosen: dict[str, Value] = {field.name: 0 for field in kind.fields}
        for field in kind.fields:
            scope = ValueScope(kind, chosen, outer)
            if not is_present(field, self._version, scope):
                chosen[field.name] = default_of(field)
                continue
            chosen[field.name] = self._field(field, scope)
            if chosen[field.name] == self._mistakable.get(id(field), ...):
                chosen[field.name] = 0
        self._set_counts(kind, chosen, outer)
        if kind.keeps_tags:
            chosen[UNKNOWN_TAGS] = self._unknown_tags()
        return chosen

    def _unknown_tags(self) -> list[Value]:
        """Tags that no definition uses, in the versions that have any, in rising order."""
        flexible = self._message.flexible
        if flexible is None or self._version not in flexible:
            return []
        tags = st.dictionaries(st.integers(1 << 20, 1 << 30), st.binary(max_size=5), max_size=2)
        return [[tag, data] for tag, data in sorted(self._draw(tags).items())]

    def _set_counts(self, kind: Struct, chosen: dict[str, Value], outer: ValueScope | None) -> None:
        scope = ValueScope(kind, chosen, outer)
        for field in kind.fields:
            extent = field.type.count if isinstance(field.type, Array) else None
            extent = field.type.length if isinstance(field.type, Bytes) else extent
            value = chosen[field.name]
            if isinstance(extent, FromField) and is_present(field, self._version, scope):
                assert isinstance(value, list | bytes)
                chosen[extent.field.name] = len(value)

    def _field(self, field: Field, scope: ValueScope) -> Value:
        kind = field.type
        if field is self._message.version_field:
            return self._version
        if field.measures:
            return 0  # computed
        if field.nullable and self._version in field.nullable and self._draw(st.booleans()):
            return None
        if field.tag is not None and self._draw(st.booleans()):
            return default_of(field)
        if isinstance(kind, Marker):
            return self._draw(st.booleans())
        if isinstance(kind, Bytes):
            return self._bytes(kind)
        if isinstance(kind, Array):
            # With no element, a marker before the list would be looked for in what follows it.
            first = id(kind.element.fields[0]) if isinstance(kind.element, Struct) else 0
            count = self._draw(st.integers(1 if first in self._mistakable else 0, 3))
            return [self._element(kind.element, scope) for _ in range(count)]
        if id(field) in self._interesting and self._draw(st.booleans()):
            return self._draw(st.sampled_from(self._interesting[id(field)]))
        return self._element(kind, scope)

    def _bytes(self, kind: Bytes) -> bytes:
        if isinstance(kind.length, Fixed):
            return self._draw(st.binary(min_size=kind.length.size, max_size=kind.length.size))
        raw = self._draw(st.one_of(st.binary(max_size=20), st.just(bytes(200))))
        return with_length(self._message, kind, raw) if kind.keep_prefix else raw

    def _element(self, kind: Element, scope: ValueScope) -> Value:
        if isinstance(kind, Struct):
            return self.struct(kind, scope)
        if isinstance(kind, Text):
            return self._draw(_texts)
        if isinstance(kind, Varint):
            return self._draw(st.one_of(st.integers(0, 300), st.integers(0, VARINT_MAX)))
        if kind in FLOATS:
            return self._draw(st.floats(allow_nan=False, width=32 if kind is FLOAT32 else 64))
        if kind is UUID:
            return self._draw(st.binary(min_size=16, max_size=16))
        if kind is BOOL:
            return self._draw(st.booleans())
        return self._draw(st.integers(kind.low, kind.high))


def takes_the_rest(message: Message) -> bool:
    """Whether the last field has no length, so that the payload's end is the message's."""
    last = message.root.fields[-1].type if message.root.fields else None
    extent = last.count if isinstance(last, Array) else last.length if isinstance(last, Bytes) else None
    return isinstance(extent, Rest)


def as_values(decoded: Any, struct: Struct) -> "Mapping[str, Value]":
    """A decoded object in the interpreter's form; measures as 0, because they are computed."""
    found: dict[str, Value] = {}
    for field in struct.fields:
        value = getattr(decoded, field.python_name)
        if isinstance(field.type, Array) and value is not None:
            element = field.type.element
            value = [as_values(one, element) if isinstance(element, Struct) else one for one in value]
        elif isinstance(field.type, Struct) and value is not None:
            value = as_values(value, field.type)
        elif isinstance(field.type, Bytes) and value is not None:
            value = bytes(value)
        found[field.name] = 0 if field.measures else value
    if struct.keeps_tags:
        found[UNKNOWN_TAGS] = [list(pair) for pair in decoded.unknown_tags]
    return found
