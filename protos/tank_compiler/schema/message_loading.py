"""Loads one message: its own keys here, its structs and fields in `struct_loading`."""

from collections.abc import Mapping
from typing import Final, TypeVar

from tank_compiler.schema import counts, fast_writers, layouts
from tank_compiler.schema.field_types import WIDTHS
from tank_compiler.schema.members import Members
from tank_compiler.schema.schema import INTEGERS, Field, Kind, Message, Removed, Scalar, Struct, Versions
from tank_compiler.schema.struct_loading import StructLoader

T = TypeVar("T")

MESSAGE_KEYS: Final = frozenset(
    {
        "id",
        "idType",
        "apiKey",
        "type",
        "name",
        "byteOrder",
        "validVersions",
        "versionField",
        "about",
        "fields",
        "fast",
        "fastFrames",
    }
    | {"flexibleVersions", "commonStructs", "listeners", "latestVersionUnstable", "deprecatedVersions"}
)

ID_TYPES: Final = WIDTHS
"""The types that an id can have in a frame's header; TANK's ids are one byte."""
MAX_API_KEY: Final = 32767
"""Kafka's api key is an int16."""


class MessageLoader:
    """Reads the members of a definition's one object. `shared`: the messages that can be types of fields."""

    def __init__(self, members: Members, shared: Mapping[str, Members]) -> None:
        self.members = members
        self._shared = shared

    def message(self, notes: str) -> Message | Removed:
        """Returns the message, or a Removed for one without versions. Raises DefinitionError."""
        members = self.members
        kind = self._one_of("type", {kind.value: kind for kind in Kind})
        little = self._one_of("byteOrder", {"big": False, "little": True}, "big")
        number = self._number(kind)
        versions = members.versions_or_none("validVersions")
        if versions is None:
            return Removed(members.text("name"), number, kind, members.place)
        if versions.high is None:
            raise members.error("validVersions", "'validVersions' needs an upper end; write 0-3, not 0+")
        flexible = self._some_of("flexibleVersions", versions)
        states_widths = "id" in members or "byteOrder" in members
        structs = StructLoader(members, versions, flexible, self._shared, states_widths=states_widths)
        root = structs.root()
        message = Message(number, kind, little, versions, None, root, notes, structs.structs, flexible)
        message.version_field = self._version_field(root, versions)
        if message.version_field is not None and flexible is not None:
            what = "a message that states its version has no flexible versions; remove one of both keys"
            raise members.error("flexibleVersions", what)
        message.deprecated = self._some_of("deprecatedVersions", versions)
        message.is_latest_unstable = members.flag("latestVersionUnstable")
        message.listeners = self._listeners()
        message.id_type = self._id_type()
        message.has_api_key = "apiKey" in members
        layouts.check(message)
        counts.check(message)
        message.fast_writers = fast_writers.load(message, members, structs.fast)
        return message

    def _number(self, kind: Kind) -> int | None:
        """The frame's id, or the api key."""
        members = self.members
        if "apiKey" in members and "id" in members:
            raise members.error(
                "apiKey", "say either 'id' (a frame of ours) or 'apiKey' (a request of Kafka)"
            )
        if "apiKey" in members:
            number = members.whole_number("apiKey")
            if not 0 <= number <= MAX_API_KEY:
                raise members.error("apiKey", f"the api key {number} is no int16; use 0..{MAX_API_KEY}")
            return number
        if "id" not in members and kind in (Kind.DATA, Kind.HEADER):
            return None
        number, width = members.whole_number("id"), self._id_type()
        if not 0 <= number <= width.high:
            what = f"the id {number} does not fit into a {width.name}; use 0..{width.high}"
            wider = "" if width is INTEGERS["uint32"] else ", or a wider 'idType'"
            raise members.error("id", what + wider)
        return number

    def _id_type(self) -> Scalar:
        if "idType" in self.members and "id" not in self.members:
            raise self.members.error("idType", "a message without an 'id' has none; remove 'idType'")
        return self._one_of("idType", ID_TYPES, "uint8")

    def _one_of(self, key: str, values: dict[str, T], default: str | None = None) -> T:
        text = default if default is not None and key not in self.members else self.members.text(key)
        if text not in values:
            raise self.members.error(key, f"'{key}' is '{text}'; use one of {', '.join(values)}")
        return values[text]

    def _some_of(self, key: str, versions: Versions) -> Versions | None:
        """The valid versions among those that `key` names; None: there are none."""
        stated = self.members.versions_or_none(key) if key in self.members else None
        return stated.within(versions) if stated is not None else None

    def _listeners(self) -> tuple[str, ...]:
        if "listeners" not in self.members:
            return ()
        found = [node.value for node in self.members.nodes("listeners")]
        texts = tuple(value for value in found if isinstance(value, str))
        if len(texts) != len(found):
            raise self.members.error("listeners", "'listeners' must be a list of strings in double quotes")
        return texts

    def _version_field(self, root: Struct, versions: Versions) -> Field | None:
        if "versionField" not in self.members:
            return None
        name = self.members.text("versionField")
        for field in root.fields:
            if field.versions is not None or field.when is not None:
                break
            if field.name == name and isinstance(field.type, Scalar) and field.type.high:
                if not versions.high_end <= field.type.high:
                    what = f"the version field '{name}' holds no version above {field.type.high}"
                    raise self.members.error("validVersions", f"{what}; use a wider type, or end there")
                return field
        what = f"the version field '{name}' must be an integer before every field with versions or 'when'"
        raise self.members.error("versionField", what)
