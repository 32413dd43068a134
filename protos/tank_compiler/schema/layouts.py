"""Splits a message into layouts: ranges of versions in which every byte has the same meaning.

A layout is a message in which each field is present or absent, so that its generated code tests no versions.
A message that states its version has one layout for all versions, because the version is known only while it
is read.
"""

from dataclasses import replace

from tank_compiler.schema import wire_size
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.schema import (
    Array,
    Bytes,
    Compact,
    Comparison,
    Element,
    Extent,
    Field,
    FieldCondition,
    FromField,
    Message,
    Prefix,
    Struct,
    Text,
    Type,
    Versions,
)


def split(message: Message) -> list[Message]:
    """The message's layouts, the lowest versions first."""
    if message.version_field is not None:
        return [message]
    lows = starts(message)
    highs = [low - 1 for low in lows[1:]] + [message.versions.high_end]
    return [narrow(message, Versions(low, high)) for low, high in zip(lows, highs, strict=True)]


def of_version(message: Message, version: int) -> Message:
    """The layout of one version, which the message has."""
    if message.version_field is not None:
        return message
    low = max(start for start in starts(message) if start <= version)
    return narrow(message, Versions(low, version))


def check(message: Message) -> None:
    """Raises DefinitionError when a list's elements could be empty: no payload would be too short for a false
    count."""
    for layout in split(message):
        _check_elements(layout.root)


def _check_elements(struct: Struct) -> None:
    for field in struct.fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if field.is_absent or not isinstance(inner, Struct):
            continue
        if isinstance(field.type, Array) and wire_size.of_element(inner) == 0:
            what = "an element may be empty on the wire, so no payload is too short for a false count; "
            what += "give it a field that is always there"
            raise DefinitionError(field.place, f"{struct.name}.{field.name}", what)
        _check_elements(inner)


def starts(message: Message) -> list[int]:
    """The first versions of the layouts."""
    ranges = [message.versions]
    if message.flexible is not None:
        ranges.append(message.flexible)
    for struct in message.structs:
        for field in struct.fields:
            stated = (field.versions, field.nullable, field.tagged, field.flexible)
            ranges += [versions for versions in stated if versions is not None]
    lows = {versions.low for versions in ranges}
    lows |= {versions.high + 1 for versions in ranges if versions.high is not None}
    return sorted(low for low in lows if low in message.versions)


def narrow(message: Message, versions: Versions) -> Message:
    """The layout of versions within which nothing changes."""
    narrowing = _Narrowing(message, versions)
    root = narrowing.struct(message.root)
    return replace(message, versions=versions, root=root, structs=narrowing.structs)


class _Narrowing:
    """Copies a message's structs for one range of versions, within which nothing changes."""

    def __init__(self, message: Message, versions: Versions) -> None:
        self._versions = versions
        self._has_tags = message.flexible is not None and versions.low in message.flexible
        self._fields: dict[int, Field] = {}
        """The copies, by the identity of the original."""
        self.structs: list[Struct] = []

    def struct(self, kind: Struct) -> Struct:
        found = replace(kind, versions=self._versions, has_tags=self._has_tags, fields=[])
        for field in kind.fields:
            copy = self._field(field)
            self._fields[id(field)] = copy
            found.fields.append(copy)
        for copy in found.fields:
            copy.measures = [self._fields[id(other)] for other in copy.measures]
        self.structs.append(found)
        return found

    def _field(self, field: Field) -> Field:
        version = self._versions.low
        is_absent = field.versions is not None and version not in field.versions
        is_tagged = not is_absent and field.tagged is not None and version in field.tagged
        return replace(
            field,
            type=self._type(field.type, is_compact=field.flexible is not None and version in field.flexible),
            versions=None,
            nullable=self._versions if field.nullable is not None and version in field.nullable else None,
            tag=field.tag if is_tagged else None,
            tagged=self._versions if is_tagged else None,
            when=self._condition(field.when) if field.when is not None else None,
            is_absent=is_absent,
        )

    def _type(self, kind: Type, *, is_compact: bool) -> Type:
        if isinstance(kind, Array):
            element = self._element(kind.element, is_compact=is_compact)
            return Array(element, self._extent(kind.count, is_compact=is_compact))
        if isinstance(kind, Bytes):
            return Bytes(self._extent(kind.length, is_compact=is_compact), kind.keep_prefix)
        if isinstance(kind, Text | Struct):
            return self._element(kind, is_compact=is_compact)
        return kind

    def _element(self, kind: Element, *, is_compact: bool) -> Element:
        if isinstance(kind, Text):
            return Text(self._extent(kind.length, is_compact=is_compact))
        return self.struct(kind) if isinstance(kind, Struct) else kind

    def _extent(self, extent: Extent, *, is_compact: bool) -> Extent:
        if isinstance(extent, Prefix):
            return Compact() if is_compact else extent.scalar
        return FromField(self._fields[id(extent.field)]) if isinstance(extent, FromField) else extent

    def _condition(self, condition: FieldCondition) -> FieldCondition:
        alternatives = [
            [Comparison(self._fields[id(one.field)], one.operator, one.number) for one in together]
            for together in condition.alternatives
        ]
        return FieldCondition(condition.text, alternatives)
