"""Reads the keys `fast` and `fastFrames`, which ask for writers that need no objects of messages.

A fast writer has one layout: the definition gives values for the fields that conditions compare, and these
values choose it.
"""

from typing import Final

from tank_compiler.schema import names
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.members import Members
from tank_compiler.schema.schema import (
    Array,
    Bytes,
    Comparison,
    FastWriter,
    Field,
    Fixed,
    FromField,
    Marker,
    Message,
    Operator,
    Rest,
    Scalar,
    Struct,
    Text,
)
from tank_compiler.schema.source import Node

_FRAME_KEYS: Final = frozenset({"values", "known"})


def load(message: Message, members: Members, of_fields: list[tuple[Struct, Members]]) -> list[FastWriter]:
    """The message's fast writers. of_fields: the structs of lists whose fields have the key `fast`.

    Raises DefinitionError.
    """
    asked = [(message.root, members)] if "fast" in members else []
    found = []
    for struct, of_struct in [*of_fields, *asked]:
        for name, node in _named(of_struct, "fast"):
            chosen = _values(node, of_struct)
            found.append(_Resolver(message, of_struct, name, chosen).of_struct(struct))
    if "fastFrames" in members:
        for name, node in _named(members, "fastFrames"):
            inner = Members(node, f"{members.subject}.{name}", _FRAME_KEYS)
            chosen = _values(inner.node("values"), inner) if "values" in inner else {}
            known = [str(one.value) for one in inner.nodes("known")]
            found.append(_Resolver(message, inner, name, chosen).of_frame(known))
    return found


def _named(members: Members, key: str) -> list[tuple[str, Node]]:
    value = members.node(key).value
    if not isinstance(value, dict):
        raise members.wrong_kind(key, dict)
    for name in value:
        if not names.STRUCT_NAME.fullmatch(name):
            raise members.error(key, f"'{name}' is no name of a writer; write it in CamelCase")
    return list(value.items())


def _values(node: Node, members: Members) -> dict[str, int]:
    found = {}
    values = Members(node, members.subject, node.value if isinstance(node.value, dict) else ())
    for name, inner in node.value.items() if isinstance(node.value, dict) else ():
        value = inner.value
        try:
            found[name] = int(value, 0) if isinstance(value, str) else values.whole_number(name)
        except ValueError:
            raise values.error(name, f"'{value}' is no number") from None
    return found


class _Resolver:
    """Finds the fields that one writer's layout has, and those of them that can have one value only."""

    def __init__(self, message: Message, members: Members, name: str, values: dict[str, int]) -> None:
        self._message = message
        self._members = members
        self._name = name
        self._values = values
        self._unused = set(values)
        self._absent: set[int] = set()
        self._fixed: dict[int, int] = {}
        has_head = message.id is not None and message.id_type.size == 1 and message.little_endian
        tags = message.flexible is not None or any(
            field.tag is not None for struct in message.structs for field in struct.fields
        )
        if not has_head or tags or message.versions.low != message.versions.high:
            raise self._error("only a message of TANK with one version and no tags has fast writers")

    def of_struct(self, struct: Struct) -> FastWriter:
        """The writer of a struct up to its list."""
        self._resolve(struct)
        self._check_order(struct)
        return self._made(struct, known=None)

    def of_frame(self, known: list[str]) -> FastWriter:
        """The writer of a frame with one element in each list."""
        structs = [self._message.root]
        for struct in structs:
            self._resolve(struct)
            for field in self._there(struct):
                if isinstance(field.type, Array):
                    assert isinstance(field.type.element, Struct)  # _resolve has checked it
                    structs.append(field.type.element)
                    if isinstance(field.type.count, FromField):
                        self._fixed[id(field.type.count.field)] = 1
        fields = [field for struct in structs for field in self._there(struct)]
        for name in known:
            if [field.name for field in fields].count(name) != 1:
                raise self._error(f"'{name}' in 'known' is not the name of one field that is there")
        for field in fields:
            if isinstance(field.type, Text) and field.name not in known:
                raise self._error(f"the text {field.name} has no fixed size; name it in 'known'")
        return self._made(self._message.root, known=[field for field in fields if field.name in known])

    def _made(self, struct: Struct, known: list[Field] | None) -> FastWriter:
        if self._unused:
            raise self._error(f"no condition compares {', '.join(sorted(self._unused))}; leave it out")
        return FastWriter(self._name, struct, self._values, self._absent, self._fixed, known)

    def _error(self, what: str) -> DefinitionError:
        return DefinitionError(self._members.place, f"{self._members.subject} ({self._name})", what)

    def _there(self, struct: Struct) -> list[Field]:
        return [field for field in struct.fields if id(field) not in self._absent]

    def _resolve(self, struct: Struct) -> None:
        compared: dict[int, list[Comparison]] = {}
        for field in struct.fields:
            if field.nullable is not None or field.versions is not None or not _is_plain(field):
                raise self._error(f"a fast writer can't write a field like {field.name}; remove it or 'fast'")
            for together in field.when.alternatives if field.when is not None else []:
                if len(together) > 1 or together[0].operator is not Operator.EQUAL:
                    raise self._error(
                        f"a fast writer can't follow a condition like '{field.when and field.when.text}'"
                    )
                compared.setdefault(id(together[0].field), []).append(together[0])
        for identity, comparisons in compared.items():
            selector = comparisons[0].field
            if selector.name not in self._values:
                raise self._error(f"a condition compares {selector.name}: give it a value")
            self._unused.discard(selector.name)
            chosen = self._values[selector.name]
            there = _there_with(struct, selector, chosen)
            self._absent |= {id(field) for field in _decided_by(struct, selector)} - there
            others = {comparison.number for comparison in comparisons} | {_uncompared(comparisons)}
            alike = {number for number in others if _there_with(struct, selector, number) == there}
            is_bool = not isinstance(selector.type, Scalar) or selector.type.high <= 1
            if is_bool or (alike == {chosen} and chosen in {one.number for one in comparisons}):
                self._fixed[identity] = chosen

    def _check_order(self, struct: Struct) -> None:
        """Raises DefinitionError for a field behind a list, because the writer doesn't write the elements."""
        there = self._there(struct)
        for at, field in enumerate(there):
            rest = there[at + 1 :]
            takes_rest = rest and isinstance(rest[0].type, Bytes) and isinstance(rest[0].type.length, Rest)
            if isinstance(field.type, Array) and rest and not takes_rest:
                raise self._error(
                    f"{rest[0].name} stands behind the list {field.name}; only bytes to the end may"
                )


def _is_plain(field: Field) -> bool:
    kind = field.type
    if isinstance(kind, Array):
        return isinstance(kind.element, Struct) and isinstance(kind.count, Scalar | FromField | Rest)
    if isinstance(kind, Bytes):
        return isinstance(kind.length, Fixed | Rest) and not kind.keep_prefix
    return isinstance(kind, Scalar | Marker) or (isinstance(kind, Text) and isinstance(kind.length, Scalar))


def _decided_by(struct: Struct, selector: Field) -> list[Field]:
    return [
        field
        for field in struct.fields
        if field.when is not None and field.when.alternatives[0][0].field is selector
    ]


def _there_with(struct: Struct, selector: Field, number: int) -> set[int]:
    """The fields that are on the wire when the selector has this value, among those that depend on it."""
    return {
        id(field)
        for field in _decided_by(struct, selector)
        if field.when is not None and any(one[0].number == number for one in field.when.alternatives)
    }


def _uncompared(comparisons: list[Comparison]) -> int:
    """A value that no condition names."""
    numbers = {comparison.number for comparison in comparisons}
    return next(number for number in range(len(numbers) + 1) if number not in numbers)
