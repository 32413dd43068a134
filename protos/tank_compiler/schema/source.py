"""Reads a definition: JSON with `//` comments, with the line number of each value.

The standard `json` module knows neither comments nor lines, and silently takes the last of repeated keys.
"""

import re
from dataclasses import dataclass
from typing import Final

from tank_compiler.schema.errors import DefinitionError, Place

MAX_NUMBER_CHARACTERS: Final = 40
"""A 64-bit integer has 20 digits; Python refuses to read one of many thousand."""
MAX_DEPTH: Final = 64
"""How deep a definition may nest. The deepest of the Kafka project's has 12 levels."""

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ESCAPES = re.compile(r'(?:\\u[0-9a-fA-F]{4})+|\\["\\/bfnrt]')
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


@dataclass(slots=True)
class Node:
    """A JSON value and its place in the file. Objects hold nodes by key, lists hold nodes."""

    value: "dict[str, Node] | list[Node] | str | int | float | bool | None"
    place: Place


def read(text: str, file: str) -> Node:
    """Returns the value in `text`. `file`: the name in error messages. Raises DefinitionError."""
    reader = _Reader(text, file)
    node = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        raise reader.error("expected nothing after the definition; remove what follows it")
    return node


def stated_name(node: Node) -> str:
    """The name in an object that isn't checked yet, for error messages; empty when there is none."""
    name = node.value.get("name") if isinstance(node.value, dict) else None
    return name.value if name is not None and isinstance(name.value, str) else ""


def leading_comment(text: str) -> str:
    """The comment before the definition, as one paragraph."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return " ".join(lines)


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.line = 1

    def place(self) -> Place:
        return Place(self.file, self.line)

    def error(self, what: str) -> DefinitionError:
        return DefinitionError(self.place(), "", what)

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        assert match is not None, "the pattern matches nothing, too"
        self.line += match.group().count("\n")
        self.at = match.end()

    def peek(self) -> str:
        self.skip()
        return self.text[self.at : self.at + 1]

    def expect(self, token: str, after: str) -> None:
        if self.peek() != token:
            raise self.error(f"expected '{token}' {after}")
        self.at += 1

    def value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels; flatten it")
        first = self.peek()
        place = self.place()
        if first == "{":
            return Node(self.members(depth), place)
        if first == "[":
            return Node(self.elements(depth), place)
        if first == '"':
            return Node(self.string(), place)
        return Node(self.atom(), place)

    def members(self, depth: int) -> dict[str, Node]:
        self.at += 1
        members: dict[str, Node] = {}
        if self.peek() == "}":
            self.at += 1
            return members
        while True:
            if self.peek() != '"':
                raise self.error("expected a key in double quotes")
            key = self.string()
            place = self.place()
            self.expect(":", f"after the key '{key}'")
            value = self.value(depth + 1)
            # A few of the Kafka project's definitions repeat a key with the same value.
            if key in members and members[key].value != value.value:
                raise DefinitionError(place, "", f"the key '{key}' stands here twice; keep one")
            members[key] = value
            if self.peek() == "}":
                self.at += 1
                return members
            self.expect(",", f"or '}}' after the value of '{key}'")

    def elements(self, depth: int) -> list[Node]:
        self.at += 1
        elements: list[Node] = []
        if self.peek() == "]":
            self.at += 1
            return elements
        while True:
            elements.append(self.value(depth + 1))
            if self.peek() == "]":
                self.at += 1
                return elements
            self.expect(",", "or ']' after a list's element")

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise self.error("a string without an end, or with a wrong escape in it")
        self.at = match.end()
        try:
            text = _ESCAPES.sub(_unescape, match.group(1))
            text.encode()
        except UnicodeError:
            raise self.error("half of a surrogate pair, which is no character; write both") from None
        return text

    def atom(self) -> int | float | bool | None:
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        match = _NUMBER.match(self.text, self.at)
        if match is not None and len(match.group()) > MAX_NUMBER_CHARACTERS:
            raise self.error(f"a number of more than {MAX_NUMBER_CHARACTERS} characters; nothing holds it")
        if match is None:
            raise self.error("expected a value: an object, a list, a string, a number, true, false or null")
        self.at = match.end()
        return float(match.group()) if match.group(1) or match.group(2) else int(match.group())


def _unescape(match: re.Match[str]) -> str:
    """A run of `\\uXXXX` is UTF-16, so that a pair of surrogates becomes one character."""
    escapes = match.group()
    if escapes.startswith("\\u"):
        return bytes.fromhex(escapes.replace("\\u", "")).decode("utf-16-be")
    return _ESCAPED.get(escapes[1], escapes[1])
