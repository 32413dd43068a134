"""Definitions in two states, and what the check says of them: for the tests of `tank-protos check`."""

import json
from typing import Any

from tank_compiler.schema.loading import load_protocol
from tank_compiler.tools import compatibility

Keys = dict[str, Any]


def definition(*fields: Keys, **keys: Any) -> str:
    """A definition as Kafka writes them; the first field is on line 2."""
    head: Keys = {"apiKey": 1, "type": "request", "name": "Example", "validVersions": "0-3"}
    head |= {"flexibleVersions": "2+"} | keys
    members = json.dumps({key: value for key, value in head.items() if value is not None})[1:-1]
    lines = ",\n".join(json.dumps({"versions": "0+", "about": "A field."} | field) for field in fields)
    return f'{{{members}, "fields": [\n{lines}\n]}}'


def found(old: str | list[str], new: str | list[str]) -> tuple[list[str], list[str]]:
    """What the check says, without places: (breaks, notes)."""
    olds, news = ([text] if isinstance(text, str) else text for text in (old, new))
    before = load_protocol("old", [(f"old{at}.json", text) for at, text in enumerate(olds)])
    after = load_protocol("new", [(f"new{at}.json", text) for at, text in enumerate(news)])
    findings = compatibility.compare(before, after).findings
    told = [(one.is_break, f"{one.subject} {one.versions}: {one.what}") for one in findings]
    return [text for is_break, text in told if is_break], [text for is_break, text in told if not is_break]


def broken(old: str | list[str], new: str | list[str]) -> list[str]:
    """The breaks alone."""
    return found(old, new)[0]


def number(name: str, **keys: Any) -> Keys:
    """An int32."""
    return {"name": name, "type": "int32"} | keys


def text(name: str, **keys: Any) -> Keys:
    """A string."""
    return {"name": name, "type": "string"} | keys


def struct(name: str, *fields: Keys, **keys: Any) -> Keys:
    """A field whose value is the struct Inner."""
    inner = [{"versions": "0+", "about": "A field."} | field for field in fields]
    return {"name": name, "type": "Inner", "fields": inner} | keys


A, B = number("A"), text("B")
TAGGED: Keys = {"versions": "2+", "taggedVersions": "2+", "tag": 0}
