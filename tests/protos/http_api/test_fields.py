"""Requests to the HTTP API are read strictly: what isn't declared is refused, in words that say what is."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.http_api.errors import ApiError
from tank_protos.http_api.fields import ApiField, FieldKind, Values, read_body, read_path, read_query

FIELDS = (
    ApiField("name", FieldKind.TEXT, "its name", True, most=8),
    ApiField("count", FieldKind.INTEGER, "how many", least=1, most=9, default=3),
    ApiField("really", FieldKind.BOOLEAN, "whether", default=False),
    ApiField("to", FieldKind.INTEGERS, "where to", least=1, most=5),
    ApiField("settings", FieldKind.SETTINGS, "by key"),
    ApiField("changes", FieldKind.CHANGES, "by key"),
)
QUERY = (
    ApiField("limit", FieldKind.INTEGER, "at most", least=1, most=10, default=5),
    ApiField("topic", FieldKind.TEXTS, "of these", most=8),
    ApiField("only", FieldKind.TEXT, "those", choices=("red", "blue")),
    ApiField("sure", FieldKind.BOOLEAN, "whether"),
)
SCHEMA: Any = {
    "type": "object",
    "properties": {field.name: field.schema() for field in FIELDS},
    "required": ["name"],
    "additionalProperties": False,
}


def body(found: object) -> Values:
    return read_body(FIELDS, json.dumps(found).encode())


def test_a_body_gives_what_it_says_and_defaults_for_the_rest() -> None:
    found = body({"name": "a", "to": [3, 1], "changes": {"flush": "disk", "log.roll.secs": None}})
    assert (found.text("name"), found.integer("count"), found.flag("really")) == ("a", 3, False)
    assert found.integers("to") == [3, 1]
    assert found.settings("changes") == {"flush": "disk", "log.roll.secs": None}
    assert found.settings("settings") == {}
    assert "settings" not in found
    assert "count" in found
    assert body({"name": "a", "really": True, "count": 9}).flag("really")
    assert read_body(FIELDS[1:], b" \n").integer("count") == 3, "no body is an empty one"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([1], "has to be a JSON object"),
        ("x", "has to be a JSON object"),
        ({}, "Say `name`: its name."),
        ({"name": None}, "Say `name`"),
        ({"name": "a", "size": 1}, 'no field "size" here: known are name, count, really'),
        ({"name": 7}, "`name` takes a text of at most 8 characters, not 7"),
        ({"name": "ninechars"}, "at most 8 characters"),
        ({"name": "\ud800"}, "`name` takes"),
        ({"name": "a", "count": 0}, "`count` takes an integer from 1 to 9, not 0"),
        ({"name": "a", "count": 10}, "from 1 to 9"),
        ({"name": "a", "count": 1.0}, "not 1.0"),
        ({"name": "a", "count": True}, "not true"),
        ({"name": "a", "count": "1"}, 'not "1"'),
        ({"name": "a", "really": 1}, "`really` takes true or false"),
        ({"name": "a", "to": []}, "`to` takes a list of integers from 1 to 5, each once, not []"),
        ({"name": "a", "to": [1, 1]}, "each once"),
        ({"name": "a", "to": [6]}, "from 1 to 5"),
        ({"name": "a", "to": [True]}, "each once"),
        ({"name": "a", "to": 1}, "each once"),
        ({"name": "a", "settings": {"k": None}}, "`settings` takes"),
        ({"name": "a", "settings": {"k": 1}}, "`settings` takes"),
        ({"name": "a", "settings": []}, "an object of texts by key"),
        ({"name": "a", "changes": {"k": 1}}, "`changes` takes"),
        ({"name": "a", "changes": {"\udc00": "x"}}, "`changes` takes"),
        ({"name": "a", "changes": {"k": "x" * 1025}}, "`changes` takes"),
    ],
)  # fmt: skip
def test_what_a_body_may_not_hold_is_named(found: object, said: str) -> None:
    with pytest.raises(ApiError) as refusal:
        body(found)
    assert said in refusal.value.message
    assert (refusal.value.status, refusal.value.code) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b'{"name": "a", "name": "b"}', "a key is there twice"),
        (b'{"name": "a", "settings": {"k": "1", "k": "2"}}', "a key is there twice"),
        (b"[" * 60_000, "nested too deeply"),
        (b'{"name": "a", "count": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"name": "a", "count": NaN}', "`count` takes"),
    ],
)
def test_what_is_no_json_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refusal:
        read_body(FIELDS, data)
    assert len(refusal.value.message) < 400


TEXTS = st.text(max_size=10)
NUMBERS = st.integers(-2, 12) | st.floats(allow_nan=False, allow_infinity=False)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
BODIES = st.dictionaries(st.sampled_from([*(field.name for field in FIELDS), "other"]), ANYTHING, max_size=4)


NAMED = st.tuples(TEXTS, BODIES).map(lambda found: {"name": found[0], **found[1]})


@given(NAMED)
def test_what_is_read_is_what_the_description_allows(found: dict[str, object]) -> None:
    """By JSON Schema 1.0 is an integer, too; a client that says so is refused."""
    allowed = jsonschema.Draft202012Validator(SCHEMA).is_valid(found)
    try:
        body(found)
    except ApiError:
        assert not allowed or any(isinstance(each, float) for each in _leaves(found))
    else:
        assert allowed


def _leaves(found: object) -> list[object]:
    if isinstance(found, dict):
        return [leaf for each in found.values() for leaf in _leaves(each)]
    if isinstance(found, list):
        return [leaf for each in found for leaf in _leaves(each)]
    return [found]


def test_a_query_gives_what_it_says() -> None:
    found = read_query(QUERY, [("topic", "a"), ("topic", "b"), ("only", "red"), ("sure", "true")])
    assert (found.texts("topic"), found.text("only"), found.integer("limit")) == (["a", "b"], "red", 5)
    assert found.flag("sure")
    assert read_query(QUERY, []).texts("topic") == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("limit", "0", "from 1 to 10"),
        ("limit", "11", "from 1 to 10"),
        ("limit", "", "from 1 to 10"),
        ("limit", "-1", "from 1 to 10"),
        ("limit", "+1", "from 1 to 10"),
        ("limit", "1_0", "from 1 to 10"),
        ("limit", "٣", "from 1 to 10"),
        ("limit", "9" * 5000, "from 1 to 10"),
        ("only", "green", "one of red, blue"),
        ("sure", "1", "true or false"),
        ("topic", "ninechars", "at most 8"),
        ("after", "a", "no parameter \"after\" here"),
    ],
)  # fmt: skip
def test_what_a_query_may_not_hold_is_named(name: str, text: str, said: str) -> None:
    with pytest.raises(ApiError) as refusal:
        read_query(QUERY, [(name, text)])
    assert said in refusal.value.message
    assert len(refusal.value.message) < 300


def test_one_value_is_said_once() -> None:
    with pytest.raises(ApiError, match=r"^`limit` is there 2 times\.$"):
        read_query(QUERY, [("limit", "1"), ("limit", "2")])
    with pytest.raises(ApiError, match="it takes none"):
        read_query((), [("x", "1")])


def test_a_path_is_read_as_a_query_is() -> None:
    fields = (
        ApiField("id", FieldKind.INTEGER, "a number", True, 1, 9),
        ApiField("topic", FieldKind.TEXT, "a name", True),
    )
    found = read_path(fields, {"id": "7", "topic": "t"})
    assert (found.integer("id"), found.text("topic")) == (7, "t")
    with pytest.raises(ApiError):
        read_path(fields, {"id": "x", "topic": "t"})
