"""From a definition's text to a checked schema. What is wrong is a DefinitionError with file and line."""

from collections.abc import Iterable
from typing import Final, TypeVar

from tank_protos.compiler import conditions, field_types, names, source, values
from tank_protos.compiler.conditions import Scope
from tank_protos.compiler.errors import DefinitionError
from tank_protos.compiler.members import Members
from tank_protos.compiler.schema import (
    Field,
    Kind,
    Message,
    Protocol,
    Scalar,
    Struct,
    Versions,
)
from tank_protos.compiler.source import Node

T = TypeVar("T")

MESSAGE_KEYS: Final = frozenset(
    {"id", "type", "name", "byteOrder", "validVersions", "versionField", "about", "fields"}
)
FIELD_KEYS: Final = frozenset(
    {
        "name",
        "type",
        "versions",
        "nullableVersions",
        "default",
        "about",
        "fields",
        "length",
        "lengthFrom",
        "count",
    }
    | {"countFrom", "keepPrefix", "when", "measures", "marker"}
)
# The rest of the Kafka project's keys; what will understand them belongs in this module and in field_types.
LATER_MESSAGE_KEYS: Final = frozenset(
    {
        "apiKey",
        "flexibleVersions",
        "commonStructs",
        "listeners",
        "latestVersionUnstable",
        "deprecatedVersions",
    }
)
LATER_FIELD_KEYS: Final = frozenset(
    {"taggedVersions", "tag", "ignorable", "mapKey", "entityType", "flexibleVersions", "zeroCopy"}
)

MAX_ID: Final = 255
"""A frame's id is one byte."""


def load_protocol(name: str, definitions: Iterable[tuple[str, str]]) -> Protocol:
    """A protocol from (file name, text) pairs. Raises DefinitionError."""
    messages = [load_message(text, file) for file, text in sorted(definitions)]
    _check_structs(messages)
    _check_messages(messages)
    order = list(Kind)
    messages.sort(key=lambda message: (message.id, order.index(message.kind)))
    return Protocol(name, messages)


def _check_structs(messages: list[Message]) -> None:
    """A protocol's structs are all in one Python package."""
    found: dict[str, Struct] = {}
    for struct in (struct for message in messages for struct in message.structs):
        other = found.setdefault(struct.name, struct)
        if other is not struct:
            what = f"a struct of this name is declared at {other.place}; rename one of them"
            raise DefinitionError(struct.place, struct.name, what)


def _check_messages(messages: list[Message]) -> None:
    """A protocol's messages each have an id and a Python module of their own."""
    ids: dict[tuple[Kind, int], Message] = {}
    modules: dict[str, Message] = {}
    for message in messages:
        name, place = message.root.name, message.root.place
        same = ids.setdefault((message.kind, message.id), message)
        if same is not message:
            what = (
                f"the {message.kind.value} {same.root.name} has the id {message.id}, too; give it another one"
            )
            raise DefinitionError(place, name, what)
        module = names.snake_case(name)
        if names.is_python_keyword(module) or module in names.RESERVED_MODULES:
            what = f"a module cannot be called '{module}' in generated code; rename the message"
            raise DefinitionError(place, name, what)
        other = modules.setdefault(module, message)
        if other is not message:
            what = f"the message at {other.root.place} becomes the module '{module}', too; rename one of them"
            raise DefinitionError(place, name, what)


def load_message(text: str, file: str) -> Message:
    """One message. Raises DefinitionError."""
    node = source.read(text, file)
    members = Members(node, _stated_name(node), MESSAGE_KEYS, LATER_MESSAGE_KEYS)
    members.check_name(members.text("name"), "a struct's name")
    return _MessageLoader(members).message(source.leading_comment(text))


def _stated_name(node: Node) -> str:
    """The name in an object that is yet to be checked, for errors about it; empty when there is none."""
    name = node.value.get("name") if isinstance(node.value, dict) else None
    return name.value if name is not None and isinstance(name.value, str) else ""


class _MessageLoader:
    def __init__(self, members: Members) -> None:
        self.members = members
        self.structs: list[Struct] = []
        self._unmeasured: list[tuple[Field, Members]] = []
        self.versions = members.versions("validVersions")

    def message(self, notes: str) -> Message:
        members = self.members
        kind = self._one_of("type", {kind.value: kind for kind in Kind})
        little = self._one_of("byteOrder", {"big": False, "little": True}, "big")
        number = members.whole_number("id")
        if not 0 <= number <= MAX_ID:
            raise members.error("id", f"the id {number} does not fit into a byte; use 0..{MAX_ID}")
        if self.versions.high is None:
            raise members.error("validVersions", "'validVersions' needs an upper end; write 0-3, not 0+")
        root = self._struct(members, members.text("name"), Scope(), self.versions, is_root=True)
        self._resolve_measures(root)
        version_field = self._version_field(root)
        return Message(number, kind, little, self.versions, version_field, root, notes, self.structs)

    def _one_of(self, key: str, values: dict[str, T], default: str | None = None) -> T:
        text = default if default is not None and key not in self.members else self.members.text(key)
        if text not in values:
            raise self.members.error(key, f"'{key}' is '{text}'; use one of {', '.join(values)}")
        return values[text]

    def _version_field(self, root: Struct) -> Field | None:
        if "versionField" not in self.members:
            return None
        name = self.members.text("versionField")
        for field in root.fields:
            if field.versions is not None or field.when is not None:
                break
            if field.name == name and isinstance(field.type, Scalar) and field.type.high:
                if not self.versions.high_end <= field.type.high:
                    what = f"the version field '{name}' holds no version above {field.type.high}"
                    raise self.members.error("validVersions", f"{what}; use a wider type, or end there")
                return field
        what = f"the version field '{name}' must be an integer before every field with versions or 'when'"
        raise self.members.error("versionField", what)

    def _struct(
        self, members: Members, name: str, scope: Scope, versions: Versions, *, is_root: bool
    ) -> Struct:
        about = members.text("about") if "about" in members else ""
        if names.is_python_keyword(name) or name in names.RESERVED_STRUCTS:
            what = f"'{name}' has a meaning in Python or in generated code; rename the struct"
            raise DefinitionError(members.place, name, what)
        struct = Struct(name, about, members.place, versions)
        nodes = members.nodes("fields")
        for at, node in enumerate(nodes):
            field = self._field(node, struct, scope, versions, may_take_rest=is_root and at + 1 == len(nodes))
            self._check_clash(field, struct)
            struct.fields.append(field)
            scope.add(field)
        if any(other.name == name for other in self.structs):
            raise DefinitionError(
                members.place, name, "the message has two structs of this name; rename one of them"
            )
        self.structs.append(struct)
        return struct

    def _field(
        self, node: Node, struct: Struct, scope: Scope, versions: Versions, *, may_take_rest: bool
    ) -> Field:
        stated = _stated_name(node)
        subject = f"{struct.name}.{stated}" if stated else struct.name
        members = Members(node, subject, FIELD_KEYS, LATER_FIELD_KEYS)
        name = members.text("name")
        members.check_name(name, "a field's name")
        python_name = names.snake_case(name)
        field_versions = self._field_versions(members, versions)
        inner = Scope(scope)

        def nested(type_name: str) -> Struct:
            if any(other.name == type_name for other in self.structs):
                raise members.error(
                    "type", f"the message has two structs called '{type_name}'; rename one of them"
                )
            return self._struct(members, type_name, inner, field_versions, is_root=False)

        field_type = field_types.parse(members, scope, nested, may_take_rest=may_take_rest)
        field = Field(name, python_name, field_type, members.text("about"), members.place)
        field.versions = None if field_versions == versions else field_versions
        if "when" in members:
            field.when = conditions.parse(members.text("when"), scope, members.place_of("when"), subject)
        values.set_nullable(field, members, field_versions)
        values.set_default(field, members, field_versions)
        if "measures" in members:
            self._unmeasured.append((field, members))
        return field

    def _field_versions(self, members: Members, outer: Versions) -> Versions:
        if "versions" not in members:
            return outer
        stated = members.versions("versions")
        versions = stated.within(outer)
        if versions is None:
            what = (
                f"versions {stated} are none of those of the enclosing struct, {outer}; name some that it has"
            )
            raise members.error("versions", what)
        return versions

    def _check_clash(self, field: Field, struct: Struct) -> None:
        subject = f"{struct.name}.{field.name}"
        if names.is_python_keyword(field.python_name) or field.python_name in names.RESERVED:
            what = f"'{field.python_name}' has a meaning in Python or in generated code; rename the field"
            raise DefinitionError(field.place, subject, what)
        for other in struct.fields:
            if other.python_name == field.python_name:
                what = f"the field at {other.place} becomes '{field.python_name}' in Python, too; rename one"
                raise DefinitionError(field.place, subject, what)

    def _resolve_measures(self, root: Struct) -> None:
        for field, members in self._unmeasured:
            values.set_measures(field, members, root)
