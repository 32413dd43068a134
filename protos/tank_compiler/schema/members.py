"""Typed access to the members of a JSON object; wrong types are DefinitionErrors."""

from collections.abc import Iterable

from tank_compiler.schema.errors import DefinitionError, Place
from tank_compiler.schema.names import FIELD_NAME, STRUCT_NAME
from tank_compiler.schema.schema import Versions
from tank_compiler.schema.source import Node

_KINDS = {
    str: "a string in double quotes",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


class Members:
    """The members of one object. `subject` names it in errors: the message, or a field with its struct."""

    def __init__(self, node: Node, subject: str, known: Iterable[str]) -> None:
        if not isinstance(node.value, dict):
            raise DefinitionError(node.place, subject, 'expected an object: { "name": ... }')
        self.place = node.place
        self.subject = subject
        self._nodes = node.value
        known = list(known)
        for key, value in node.value.items():
            if key in known:
                continue
            raise DefinitionError(
                value.place, subject, f"unknown key '{key}'; known are {', '.join(sorted(known))}"
            )

    def error(self, key: str, what: str) -> DefinitionError:
        node = self._nodes.get(key)
        return DefinitionError(node.place if node else self.place, self.subject, what)

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def place_of(self, key: str) -> Place:
        node = self._nodes.get(key)
        return node.place if node else self.place

    def node(self, key: str) -> Node:
        if key not in self._nodes:
            raise self.error(key, f"the key '{key}' is missing; add it")
        return self._nodes[key]

    def check_name(self, name: str, what: str) -> None:
        """Raises DefinitionError when `name` is not in CamelCase."""
        if not STRUCT_NAME.fullmatch(name):
            raise self.error(
                "name", f"'{name}' is no name; {what} is letters and digits and begins with a capital"
            )

    def check_field_name(self, name: str) -> None:
        """Raises DefinitionError as `check_name`, but a field's name may begin with a small letter."""
        if not FIELD_NAME.fullmatch(name):
            raise self.error("name", f"'{name}' is no name; a field's name is letters and digits")

    def text(self, key: str) -> str:
        value = self.node(key).value
        if not isinstance(value, str):
            raise self.wrong_kind(key, str)
        return value

    def whole_number(self, key: str) -> int:
        value = self.node(key).value
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong_kind(key, int)
        return value

    def number(self, key: str) -> int:
        """A whole number, which old definitions of the Kafka project may write as a string."""
        value = self.node(key).value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
            return int(value)
        return self.whole_number(key)

    def flag(self, key: str) -> bool:
        """True or false; false without the key. Old definitions of the Kafka project may write it as a
        string."""
        if key not in self._nodes:
            return False
        value = self._nodes[key].value
        if value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise self.wrong_kind(key, bool)
        return value

    def nodes(self, key: str) -> list[Node]:
        value = self.node(key).value
        if not isinstance(value, list):
            raise self.wrong_kind(key, list)
        return value

    def versions(self, key: str) -> Versions:
        text = self.text(key)
        low, dash, high = text.partition("-")
        try:
            if text.endswith("+"):
                versions = Versions(_digits(text[:-1]), None)
            else:
                versions = Versions(_digits(low), _digits(high) if dash else _digits(low))
        except ValueError:
            raise self.error(key, f"'{key}' is '{text}'; write versions as 3, 0-3 or 3+") from None
        if versions.high is not None and versions.high < versions.low:
            raise self.error(key, f"'{key}' is '{text}', which holds no version; put the lower number first")
        return versions

    def versions_or_none(self, key: str) -> Versions | None:
        """A range of versions, or None for the text "none"."""
        return None if self.text(key) == "none" else self.versions(key)

    def wrong_kind(self, key: str, kind: type) -> DefinitionError:
        return self.error(key, f"'{key}' must be {_KINDS[kind]}")


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 5:
        raise ValueError(text)
    return int(text)
