"""Decodes a payload by walking its message's schema, for `tank-protos decode`.

It accepts the same payloads as the generated decoders, with the same values. It is slower, but also returns
the fields before an error, and the error's field and offset.
"""

from dataclasses import dataclass, field, replace
from struct import unpack_from
from typing import Final, TypeAlias
from uuid import UUID as UniqueId

from tank_compiler.schema import layouts, wire_size
from tank_compiler.schema.schema import (
    INTEGERS,
    UUID,
    Array,
    Bytes,
    Compact,
    Element,
    Extent,
    Field,
    Fixed,
    FromField,
    Marker,
    Message,
    Prefix,
    Rest,
    Scalar,
    Struct,
    Text,
    Varint,
)
from tank_compiler.tools.interpreter import ValueScope, is_present
from tank_protos.wire import varint
from tank_protos.wire.errors import OutOfRange, TrailingBytes, Truncated, UnsupportedVersion, WireError

DissectedValue: TypeAlias = (
    "bool | int | float | str | bytes | list[DissectedValue] | dict[str, DissectedValue] | None"
)
"""Fields by their names in the definition, only those that are on the wire; lists for arrays."""

UNKNOWN_TAGS: Final = "unknown_tags"
"""The key for a struct's tagged fields that its definition doesn't have."""


@dataclass(slots=True)
class Dissection:
    """The fields of a payload, as far as they can be read."""

    fields: dict[str, DissectedValue] = field(default_factory=dict)
    end: int = 0
    """The offset at which reading stopped."""
    error: WireError | None = None
    """The error that stopped it; None: the payload is good."""
    error_field: str = ""
    """`Struct.Field` with the error; empty when only bytes behind the message are wrong."""


def dissect(message: Message, payload: memoryview, version: int, *, whole: bool = True) -> Dissection:
    """Decodes a payload in this version. `whole`: bytes behind the message are an error. Raises nothing: the
    error is in the result.

    The version is ignored when the message states its own.
    """
    found = Dissection()
    if message.version_field is None:
        if version not in message.versions:
            known = f"known: {message.versions}"
            found.error = UnsupportedVersion(f"{message.root.name} has no version {version}; {known}")
            return found
        message = layouts.of_version(message, version)
    walk = _Walk(message, payload, version)
    try:
        walk.struct(message.root, found.fields)
        if whole and walk.at != len(payload):
            walk.place = ""
            raise TrailingBytes(f"{len(payload) - walk.at} bytes follow {message.root.name}")
    except WireError as error:
        found.error, found.error_field = error, walk.place
    found.end = walk.at
    return found


class _Numbers(ValueScope):
    """The integers read so far, by field; of a field that was read several times, the last."""

    def __init__(self) -> None:
        self.read: dict[int, int] = {}

    def integer(self, field: Field) -> int:
        return self.read[id(field)]


class _Walk:
    def __init__(self, message: Message, payload: memoryview, version: int) -> None:
        self.message = message
        self.payload = payload
        self.version = version
        self.at = 0
        self.place = ""
        self.numbers = _Numbers()
        self._order = "<" if message.little_endian else ">"

    def struct(self, kind: Struct, found: dict[str, DissectedValue]) -> None:
        """Reads fields into `found`, which keeps those before an error."""
        measured: dict[int, int] = {}
        for one in kind.fields:
            self.place = f"{kind.name}.{one.name}"
            is_plain = not one.is_absent and one.tag is None
            if not is_plain or not is_present(one, self.version, self.numbers):
                self._note(one, one.default)
                continue
            self._field(one, found)
            self._note(one, found[one.name])
            if one is self.message.version_field and self.version not in self.message.versions:
                known = f"known: {self.message.versions}"
                raise UnsupportedVersion(f"{kind.name} has no version {self.version}; {known}")
            for other in one.measures[-1:]:
                measured[id(other)] = self.at + self.numbers.read[id(one)]
            if measured.get(id(one), self.at) != self.at:
                self.place = f"{kind.name}.{one.name}"
                raise OutOfRange(f"{self.place} ends at byte {self.at}; {measured[id(one)]} was stated")
        if kind.has_tags:
            self._tags(kind, found)

    def _tags(self, kind: Struct, found: dict[str, DissectedValue]) -> None:
        known = {one.tag: one for one in kind.fields if one.tag is not None}
        unknown: dict[str, DissectedValue] = {}
        self.place = f"{kind.name}.{UNKNOWN_TAGS}"
        count, self.at = varint.read(self.payload, self.at)
        before = -1
        for _ in range(count):
            self.place = f"{kind.name}.{UNKNOWN_TAGS}"
            tag, self.at = varint.read(self.payload, self.at)
            if tag <= before:
                raise OutOfRange(f"the tag {tag} follows {before}; tags must rise")
            before = tag
            size, self.at = varint.read(self.payload, self.at)
            end = self.at + size
            if tag in known and end <= len(self.payload):
                self.place = f"{kind.name}.{known[tag].name}"
                self._field(known[tag], found)
                if self.at != end:
                    raise OutOfRange(f"tag {tag} ends at byte {self.at}; {end} was stated")
            else:
                unknown[str(tag)] = bytes(self._take(size))
                found[UNKNOWN_TAGS] = unknown

    def _note(self, one: Field, value: DissectedValue) -> None:
        if isinstance(value, int):
            self.numbers.read[id(one)] = value
        if one is self.message.version_field and isinstance(value, int):
            self.version = value

    def _field(self, one: Field, found: dict[str, DissectedValue]) -> None:
        kind = one.type
        if isinstance(kind, Marker):
            form = kind.wire_form(little_endian=self.message.little_endian)
            found[one.name] = bytes(self.payload[self.at : self.at + len(form)]) == form
            self.at += len(form) if found[one.name] else 0
        elif isinstance(kind, Bytes):
            start = self.at
            length = self._extent(kind.length, one)
            begin = start if kind.keep_prefix else self.at
            found[one.name] = None if length is None else bytes(self._take(self.at - begin + length, begin))
        elif isinstance(kind, Array):
            self._array(one, kind, found)
        elif isinstance(kind, Text):
            found[one.name] = self._text(kind, one)
        elif isinstance(kind, Struct):
            self._struct(one, kind, found)
        else:
            found[one.name] = self._number(kind)

    def _struct(self, one: Field, kind: Struct, found: dict[str, DissectedValue]) -> None:
        if one.nullable is not None:
            # Tagged structs say null with 0, others with -1, as Kafka does.
            is_there = self._number(Varint() if one.tag is not None else INTEGERS["int8"])
            if is_there == (0 if one.tag is not None else -1):
                found[one.name] = None
                return
            if is_there != 1:
                raise OutOfRange(f"{is_there} means neither that the struct is present nor that it is null")
        inner: dict[str, DissectedValue] = {}
        found[one.name] = inner
        self.struct(kind, inner)

    def _array(self, one: Field, kind: Array, found: dict[str, DissectedValue]) -> None:
        count = self._extent(kind.count, one)
        if count is None:
            found[one.name] = None
            return
        place, elements = self.place, list[DissectedValue]()
        found[one.name] = elements
        if not isinstance(kind.count, Rest):
            left = len(self.payload) - self.at
            if count * wire_size.of_element(kind.element) > left:
                raise Truncated(f"{count} elements are announced, {left} bytes are left")
        while self.at < len(self.payload) if isinstance(kind.count, Rest) else len(elements) < count:
            self.place = place
            self._element(one, kind.element, elements)

    def _element(self, one: Field, kind: Element, elements: list[DissectedValue]) -> None:
        if isinstance(kind, Struct):
            inner: dict[str, DissectedValue] = {}
            elements.append(inner)
            self.struct(kind, inner)
        elif isinstance(kind, Text):
            # The array may be null, the texts in it may not.
            elements.append(self._text(kind, replace(one, nullable=None)))
        else:
            elements.append(self._number(kind))

    def _text(self, kind: Text, one: Field) -> str | None:
        length = self._extent(kind.length, one)
        return None if length is None else bytes(self._take(length)).decode("utf-8", "surrogateescape")

    def _number(self, kind: Scalar | Varint) -> int | float | bool | str:
        if isinstance(kind, Varint):
            value, self.at = varint.read(self.payload, self.at)
            return value
        raw = self._take(kind.size)
        if kind is UUID:
            return str(UniqueId(bytes=bytes(raw)))
        number: int | float | bool
        (number,) = unpack_from(self._order + kind.code, raw)
        return number

    def _extent(self, extent: Extent, one: Field) -> int | None:
        """A length or count, None for null."""
        assert not isinstance(extent, Prefix), "a layout has one form of length"
        if isinstance(extent, Fixed):
            return extent.size
        if isinstance(extent, Rest):
            return len(self.payload) - self.at
        if isinstance(extent, FromField):
            return self.numbers.integer(extent.field)
        start = self.at
        length = self._number(Varint() if isinstance(extent, Compact) else extent)
        assert isinstance(length, int), "lengths are integers: the loader checks it"
        null = -1 if isinstance(extent, Compact) or (isinstance(extent, Scalar) and extent.low) else None
        if isinstance(extent, Compact):
            length -= 1
        elif isinstance(extent, Scalar) and null is None:
            null = extent.high
        is_nullable = one.nullable is not None and self.version in one.nullable
        if length == null and is_nullable:
            return None
        if length < 0:
            self.at = start
            raise OutOfRange(f"a length or count of {length}, and null is not possible here")
        return length

    def _take(self, size: int, start: int | None = None) -> memoryview:
        """Takes the next bytes. Raises Truncated, and stays in place, when there are fewer."""
        start = self.at if start is None else start
        if start + size > len(self.payload):
            raise Truncated(f"{size} bytes are needed, {len(self.payload) - start} are left")
        self.at = start + size
        return self.payload[start : self.at]
