"""Decoded values as readable JSON: bytes become text if they are text, and long values are cut."""

import base64
import math
from dataclasses import dataclass
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class Cut:
    """The limits above which a long value is cut; None: no limit."""

    characters: int | None = 120
    """Characters of a text, or bytes of a value that is no text."""
    elements: int | None = 20
    """Elements of a list."""


WHOLE = Cut(None, None)


def readable(value: object, cut: Cut) -> JsonValue:
    """The JSON form of a decoded value: a dict, list, number, text, bytes or None.

    Bytes that are printable UTF-8 become a string; others, and texts that are not UTF-8, become
    `{"base64": ...}`. A cut value has its whole size beside it: `{"text": "...", "bytes": 5000}`; a cut list
    ends with `{"more": 480}`.
    """
    if isinstance(value, dict):
        return {str(key): readable(inner, cut) for key, inner in value.items()}
    if isinstance(value, list):
        shown = [readable(inner, cut) for inner in value[: cut.elements]]
        return [*shown, {"more": len(value) - len(shown)}] if len(shown) < len(value) else shown
    if isinstance(value, str):
        return _text(value, cut)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value), cut)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no form for it
    assert value is None or isinstance(value, bool | int | float), f"no decoder gives a {type(value)}"
    return value


def _text(value: str, cut: Cut) -> JsonValue:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return _bytes(value.encode("utf-8", "surrogateescape"), cut)
    if cut.characters is None or len(value) <= cut.characters:
        return value
    return {"text": value[: cut.characters], "bytes": size}


def _bytes(value: bytes, cut: Cut) -> JsonValue:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if all(character.isprintable() or character in "\t\r\n" for character in text):
        return _text(text, cut)
    shown = base64.b64encode(value[: cut.characters]).decode()
    whole = cut.characters is None or len(value) <= cut.characters
    return {"base64": shown} if whole else {"base64": shown, "bytes": len(value)}
