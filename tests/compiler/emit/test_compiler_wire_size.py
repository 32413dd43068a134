"""The least bytes of a list's element: what a count is held against before a list is built."""

from typing import Any

import pytest

from tank_compiler.schema import wire_size
from tank_compiler.schema.layouts import of_version
from tank_compiler.schema.schema import Array
from tests.support.compiled import load_api

INNER = [{"name": "C", "type": "int64"}]
NULLABLE = {"versions": "0+", "nullableVersions": "0+"}
TAGGED = {"versions": "1+", "taggedVersions": "1+", "tag": 0}


@pytest.mark.parametrize(
    ("field", "plain", "flexible"),
    [
        ({"type": "int8"}, 1, 1 + 1),
        ({"type": "uuid"}, 16, 16 + 1),
        ({"type": "string"}, 2, 1 + 1),
        ({"type": "bytes"}, 4, 1 + 1),
        ({"type": "[]int64"}, 4, 1 + 1),
        ({"type": "In", "fields": INNER}, 8, 8 + 1 + 1),
        ({"type": "In", "fields": INNER} | NULLABLE, 1, 1 + 1),
        ({"type": "bool", "versions": "0"}, 1, 0 + 1),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else None,
)
def test_the_least_bytes_of_a_field_and_of_the_tags_behind_it(
    field: dict[str, Any], plain: int, flexible: int
) -> None:
    elements = {"name": "A", "type": "[]Thing", "fields": [{"name": "B"} | field]}
    message = load_api(elements, validVersions="0-1", flexibleVersions="1+")
    for version, wanted in enumerate((plain, flexible)):
        kind = of_version(message, version).root.fields[0].type
        assert isinstance(kind, Array)
        assert wire_size.of_element(kind.element) == wanted


def test_an_element_of_tagged_fields_alone_has_their_count() -> None:
    elements = {
        "name": "A",
        "type": "[]Thing",
        "versions": "1+",
        "fields": [{"name": "B", "type": "int8"} | TAGGED],
    }
    message = load_api(elements, validVersions="0-1", flexibleVersions="1+")
    kind = of_version(message, 1).root.fields[0].type
    assert isinstance(kind, Array)
    assert wire_size.of_element(kind.element) == 1
