"""Loads the structs of one message with their fields, also those that several fields share."""

from collections.abc import Mapping
from typing import Final

from tank_compiler.schema import conditions, field_types, names, tags, values
from tank_compiler.schema.conditions import Scope
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.members import Members
from tank_compiler.schema.schema import Array, Field, Struct, Versions
from tank_compiler.schema.source import Node, stated_name

FIELD_KEYS: Final = frozenset(
    {"name", "type", "versions", "nullableVersions", "default", "about", "fields", "length", "lengthFrom"}
    | {"count", "countFrom", "keepPrefix", "when", "measures", "marker", "ignorable", "mapKey", "entityType"}
    | {"tag", "taggedVersions", "flexibleVersions", "zeroCopy", "fast", "counted"}
)
COMMON_KEYS: Final = frozenset({"name", "versions", "fields", "about"})

MAX_NESTING: Final = 8
"""How deep structs may nest. Generated code nests two blocks for each, and Python allows twenty nested
blocks."""


class StructLoader:
    """Collects the structs of a message. `flexible`: the message's flexible versions. `messages`: those of
    other definitions that can be types of fields here."""

    def __init__(
        self,
        members: Members,
        versions: Versions,
        flexible: Versions | None,
        messages: Mapping[str, Members],
        *,
        states_widths: bool,
    ) -> None:
        self._members = members
        self._versions = versions
        self._flexible = flexible
        self._messages = messages
        self._states_widths = states_widths
        self._depth = 0
        self.structs: list[Struct] = []
        self._unmeasured: list[tuple[Field, Members]] = []
        self.fast: list[tuple[Struct, Members]] = []
        """The structs that have fast writers, each with the members of its list's definition."""
        self._common = self._common_structs()
        self._shared: dict[str, Struct] = {}
        self._open: list[str] = []
        """The names of the shared structs that are being read, to find a struct that contains itself."""

    def root(self) -> Struct:
        """Reads and returns the message's own struct. Raises DefinitionError."""
        members = self._members
        root = self._struct(members, members.text("name"), Scope(), self._versions, is_root=True)
        for field, of_field in self._unmeasured:
            values.set_measures(field, of_field, root)
        if root.keys:
            key = root.keys[0]
            what = "only elements of a list are found by a key; remove 'mapKey'"
            raise DefinitionError(key.place, f"{root.name}.{key.name}", what)
        return root

    def _common_structs(self) -> dict[str, Members]:
        found: dict[str, Members] = {}
        for node in self._members.nodes("commonStructs") if "commonStructs" in self._members else []:
            common = Members(node, stated_name(node), COMMON_KEYS)
            name = common.text("name")
            common.check_name(name, "a struct's name")
            if name in found:
                raise common.error("name", f"the message has two structs called '{name}'; rename one of them")
            found[name] = common
        return found

    def _shared_struct(self, name: str, members: Members, needed: Versions) -> Struct:
        """Returns a struct of `commonStructs`, or a message of its own, for the field `members`, which needs
        it in versions `needed`."""
        if name in self._open:
            chain = " -> ".join([*self._open, name])
            raise members.error("type", f"a struct cannot hold itself ({chain}); break the circle")
        if name not in self._shared:
            self._open.append(name)
            self._shared[name] = self._common_struct(name) if name in self._common else self._message(name)
            self._open.pop()
        found = self._shared[name]
        if needed.within(found.versions) != needed:
            what = f"the struct '{name}' is there in versions {found.versions}, this field in {needed}"
            raise members.error("type", f"{what}; give the struct all that are needed")
        return found

    def _common_struct(self, name: str) -> Struct:
        common = self._common[name]
        versions = self._versions
        if "versions" in common:
            versions = _within(common, "versions", self._versions) or self._versions
        return self._struct(common, name, Scope(), versions, is_root=False)

    def _message(self, name: str) -> Struct:
        """Another definition's message as a struct of this one. It has all fields of all versions, because
        its class has them."""
        message = self._messages[name]
        if message.text("byteOrder") != self._members.text("byteOrder"):
            raise message.error("byteOrder", f"{self._members.subject} uses it, and has the other byte order")
        found = self._struct(message, name, Scope(), message.versions("validVersions"), is_root=False)
        found.is_message = True
        return found

    def _struct(
        self, members: Members, name: str, scope: Scope, versions: Versions, *, is_root: bool
    ) -> Struct:
        about = members.text("about") if "about" in members else ""
        if names.is_python_keyword(name) or name in names.RESERVED_STRUCTS:
            what = f"'{name}' has a meaning in Python or in generated code; rename the struct"
            raise DefinitionError(members.place, name, what)
        if self._depth > MAX_NESTING:
            raise members.error("fields", f"structs nest deeper than {MAX_NESTING}; flatten them")
        self._depth += 1
        struct = Struct(name, about, members.place, versions)
        struct.keeps_tags = self._flexible is not None and self._flexible.within(versions) is not None
        nodes = members.nodes("fields")
        for at, node in enumerate(nodes):
            may_take_rest = is_root and at + 1 == len(nodes) and not struct.keeps_tags
            field = self._field(node, struct, scope, versions, may_take_rest=may_take_rest)
            if field is None:
                continue
            self._check_clash(field, struct)
            struct.fields.append(field)
            scope.add(field)
        self._depth -= 1
        tags.check(struct)
        self._check_name(members, struct)
        self.structs.append(struct)
        return struct

    def _check_name(self, members: Members, struct: Struct) -> None:
        """Raises DefinitionError when two classes of the module would have one name: structs, or keyed
        lists."""
        taken = {other.name for other in self.structs} | {
            other.collection for other in self.structs if other.keys
        }
        if struct.name in taken or (struct.keys and struct.collection in taken):
            what = "the message has two structs of this name; rename one of them"
            raise DefinitionError(members.place, struct.name, what)

    def _field(
        self, node: Node, struct: Struct, scope: Scope, versions: Versions, *, may_take_rest: bool
    ) -> Field | None:
        """Reads a field; None when no version that had the field is left."""
        stated = stated_name(node)
        subject = f"{struct.name}.{stated}" if stated else struct.name
        members = Members(node, subject, FIELD_KEYS)
        name = members.text("name")
        members.check_field_name(name)
        field_versions = _within(members, "versions", versions) if "versions" in members else versions
        if field_versions is None:
            return None
        inner = Scope(scope)

        def nested(type_name: str) -> Struct:
            if "fields" not in members and (type_name in self._common or type_name in self._messages):
                return self._shared_struct(type_name, members, field_versions)
            if type_name in self._common or any(other.name == type_name for other in self.structs):
                raise members.error(
                    "type", f"the message has two structs called '{type_name}'; rename one of them"
                )
            if "fields" not in members:
                raise members.error("type", f"the struct '{type_name}' has no fields; add 'fields'")
            return self._struct(members, type_name, inner, field_versions, is_root=False)

        field_type = field_types.parse(
            members, scope, nested, may_take_rest=may_take_rest, states_widths=self._states_widths
        )
        if "versionField" in self._members:
            field_type = field_types.without_compact(field_type)
        about = members.text("about") if "about" in members or self._states_widths else ""
        field = Field(name, names.snake_case(name), field_type, about, members.place)
        field.versions = None if field_versions == versions else field_versions
        if "when" in members:
            field.when = conditions.parse(members.text("when"), scope, members.place_of("when"), subject)
        field.flexible = self._flexible_versions(members)
        values.set_nullable(field, members, field_versions)
        values.set_default(field, members, field_versions)
        self._set_notes(field, members)
        tags.set_tag(field, members, field_versions)
        if "measures" in members:
            self._unmeasured.append((field, members))
        if "fast" in members:
            if not (isinstance(field_type, Array) and isinstance(field_type.element, Struct)):
                raise members.error(
                    "fast", "only a message, or a list of structs, has fast writers; remove 'fast'"
                )
            self.fast.append((field_type.element, members))
        return field

    def _flexible_versions(self, members: Members) -> Versions | None:
        if "flexibleVersions" not in members:
            return self._flexible
        stated = members.versions_or_none("flexibleVersions")
        found = stated.within(self._versions) if stated is not None else None
        if found is not None and (self._flexible is None or found.within(self._flexible) != found):
            what = f"versions {found} are not all among the message's flexible ones; write fewer, or none"
            raise members.error("flexibleVersions", what)
        return found

    def _set_notes(self, field: Field, members: Members) -> None:
        """Reads the keys that do not change the bytes."""
        field.is_ignorable = members.flag("ignorable")
        field.is_key = members.flag("mapKey")
        field.is_counted = members.flag("counted")
        members.flag("zeroCopy")  # every payload is a slice here
        if "entityType" in members:
            field.entity_type = members.text("entityType")
        if field.is_key and not field_types.can_be_key(field.type):
            what = f"lists are not searched for a '{members.text('type')}'; remove 'mapKey'"
            raise members.error("mapKey", what)

    def _check_clash(self, field: Field, struct: Struct) -> None:
        subject = f"{struct.name}.{field.name}"
        if names.is_python_keyword(field.python_name) or field.python_name in names.RESERVED:
            what = f"'{field.python_name}' has a meaning in Python or in generated code; rename the field"
            raise DefinitionError(field.place, subject, what)
        for other in struct.fields:
            if other.python_name == field.python_name:
                what = f"the field at {other.place} becomes '{field.python_name}' in Python, too; rename one"
                raise DefinitionError(field.place, subject, what)


def _within(members: Members, key: str, outer: Versions) -> Versions | None:
    """The stated versions that the enclosing struct has, too; None: all are before its first."""
    stated = members.versions(key)
    found = stated.within(outer)
    if found is None and (stated.high is None or stated.high >= outer.low):
        what = f"versions {stated} are none of those of the enclosing struct, {outer}; name some that it has"
        raise members.error(key, what)
    return found
