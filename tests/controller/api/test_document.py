"""The description of the HTTP API, beside the routes that there are and the page that people read."""

import re
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from aiohttp import web

from tank_controller.api.changes import Changes
from tank_controller.api.document import SCHEMAS, document
from tank_controller.api.leader import Leader
from tank_controller.api.names import Name
from tank_controller.api.operations import OPERATIONS, TROUBLES
from tank_controller.api.reads import Reads
from tank_controller.api.routes import HttpApi, handlers, iggy_handlers
from tank_controller.leader.reports.report import trouble_name
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.access import Access
from tank_protos.http_api.operations import PREFIX
from tank_protos.http_api.token import NO_TOKEN

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT: Any = document()
LEADER = cast(Leader, None)  # nothing is asked


def described() -> list[tuple[str, str, Any]]:
    """(method, path, operation)"""
    return [
        (method.upper(), path, operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_described_and_nothing_else_is() -> None:
    app = web.Application()
    HttpApi(LEADER, Access(NO_TOKEN, "controller"), lambda: 0).add_to(app)
    (api,) = app.router.resources()
    assert isinstance(api, web.PrefixedSubAppResource)
    routes = {(route.method, cast(web.Resource, route.resource).canonical) for route in api}
    described_routes = {(method, PREFIX + path) for method, path, _ in described()}
    heads = {("HEAD", path) for method, path in described_routes if method == "GET"}
    assert routes == described_routes | heads, "HEAD is what HTTP has beside every GET"
    assert DOCUMENT["servers"] == [{"url": PREFIX}]


def test_every_operation_has_a_handler_of_its_own() -> None:
    reads = Reads(LEADER)
    changes = Changes(LEADER, reads, lambda: 0)
    found = {**handlers(reads, changes), **iggy_handlers(LEADER, changes, lambda: 0)}
    assert set(found) == set(OPERATIONS) == set(Name)
    assert len(set(found.values())) == len(Name)
    named = [operation["operationId"] for *_, operation in described()]
    assert sorted(named) == sorted(name.value for name in OPERATIONS)


def references(found: Any) -> list[str]:
    if isinstance(found, dict):
        own = [found["$ref"]] if "$ref" in found else []
        return own + [each for value in found.values() for each in references(value)]
    if isinstance(found, list):
        return [each for value in found for each in references(value)]
    return []


def test_what_is_referred_to_is_there_and_all_that_is_there_is_referred_to() -> None:
    named = {reference.removeprefix("#/components/schemas/") for reference in references(DOCUMENT)}
    assert named == set(SCHEMAS)


def test_every_parameter_of_a_path_is_described_and_required() -> None:
    for _, path, operation in described():
        parameters = operation.get("parameters", [])
        in_path = [each["name"] for each in parameters if each["in"] == "path" and each["required"]]
        assert in_path == re.findall(r"{(\w+)}", path)
        for each in parameters:
            jsonschema.Draft202012Validator.check_schema(each["schema"])
            assert each["description"]


def test_schemas_are_json_schema_and_every_key_of_an_answer_is_promised() -> None:
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        if name != "Description":
            assert set(cast(Any, schema)["required"]) == set(cast(Any, schema)["properties"]), name


def test_changes_take_the_token_and_reads_may_go_without() -> None:
    for method, path, operation in described():
        assert operation["security"] == ([{}, {"token": []}] if method == "GET" else [{"token": []}]), path
        assert set(operation["responses"]) == {next(iter(operation["responses"])), "4XX", "5XX"}


def test_partitions_can_be_chosen_by_every_trouble_there_is() -> None:
    assert list(TROUBLES) == [trouble_name(number) for number in pb.PartitionTrouble.values() if number]


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_page_has_every_operation(name: Name) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    table = page[page.index("## Operations") : page.index("What takes long")]
    told = {
        (method, re.sub(r"{\w+}", "{}", path).replace("…", "/topics/{}"))
        for method, path in re.findall(r"`([A-Z]+) ([^` ]+)`", table)
    }
    operation = OPERATIONS[name]
    if name is not Name.DESCRIBE:  # the page begins with it
        assert (operation.method, re.sub(r"{\w+}", "{}", operation.path)) in told
    assert len(told) == len(OPERATIONS) - 1
