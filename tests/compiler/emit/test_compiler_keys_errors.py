"""What the compiler says about wrong uses of Kafka's keys: file, line, field, what is wrong, what to do."""

from typing import Any

import pytest

from tank_compiler.schema.errors import DefinitionError
from tests.support.compiled import load_api

INNER = {"name": "B", "type": "int8"}
TAG = {"versions": "1+", "taggedVersions": "1+", "tag": 0}

# name: (fields, the message's own keys, the error behind "example.json:"). The first field stands on line 2.
WRONG: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "tag without versions": (
        [{"name": "A", "type": "int8", "tag": 0}],
        {},
        "2: Example.A: the key 'taggedVersions' is missing; add it",
    ),
    "tagged versions without tag": (
        [{"name": "A", "type": "int8", "versions": "1+", "taggedVersions": "1+"}],
        {},
        "2: Example.A: the key 'tag' is missing; add it",
    ),
    "tag that is none": (
        [{"name": "A", "type": "int8"} | TAG | {"tag": -1}],
        {},
        "2: Example.A: the tag -1 is not possible; use 0..2147483647",
    ),
    "tag for no version": (
        [{"name": "A", "type": "int8", "tag": 0, "taggedVersions": "none"}],
        {},
        "2: Example.A: a tag without versions has no meaning; remove 'tag', too",
    ),
    "one tag twice": (
        [{"name": "A", "type": "int8"} | TAG, {"name": "B", "type": "int8"} | TAG],
        {},
        "3: Example.B: the field at example.json:2 has the tag 0, too; give it another one",
    ),
    "tag where nothing is flexible": (
        [{"name": "A", "type": "int8"} | TAG | {"taggedVersions": "0+", "versions": "0+"}],
        {},
        "2: Example.A: only flexible versions have tagged fields; not all of 0-1 are in 'flexibleVersions'",
    ),
    "tagged versions that are none of the field's": (
        [{"name": "A", "type": "int8"} | TAG | {"versions": "1", "taggedVersions": "2+"}],
        {"validVersions": "0-2"},
        "2: Example.A: versions 2+ are none of the field's, 1; name some that it has",
    ),
    "tag and condition": (
        [{"name": "A", "type": "int8"}, {"name": "B", "type": "int8", "when": "A == 1"} | TAG],
        {},
        "3: Example.B: a tagged field is there when its tag is; remove 'when', 'marker' and 'measures'",
    ),
    "flexible versions of a field that are not the message's": (
        [{"name": "A", "type": "string", "flexibleVersions": "0+"}],
        {},
        "2: Example.A: versions 0-1 are not all among the message's flexible ones; write fewer, or none",
    ),
    "flexible and a version field": (
        [{"name": "Version", "type": "int8"}],
        {"versionField": "Version"},
        "1: Example: a message that states its version has no flexible versions; remove one of both keys",
    ),
    "key of no list": (
        [{"name": "A", "type": "int8", "mapKey": True}],
        {},
        "2: Example.A: only elements of a list are found by a key; remove 'mapKey'",
    ),
    "key that is a list": (
        [{"name": "A", "type": "[]Thing", "fields": [{"name": "B", "type": "[]int8", "mapKey": True}]}],
        {},
        "2: Thing.B: lists are not searched for a '[]int8'; remove 'mapKey'",
    ),
    "struct that holds itself": (
        [{"name": "A", "type": "Loop"}],
        {"commonStructs": [{"name": "Loop", "fields": [{"name": "B", "type": "[]Loop"}]}]},
        "1: Loop.B: a struct cannot hold itself (Loop -> Loop); break the circle",
    ),
    "shared struct twice": (
        [{"name": "A", "type": "One"}],
        {"commonStructs": [{"name": "One", "fields": [INNER]}, {"name": "One", "fields": [INNER]}]},
        "1: One: the message has two structs called 'One'; rename one of them",
    ),
    "shared struct declared again": (
        [{"name": "A", "type": "One", "fields": [INNER]}],
        {"commonStructs": [{"name": "One", "fields": [INNER]}]},
        "2: Example.A: the message has two structs called 'One'; rename one of them",
    ),
    "struct called as a list of another": (
        [
            {"name": "A", "type": "[]One", "fields": [INNER | {"mapKey": True}]},
            {"name": "C", "type": "OneCollection", "fields": [INNER]},
        ],
        {},
        "3: OneCollection: the message has two structs of this name; rename one of them",
    ),
    "id and api key": (
        [],
        {"id": 1},
        "1: Example: say either 'id' (a frame of ours) or 'apiKey' (a request of Kafka)",
    ),
    "api key that is none": (
        [],
        {"apiKey": 40000},
        "1: Example: the api key 40000 is no int16; use 0..32767",
    ),
    "request without a key": ([], {"apiKey": None}, "1: Example: the key 'id' is missing; add it"),
    "listeners that are no texts": (
        [],
        {"listeners": [1]},
        "1: Example: 'listeners' must be a list of strings in double quotes",
    ),
    "elements that may be empty in one version": (
        [{"name": "A", "type": "[]Thing", "fields": [INNER | {"versions": "1+"}]}],
        {},
        "2: Example.A: an element may be empty on the wire, so no payload is too short for a false count; "
        "give it a field that is always there",
    ),
    "null where there is none": (
        [{"name": "A", "type": "int8", "nullableVersions": "0+"}],
        {},
        "2: Example.A: 'int8' has no null here; Kafka's texts, bytes, lists and structs have, "
        "and a uint16 or uint32 length or count",
    ),
    "default null of a struct that has none": (
        [{"name": "A", "type": "Thing", "default": "null", "fields": [INNER]}],
        {},
        "2: Example.A: the default is null, but not every version is nullable; "
        "write 'nullableVersions': '0-1'",
    ),
    "uuid that is none": (
        [{"name": "A", "type": "uuid", "default": "gold"}],
        {},
        "2: Example.A: the default 'gold' is no uuid; write 36 characters, or 22 of base64",
    ),
    "default over its place": (
        [{"name": "A", "type": "int32", "default": "0x80000000"}],
        {},
        "2: Example.A: the default 2147483648 does not fit into int32 (-2147483648..2147483647)",
    ),
    "default that is no fraction": (
        [{"name": "A", "type": "float64", "default": "0x1"}],
        {},
        "2: Example.A: the default '0x1' is no float64; write a number",
    ),
    "shared struct that one version does not have": (
        [{"name": "A", "type": "Thing"}],
        {"commonStructs": [{"name": "Thing", "versions": "1+", "fields": [INNER]}]},
        "2: Example.A: the struct 'Thing' is there in versions 1, this field in 0-1; "
        "give the struct all that are needed",
    ),
    "default with a line in it": (
        [{"name": "A", "type": "int16", "default": "1_0"}],
        {},
        "2: Example.A: the default '1_0' is no int16; write a number",
    ),
    "default with a space before it": (
        [{"name": "A", "type": "int16", "default": " 10"}],
        {},
        "2: Example.A: the default ' 10' is no int16; write a number",
    ),
    "default in binary": (
        [{"name": "A", "type": "int16", "default": "0b1"}],
        {},
        "2: Example.A: the default '0b1' is no int16; write a number",
    ),
    "fraction with a line in it": (
        [{"name": "A", "type": "float64", "default": "1_0.5"}],
        {},
        "2: Example.A: the default '1_0.5' is no float64; write a number",
    ),
    "list of bytes": (
        [{"name": "A", "type": "[]bytes"}],
        {},
        "2: Example.A: a list's elements cannot be 'bytes'; put it into a struct of its own",
    ),
    "list of lists": (
        [{"name": "A", "type": "[][]int8"}],
        {},
        "2: Example.A: a list's elements cannot be '[]int8'; put it into a struct of its own",
    ),
    "default of a list": (
        [{"name": "A", "type": "[]int8", "default": "1"}],
        {},
        "2: Example.A: a default has no meaning for the type '[]int8'; remove it",
    ),
    "field called as the unknown tags": (
        [{"name": "UnknownTags", "type": "int8"}],
        {},
        "2: Example.UnknownTags: 'unknown_tags' has a meaning in Python or in generated code; "
        "rename the field",
    ),
    "versions to come": (
        [{"name": "A", "type": "int8", "versions": "2+"}],
        {},
        "2: Example.A: versions 2+ are none of those of the enclosing struct, 0-1; name some that it has",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_use_of_a_key(case: str) -> None:
    fields, keys, expected = WRONG[case]
    with pytest.raises(DefinitionError) as caught:
        load_api(*fields, **({"validVersions": "0-1", "flexibleVersions": "1+"} | keys))
    assert str(caught.value) == f"example.json:{expected}"


def test_structs_nest_to_a_depth() -> None:
    def nested(depth: int) -> dict[str, Any]:
        inner = nested(depth - 1) if depth else {"name": "B", "type": "int8"}
        return {"name": "A", "type": f"[]Level{depth}", "fields": [inner]}

    load_api(nested(7), flexibleVersions="0+")
    with pytest.raises(DefinitionError, match="structs nest deeper than 8; flatten them"):
        load_api(nested(8))
