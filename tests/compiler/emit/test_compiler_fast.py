"""Fast writers: what a definition can ask for, and what it can't."""

from types import ModuleType
from typing import Any

import pytest

from tank_compiler.emit import fast
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.loading import load_protocol
from tests.support.compiled import definition

RESULT: dict[str, Any] = {"name": "Error", "type": "uint8", "about": "An error."}
RESULTS: dict[str, Any] = {"name": "Results", "type": "[]Result", "count": "uint8", "fields": [RESULT]}
HOST: dict[str, Any] = {
    "name": "Host",
    "type": "str8",
    "about": "A host.",
    "when": "Error == 7 or Error == 8",
}
NUMBER: dict[str, Any] = {"name": "Number", "type": "uint16"}
LITTLE: dict[str, Any] = {"byteOrder": "little"}


def fast_module(*fields: dict[str, Any], **keys: Any) -> ModuleType:
    protocol = load_protocol("example", [("example.json", definition(*fields, **(LITTLE | keys)))])
    module = ModuleType("fast")
    exec(compile(fast.module(protocol), "fast", "exec"), module.__dict__)
    return module


def test_a_protocol_without_has_no_module() -> None:
    assert not fast.module(load_protocol("example", [("example.json", definition(NUMBER))]))


def test_a_value_that_others_share_a_layout_with_is_an_argument() -> None:
    results = RESULTS | {
        "fields": [RESULT, HOST],
        "fast": {"Stored": {"Error": 0}, "Elsewhere": {"Error": 7}},
    }
    made = fast_module(results)
    assert made.stored(9) == b"\x09"
    assert made.elsewhere(8, "ab") == b"\x08\x02ab"


def test_the_only_value_of_a_layout_is_written() -> None:
    results = RESULTS | {
        "fields": [RESULT, HOST | {"when": "Error == 7"}],
        "fast": {"Elsewhere": {"Error": "0x7"}},
    }
    assert fast_module(results).elsewhere("ab") == b"\x07\x02ab"


def test_a_head_counts_what_the_caller_adds() -> None:
    made = fast_module(NUMBER, RESULTS, fast={"Head": {}})
    assert made.head(0x102, 3, 3) == b"\x01\x06\0\0\0\x02\x01\x03"


def test_a_text_in_a_head_is_in_the_length_of_the_frame() -> None:
    made = fast_module({"name": "Name", "type": "str8"}, NUMBER, fast={"Head": {}})
    assert made.head("gold", 1) == b"\x01\x07\0\0\0\x04gold\x01\0"


def test_what_is_known_is_given_once() -> None:
    name = {"name": "Name", "type": "str8"}
    made = fast_module(name, NUMBER, RESULTS, fastFrames={"Frames": {"known": ["Name", "Error"]}})
    frames = made.Frames("gold", 2)
    assert frames.frame(1) == b"\x01\x09\0\0\0\x04gold\x01\0\x01\x02"


# name: (fields, keys of the message, what the error says behind "example.json:")
WRONG: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "two versions": (
        [NUMBER],
        {"fast": {"Head": {}}, "validVersions": "0-1"},
        "1: Example (Head): only a message of TANK with one version and no tags has fast writers",
    ),
    "the other order of bytes": (
        [NUMBER],
        {"fast": {"Head": {}}, "byteOrder": "big"},
        "1: Example (Head): only a message of TANK with one version and no tags has fast writers",
    ),
    "an id that is no byte": (
        [NUMBER],
        {"fast": {"Head": {}}, "idType": "uint32"},
        "1: Example (Head): only a message of TANK with one version and no tags has fast writers",
    ),
    "lengths in compact form": (
        [NUMBER],
        {"fast": {"Head": {}}, "flexibleVersions": "0+"},
        "1: Example (Head): only a message of TANK with one version and no tags has fast writers",
    ),
    "a layout that is not chosen": (
        [RESULTS | {"fields": [RESULT, HOST], "fast": {"Stored": {}}}],
        {},
        "2: Example.Results (Stored): a condition compares Error: give it a value",
    ),
    "a value that chooses nothing": (
        [RESULTS | {"fast": {"Stored": {"Error": 0}}}],
        {},
        "2: Example.Results (Stored): no condition compares Error; leave it out",
    ),
    "another condition": (
        [RESULT, NUMBER | {"when": "Error > 3"}],
        {"fast": {"Head": {"Error": 0}}},
        "1: Example (Head): a fast writer can't follow a condition like 'Error > 3'",
    ),
    "a field of another kind": (
        [{"name": "Size", "type": "varint"}],
        {"fast": {"Head": {}}},
        "1: Example (Head): a fast writer can't write a field like Size; remove it or 'fast'",
    ),
    "a field behind the list": (
        [RESULTS, NUMBER],
        {"fast": {"Head": {}}},
        "1: Example (Head): Number stands behind the list Results; only bytes to the end may",
    ),
    "a text that is not known": (
        [{"name": "Name", "type": "str8"}],
        {"fastFrames": {"Frames": {"known": []}}},
        "1: Example.Frames (Frames): the text Name has no fixed size; name it in 'known'",
    ),
    "nothing that is known": (
        [NUMBER],
        {"fastFrames": {"Frames": {}}},
        "1: Example.Frames: the key 'known' is missing; add it",
    ),
    "a known field that is none": (
        [NUMBER],
        {"fastFrames": {"Frames": {"known": ["Name"]}}},
        "1: Example.Frames (Frames): 'Name' in 'known' is not the name of one field that is there",
    ),
    "a value that is no number": (
        [RESULT],
        {"fast": {"Head": {"Error": "none"}}},
        "1: Example: 'none' is no number",
    ),
    "a name in small letters": (
        [RESULT],
        {"fast": {"head": {}}},
        "1: Example: 'head' is no name of a writer; write it in CamelCase",
    ),
    "no object": ([RESULT], {"fast": True}, "1: Example: 'fast' must be an object"),
    "no list": (
        [NUMBER | {"fast": {"Head": {}}}],
        {},
        "2: Example.Number: only a message, or a list of structs, has fast writers; remove 'fast'",
    ),
    "one name for two": (
        [RESULTS | {"fast": {"Head": {}}}],
        {"fast": {"Head": {}}},
        "1: Example: Example has a fast writer called Head, too; rename one of them",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_asked_for(case: str) -> None:
    fields, keys, expected = WRONG[case]
    with pytest.raises(DefinitionError) as caught:
        fast_module(*fields, **keys)
    assert str(caught.value) == f"example.json:{expected}"
