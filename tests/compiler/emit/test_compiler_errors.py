"""What the compiler says about a wrong definition: file, line, field, what is wrong, what to do."""

from typing import Any

import pytest

from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.loading import load_message
from tests.support.compiled import load

U8 = {"name": "Size", "type": "uint8"}
U16 = {"name": "Count", "type": "uint16"}
INNER = {"name": "Deep", "type": "uint8", "about": "A field."}

# name: (fields, the message's own keys, the error behind "example.json:"). The first field stands on line 2.
WRONG_FIELDS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "unknown key": (
        [{"name": "A", "type": "uint8", "lenght": 4}],
        "2: Example.A: unknown key 'lenght'; known are about, count, countFrom, counted, default, "
        "entityType, fast, fields, flexibleVersions, ignorable, keepPrefix, length, lengthFrom, mapKey, "
        "marker, "
        "measures, name, nullableVersions, tag, taggedVersions, type, versions, when, zeroCopy",
    ),
    "two lists that are counted": (
        [
            {"name": name, "type": f"[]{name}Thing", "count": "uint8", "counted": True, "fields": [INNER]}
            for name in "AB"
        ],
        "2: Example.A: one list of a message can be counted; remove 'counted'",
    ),
    "a counted number": (
        [{"name": "A", "type": "uint8", "counted": True}],
        "2: Example.A: one list of a message can be counted; remove 'counted'",
    ),
    "a counted list behind a condition": (
        [
            U8,
            {"name": "A", "type": "uint8", "when": "Size == 1"},
            {"name": "B", "type": "[]Thing", "count": "uint8", "counted": True, "fields": [INNER]},
        ],
        "4: Example.B: a message with a field like A can't be counted; remove 'counted'",
    ),
    "missing key": ([{"name": "A"}], "2: Example.A: the key 'type' is missing; add it"),
    "wrong kind of value": (
        [{"name": "A", "type": 8}],
        "2: Example.A: 'type' must be a string in double quotes",
    ),
    "unknown type": (
        [{"name": "A", "type": "uint24"}],
        "2: Example.A: unknown type 'uint24'; known are int8, uint8, int16, uint16, int32, uint32, "
        "int64, uint64, "
        "float32, float64, bool, uuid, varint, str8, str16, str32, string, bytes, records, a struct's name, "
        "or [] before one of them",
    ),
    "struct without fields": (
        [{"name": "A", "type": "[]Thing", "count": "uint8"}],
        "2: Example.A: the struct 'Thing' has no fields; add 'fields'",
    ),
    "name that is none": (
        [{"name": "a-b", "type": "uint8"}],
        "2: Example.a-b: 'a-b' is no name; a field's name is letters and digits",
    ),
    "clashing fields": (
        [
            {"name": "TopicId", "type": "uint8"},
            {"name": "Topic", "type": "uint8"},
            {"name": "TopicID", "type": "uint8"},
        ],
        "4: Example.TopicID: the field at example.json:2 becomes 'topic_id' in Python, too; rename one",
    ),
    "python keyword": (
        [{"name": "Class", "type": "uint8"}],
        "2: Example.Class: 'class' has a meaning in Python or in generated code; rename the field",
    ),
    "name of a method": (
        [{"name": "Encode", "type": "uint8"}],
        "2: Example.Encode: 'encode' has a meaning in Python or in generated code; rename the field",
    ),
    "name of a builtin that generated code uses": (
        [{"name": "Tuple", "type": "uint8"}],
        "2: Example.Tuple: 'tuple' has a meaning in Python or in generated code; rename the field",
    ),
    "struct called as what generated code imports": (
        [{"name": "A", "type": "[]Buffer", "count": "uint8", "fields": [INNER]}],
        "2: Buffer: 'Buffer' has a meaning in Python or in generated code; rename the struct",
    ),
    "struct called as a constant of Python": (
        [{"name": "A", "type": "[]None", "count": "uint8", "fields": [INNER]}],
        "2: None: 'None' has a meaning in Python or in generated code; rename the struct",
    ),
    "name that is no text": (
        [{"name": {"of": "A"}, "type": "uint8"}],
        "2: Example: 'name' must be a string in double quotes",
    ),
    "clashing structs": (
        [
            {"name": "A", "type": "[]Thing", "count": "uint8", "fields": [INNER]},
            {"name": "B", "type": "[]Thing", "count": "uint8", "fields": [INNER]},
        ],
        "3: Example.B: the message has two structs called 'Thing'; rename one of them",
    ),
    "struct called as the message": (
        [{"name": "A", "type": "[]Example", "count": "uint8", "fields": [INNER]}],
        "1: Example: the message has two structs of this name; rename one of them",
    ),
    "versions that are none": (
        [{"name": "A", "type": "uint8", "versions": "two"}],
        "2: Example.A: 'versions' is 'two'; write versions as 3, 0-3 or 3+",
    ),
    "versions turned round": (
        [{"name": "A", "type": "uint8", "versions": "3-1"}],
        "2: Example.A: 'versions' is '3-1', which holds no version; put the lower number first",
    ),
    "versions outside": (
        [{"name": "A", "type": "uint8", "versions": "7+"}],
        "2: Example.A: versions 7+ are none of those of the enclosing struct, 0; name some that it has",
    ),
    "condition that cannot be read": (
        [U8, {"name": "B", "type": "uint8", "when": "Size = 3"}],
        "3: Example.B: cannot read the condition 'Size = 3'; "
        "write it as FIELD == NUMBER (or != < <= > >= &), joined by 'and' and 'or'",
    ),
    "condition on a later field": (
        [{"name": "B", "type": "uint8", "when": "Size == 3"}, U8],
        "2: Example.B: the condition 'Size == 3' names 'Size', which is no earlier field of this or an "
        "enclosing "
        "struct; name one, or move 'Size' before this field",
    ),
    "condition on a text": (
        [{"name": "Name", "type": "str8"}, {"name": "B", "type": "uint8", "when": "Name == 3"}],
        "3: Example.B: the condition 'Name == 3' compares 'Name', which is no integer; compare an "
        "integer or a bool",
    ),
    "condition that is never true": (
        [U8, {"name": "B", "type": "uint8", "when": "Size == 256"}],
        "3: Example.B: the condition 'Size == 256' compares 'Size' with 256, but it lies in 0..255; "
        "write a number that it can have",
    ),
    "condition with a number in no known form": (
        [U8, {"name": "B", "type": "uint8", "when": "Size == 01"}],
        "3: Example.B: cannot read the condition 'Size == 01'; "
        "write it as FIELD == NUMBER (or != < <= > >= &), joined by 'and' and 'or'",
    ),
    "no bits": (
        [U8, {"name": "B", "type": "uint8", "when": "Size & 0"}],
        "3: Example.B: the condition 'Size & 0' is never true; name the bits",
    ),
    "default out of range": (
        [{"name": "A", "type": "uint8", "default": "256"}],
        "2: Example.A: the default 256 does not fit into uint8 (0..255)",
    ),
    "default below a varint": (
        [{"name": "A", "type": "varint", "default": "-1"}],
        "2: Example.A: the default -1 does not fit into varint (0..4294967295)",
    ),
    "default that is no number": (
        [{"name": "A", "type": "uint8", "default": "many"}],
        "2: Example.A: the default 'many' is no uint8; write a number",
    ),
    "default that is not finite": (
        [{"name": "A", "type": "float64", "default": "nan"}],
        "2: Example.A: the default 'nan' is no float64; write a number",
    ),
    "default that is no bool": (
        [{"name": "A", "type": "bool", "default": "1"}],
        "2: Example.A: the default '1' is no bool; write true or false",
    ),
    "default that is too long": (
        [{"name": "A", "type": "str8", "default": "x" * 256}],
        "2: Example.A: the default is longer than the 255 bytes of str8",
    ),
    "default of a list": (
        [{"name": "A", "type": "[]uint8", "count": "uint8", "default": "3"}],
        "2: Example.A: a default has no meaning for the type '[]uint8'; remove it",
    ),
    "default of another kind": (
        [{"name": "A", "type": "uint8", "default": []}],
        "2: Example.A: 'default' must be a string, a number, true or false",
    ),
    "null by default but not nullable": (
        [{"name": "A", "type": "str16", "default": "null"}],
        "2: Example.A: the default is null, but not every version is nullable; write 'nullableVersions': '0'",
    ),
    "null without a place": (
        [{"name": "A", "type": "str8", "nullableVersions": "0+"}],
        "2: Example.A: 'str8' has no null here; Kafka's texts, bytes, lists and structs have, "
        "and a uint16 or uint32 length or count",
    ),
    "null outside of the field's versions": (
        [{"name": "A", "type": "str16", "nullableVersions": "4+"}],
        "2: Example.A: versions 4+ are none of the field's, 0; name some that it has",
    ),
    "null behind a kept length": (
        [{"name": "A", "type": "bytes", "length": "uint16", "keepPrefix": True, "nullableVersions": "0+"}],
        "2: Example.A: bytes that keep their length can't be null; remove one of both",
    ),
    "bytes without a length": (
        [{"name": "A", "type": "bytes"}],
        "2: Example.A: say either 'length' or 'lengthFrom'",
    ),
    "list with two counts": (
        [U8, {"name": "A", "type": "[]uint8", "count": "uint8", "countFrom": "Size"}],
        "3: Example.A: say either 'count' or 'countFrom'",
    ),
    "count of an unknown width": (
        [{"name": "A", "type": "[]uint8", "count": "uint64"}],
        "2: Example.A: 'count' is 'uint64'; use one of uint8, uint16, uint32, varint, rest",
    ),
    "count from a field that is none": (
        [{"name": "A", "type": "[]uint8", "countFrom": "Size"}],
        "2: Example.A: 'Size' is no earlier uint8, uint16, uint32 or varint of this or an enclosing "
        "struct; name one",
    ),
    "rest that is not last": (
        [{"name": "A", "type": "bytes", "length": "rest"}, U8],
        "2: Example.A: 'length' is 'rest', but only the message's last field can take the rest",
    ),
    "fixed length of nothing": (
        [{"name": "A", "type": "bytes", "length": 0}],
        "2: Example.A: a fixed length of 0 bytes is not possible; use 1..65535",
    ),
    "kept prefix that is not there": (
        [{"name": "A", "type": "bytes", "length": 4, "keepPrefix": True}],
        "2: Example.A: there is no length before these bytes to keep; remove 'keepPrefix'",
    ),
    "elements that may be empty": (
        [
            U8,
            {
                "name": "A",
                "type": "[]Thing",
                "count": "uint32",
                "fields": [INNER | {"when": "Size == 1"}],
            },
        ],
        "3: Example.A: an element may be empty on the wire, so no payload is too short for a false count; "
        "give it a field that is always there",
    ),
    "key without a meaning for the type": (
        [{"name": "A", "type": "uint8", "count": "uint8"}],
        "2: Example.A: 'count' has no meaning for the type 'uint8'; remove it",
    ),
    "marker of a wrong type": (
        [{"name": "A", "type": "bool", "marker": {"type": "str8", "value": "1"}}],
        "2: Example.A: a marker's type is 'str8'; use one of "
        "int8, uint8, int16, uint16, int32, uint32, int64, uint64",
    ),
    "marker that does not fit": (
        [{"name": "A", "type": "bool", "marker": {"type": "uint8", "value": "0xffff"}}],
        "2: Example.A: 65535 does not fit into uint8 (0..255)",
    ),
    "marker that is no number": (
        [{"name": "A", "type": "bool", "marker": {"type": "uint8", "value": "all"}}],
        "2: Example.A: 'all' is no number; write it like 0xffff",
    ),
    "measures with a gap": (
        [{"name": "A", "type": "uint8", "measures": ["Count"]}, U8, U16],
        "2: Example.A: 'measures' names 'Count'; name the fields that follow, in their order, without a gap",
    ),
    "measures nothing": (
        [{"name": "A", "type": "uint8", "measures": []}],
        "2: Example.A: 'measures' is empty; name the fields that follow, or remove it",
    ),
    "measures a payload": (
        [{"name": "A", "type": "uint8", "measures": ["B"]}, {"name": "B", "type": "bytes", "length": "rest"}],
        "2: Example.A: 'measures' names 'B', which holds bytes of any length; measure less",
    ),
    "measures what may be absent": (
        [
            U8,
            {"name": "A", "type": "uint8", "measures": ["B"]},
            {"name": "B", "type": "uint8", "when": "Size & 1"},
        ],
        "3: Example.A: 'measures' names 'B', which can be absent; measure what is always there",
    ),
    "measures inside a struct": (
        [{"name": "T", "type": "Thing", "fields": [INNER | {"measures": ["Size"]}]}],
        "2: Thing.Deep: only a field of the message itself that is always there can measure; remove "
        "'measures'",
    ),
}


@pytest.mark.parametrize("case", WRONG_FIELDS)
def test_a_wrong_field(case: str) -> None:
    fields, expected = WRONG_FIELDS[case]
    with pytest.raises(DefinitionError) as caught:
        load(*fields)
    assert str(caught.value) == f"example.json:{expected}"


WRONG_MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (
        {"flavour": "sweet"},
        "1: Example: unknown key 'flavour'; known are about, apiKey, byteOrder, commonStructs, "
        "deprecatedVersions, fast, fastFrames, fields, flexibleVersions, id, idType, latestVersionUnstable, "
        "listeners, name, type, validVersions, versionField",
    ),
    "id over a byte": (
        {"id": 256},
        "1: Example: the id 256 does not fit into a uint8; use 0..255, or a wider 'idType'",
    ),
    "id that is no number": ({"id": "one"}, "1: Example: 'id' must be a whole number"),
    "unknown kind": (
        {"type": "answer"},
        "1: Example: 'type' is 'answer'; use one of request, response, data, header",
    ),
    "unknown byte order": (
        {"byteOrder": "middle"},
        "1: Example: 'byteOrder' is 'middle'; use one of big, little",
    ),
    "open versions": (
        {"validVersions": "0+"},
        "1: Example: 'validVersions' needs an upper end; write 0-3, not 0+",
    ),
    "versions that their field cannot hold": (
        {"validVersions": "0-256", "versionField": "Size"},
        "1: Example: the version field 'Size' holds no version above 255; use a wider type, or end there",
    ),
    "version field that is none": (
        {"versionField": "Version"},
        "1: Example: the version field 'Version' must be an integer before every field with versions or "
        "'when'",
    ),
    "no name": (
        {"name": "example"},
        "1: example: 'example' is no name; a struct's name is letters and digits and begins with a capital",
    ),
}


@pytest.mark.parametrize("case", WRONG_MESSAGES)
def test_a_wrong_message(case: str) -> None:
    keys, expected = WRONG_MESSAGES[case]
    with pytest.raises(DefinitionError) as caught:
        load(U8, **keys)
    assert str(caught.value) == f"example.json:{expected}"


WRONG_JSON = {
    '{"name": "A",\n "name": "B"}': "2: the key 'name' stands here twice; keep one",
    '{"name" "A"}': "1: expected ':' after the key 'name'",
    '{"name": "A"\n\n "id": 1}': "3: expected ',' or '}' after the value of 'name'",
    "{name: 1}": "1: expected a key in double quotes",
    '{"name": }': "1: expected a value: an object, a list, a string, a number, true, false or null",
    '{"name": "A': "1: a string without an end, or with a wrong escape in it",
    '{"fields": [1 2]}': "1: expected ',' or ']' after a list's element",
    "{}\n{}": "2: expected nothing after the definition; remove what follows it",
    '{"id": ' + "9" * 5000: "1: a number of more than 40 characters; nothing holds it",
    '{"name": "\\ud83d"}': "1: half of a surrogate pair, which is no character; write both",
    "[" * 100: "1: nested deeper than 64 levels; flatten it",
    "": "1: expected a value: an object, a list, a string, a number, true, false or null",
    "[]": '1: expected an object: { "name": ... }',
    "// a note\n\n{}": "3: the key 'name' is missing; add it",
}


@pytest.mark.parametrize("text", WRONG_JSON)
def test_a_wrong_text(text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        load_message(text, "example.json")
    assert str(caught.value) == f"example.json:{WRONG_JSON[text]}"


def test_null_as_the_default_of_a_field_that_is_nullable_in_part_of_its_versions() -> None:
    field = {"name": "A", "type": "str16", "nullableVersions": "2+", "versions": "1+", "default": "null"}
    with pytest.raises(
        DefinitionError, match="not every version is nullable; write 'nullableVersions': '1-3'"
    ):
        load(field, validVersions="0-3")
