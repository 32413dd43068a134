"""Makes the fuzzer's seeds from the definitions: a few payloads for each message."""

from collections.abc import Iterator

from tank_compiler.schema.schema import (
    BOOL,
    FLOAT32,
    FLOATS,
    UUID,
    VARINT_MAX,
    Array,
    Bytes,
    Comparison,
    Element,
    Field,
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
from tank_compiler.tools.interpreter import (
    UNKNOWN_TAGS,
    Value,
    ValueScope,
    is_present,
    lay_out,
    mistakable,
    with_length,
)

_BUNDLE = bytes.fromhex("0c00bc30fcfaa101000005616c706861020462657461020567616d6d61")
"""A valid TANK bundle of three messages, so that fuzzing a broker begins with data that it accepts."""


def seeds(message: Message) -> list[tuple[str, bytes]]:
    """(name, payload) pairs. A name says what is special about the payload; every payload is valid."""
    found: dict[str, bytes] = {}
    for version in _versions(message):
        suffix = f"-v{version}" if message.versions.low != message.versions.high else ""
        for name, builder in _builders(message, version):
            payload = lay_out(message, builder.struct(message.root, None), version)
            if payload not in found.values():
                found[name + suffix] = payload
    return list(found.items())


def lines(message: Message) -> str:
    """The text of a corpus file: a name and the payload in hexadecimal digits on each line."""
    return "".join(f"{name} {payload.hex() or '-'}\n" for name, payload in seeds(message))


def _versions(message: Message) -> list[int]:
    """The first and last versions of every layout."""
    ranges = [message.versions, *([message.flexible] if message.flexible else [])]
    for struct in message.structs:
        for field in struct.fields:
            stated = (field.versions, field.nullable, field.tagged)
            ranges += [versions for versions in stated if versions is not None]
    ends = {end for versions in ranges for end in (versions.low, versions.high) if end is not None}
    ends |= {versions.low - 1 for versions in ranges}
    return sorted(end for end in ends if end in message.versions)


def _builders(message: Message, version: int) -> Iterator[tuple[str, "_Builder"]]:
    yield "defaults", _Builder(message, version, elements=0)
    yield "one", _Builder(message, version, elements=1, plain=False)
    yield "several", _Builder(message, version, elements=3, plain=False)
    yield "extremes", _Builder(message, version, elements=1, plain=False, extreme=True)
    for struct in message.structs:
        for field in struct.fields:
            if field.when is None:
                continue
            for at, together in enumerate(field.when.alternatives):
                overrides: dict[int, int] = {}
                _satisfy(together, overrides)
                name = f"{struct.name}.{field.name}-when-{at}"
                yield name, _Builder(message, version, elements=1, plain=False, overrides=overrides)
            if isinstance(field.type, Text) and field.nullable:
                yield f"{struct.name}.{field.name}-null", _Builder(message, version, elements=1)


def _satisfy(together: list[Comparison], overrides: dict[int, int]) -> None:
    """Sets values that make the comparisons true, and also the conditions of the compared fields."""
    for comparison in together:
        number = comparison.number
        step = {Operator.UNEQUAL: 1, Operator.GREATER: 1, Operator.LESS: -1}.get(comparison.operator, 0)
        overrides[id(comparison.field)] = (
            number ^ 1 if comparison.operator is Operator.UNEQUAL else number + step
        )
        if comparison.field.when is not None:
            _satisfy(comparison.field.when.alternatives[0], overrides)


class _Builder:
    """Chooses a value for every field of a message."""

    def __init__(
        self,
        message: Message,
        version: int,
        *,
        elements: int,
        plain: bool = True,
        extreme: bool = False,
        overrides: dict[int, int] | None = None,
    ) -> None:
        self._message = message
        self._mistakable = mistakable(message)
        self._version = version
        self._elements = elements
        self._plain = plain
        self._extreme = extreme
        self._overrides = overrides or {}

    def struct(self, kind: Struct, outer: ValueScope | None) -> dict[str, Value]:
        values: dict[str, Value] = {field.name: 0 for field in kind.fields}
        for field in kind.fields:
            values[field.name] = self._field(field, ValueScope(kind, values, outer))
        scope = ValueScope(kind, values, outer)
        for field in kind.fields:
            extent = field.type.count if isinstance(field.type, Array) else None
            extent = field.type.length if isinstance(field.type, Bytes) else extent
            value = values[field.name]
            if isinstance(extent, FromField) and is_present(field, self._version, scope):
                assert isinstance(value, list | bytes)
                values[extent.field.name] = len(value)
        if kind.keeps_tags:
            values[UNKNOWN_TAGS] = []
        return values

    def _field(self, field: Field, scope: ValueScope) -> Value:
        kind = field.type
        if field is self._message.version_field:
            return self._version
        if id(field) in self._overrides:
            return self._overrides[id(field)]
        if field.nullable and self._version in field.nullable and self._plain and field.default is None:
            return None
        if self._plain and not isinstance(kind, Array | Bytes | Struct):
            return field.default
        if isinstance(kind, Array):
            return [self._element(kind.element, scope) for _ in range(self._elements)]
        if isinstance(kind, Bytes):
            return self._bytes(kind)
        if isinstance(kind, Marker):
            return False
        value = self._element(kind, scope)
        return 1 if value == self._mistakable.get(id(field), ...) else value

    def _bytes(self, kind: Bytes) -> bytes:
        if isinstance(kind.length, Fixed):
            return bytes([127, 0, 0, 1] * kind.length.size)[: kind.length.size]
        value = b"" if self._plain else _BUNDLE * (20 if self._extreme else 1)
        if isinstance(kind.length, Scalar):
            value = value[: kind.length.high]
        return with_length(self._message, kind, value) if kind.keep_prefix else value

    def _element(self, kind: Element, scope: ValueScope) -> Value:
        if isinstance(kind, Struct):
            return self.struct(kind, scope)
        if isinstance(kind, Text):
            return "x" * 255 if self._extreme else "gold"
        if isinstance(kind, Varint):
            return VARINT_MAX if self._extreme else 300
        if kind in FLOATS:
            largest = -1.5 * 2.0**127 if kind is FLOAT32 else -1.5e300
            return largest if self._extreme else 0.5
        if kind is UUID:
            return bytes(range(100, 116)) if self._extreme else bytes(15) + b"\1"
        if kind is BOOL:
            return True
        return kind.high if self._extreme else 1
