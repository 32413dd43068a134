"""Definitions that a test writes, compiled and imported."""

import itertools
import json
import sys
from types import ModuleType
from typing import Any

from tank_compiler.emit import module as emit_module
from tank_compiler.schema.loading import load_message
from tank_compiler.schema.schema import Message

_numbers = itertools.count()


def definition(*fields: dict[str, Any], **keys: Any) -> str:
    """The text of a definition with these fields, each on a line of its own, the first on line 2.

    A key that is None is left out.
    """
    head = {
        "id": 1,
        "type": "request",
        "name": "Example",
        "validVersions": "0",
        "about": "An example.",
    } | keys
    head = {key: value for key, value in head.items() if value is not None}
    members = json.dumps(head)[1:-1]
    lines = ",\n".join(json.dumps({"about": "A field."} | field) for field in fields)
    return f'{{{members}, "fields": [\n{lines}\n]}}'


def load(*fields: dict[str, Any], **keys: Any) -> Message:
    """The schema of such a definition."""
    return load_message(definition(*fields, **keys), "example.json")


def load_api(*fields: dict[str, Any], **keys: Any) -> Message:
    """The schema of a definition as the Kafka project writes them: an api key, lengths as they are there."""
    return load(*fields, **({"id": None, "apiKey": 1} | keys))


def module_of(message: Message) -> ModuleType:
    """The generated module of a message."""
    module = ModuleType(f"compiled_{next(_numbers)}")
    sys.modules[module.__name__] = module
    exec(compile(emit_module.module(message, "example.json"), module.__name__, "exec"), module.__dict__)
    return module


def compiled(*fields: dict[str, Any], **keys: Any) -> Any:
    """The generated class of such a definition."""
    return module_of(load(*fields, **keys)).Example
