"""A broker's HTTP API: its routes and their description, who may, and answers that come from the broker."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tank_node.api.document import SCHEMAS, document
from tank_node.api.operations import OPERATIONS, ApiName
from tank_node.api.routes import BrokerApi
from tank_node.broker.broker import Broker
from tank_node.client_facts import UNKNOWN_BYTES, ClientFacts, ServedClient
from tank_node.tank.dispatch import open_session
from tank_protos.error_codes import ConnectionProtocol
from tank_protos.http_api.access import Access
from tank_protos.http_api.operations import PREFIX
from tank_protos.http_api.token import NO_TOKEN, Token
from tests.support.nodes.bench_node import BenchNode

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT: Any = document()
SECRET = "0123456789abcdef"


def ask(
    story: Callable[[Any], Awaitable[None]], broker: Broker | None = None, token: Token = NO_TOKEN
) -> None:
    """Tells a story of requests to the API of this broker; None: one that starts."""

    async def run() -> None:
        app = web.Application()
        BrokerApi(lambda: broker, open_session, Access(token, "broker")).add_to(app)
        async with TestClient(TestServer(app)) as client:
            await story(client)

    asyncio.run(run())


def must_be(name: str, found: Any) -> None:
    """What the description says that it is."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
    jsonschema.Draft202012Validator(schema).validate(found)


def test_every_route_is_described_and_nothing_else_is() -> None:
    app = web.Application()
    BrokerApi(lambda: None, open_session, Access(NO_TOKEN, "broker")).add_to(app)
    (api,) = app.router.resources()
    assert isinstance(api, web.PrefixedSubAppResource)
    routes = {(route.method, cast(web.Resource, route.resource).canonical) for route in api}
    described = {
        (method.upper(), PREFIX + path) for path, methods in DOCUMENT["paths"].items() for method in methods
    }
    assert routes == described | {("HEAD", path) for method, path in described if method == "GET"}


def references(found: Any) -> set[str]:
    if isinstance(found, dict):
        own = {str(found["$ref"])} if "$ref" in found else set()
        return own.union(*(references(value) for value in found.values()))
    return set().union(*(references(each) for each in found)) if isinstance(found, list) else set()


def test_the_description_is_whole() -> None:
    assert {each.removeprefix("#/components/schemas/") for each in references(DOCUMENT)} == set(SCHEMAS)
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    named = [one["operationId"] for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert sorted(named) == sorted(name.value for name in ApiName)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_page_has_every_operation(name: ApiName) -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    table = page[page.index("## Of a broker") :]
    told = {
        (method, re.sub(r"{\w+}", "{}", path)) for method, path in re.findall(r"`([A-Z]+) (/[^` ]+)`", table)
    }
    operation = OPERATIONS[name]
    assert (operation.method, re.sub(r"{\w+}", "{}", operation.path)) in told
    assert len(told) == len(OPERATIONS)


def test_the_connections_are_listed_in_pages(tmp_path: Path) -> None:
    facts = ClientFacts(ConnectionProtocol.TANK, "app", "", "", {"consume": -1})
    many = [ServedClient(n, "::1", 4711, 5, 1, UNKNOWN_BYTES, 0, facts) for n in range(1, 4)]

    async def story(client: Any) -> None:
        async with client.get(f"{PREFIX}/connections", params={"limit": 2}) as answer:
            found = await answer.json()
        must_be("Connections", found)
        assert [each["number"] for each in found["connections"]] == [1, 2]
        first = found["connections"][0]
        assert (first["address"], first["sent_bytes"]) == ("[::1]:4711", None)
        assert first["requests"] == [{"name": "consume", "version": None}]
        async with client.get(f"{PREFIX}/connections", params={"after": found["next"]}) as answer:
            rest = await answer.json()
        assert ([each["number"] for each in rest["connections"]], rest["next"]) == ([3], None)

    with BenchNode(tmp_path / "data") as node:
        node.broker.clients = lambda after, most: [each for each in many if each.number > after][:most]
        ask(story, node.broker)


def test_a_name_that_is_no_text_is_shown_with_signs_in_place_of_its_bytes(tmp_path: Path) -> None:
    name = b"app-\xff\xc3\xb6".decode("utf-8", "surrogateescape")
    facts = ClientFacts(ConnectionProtocol.KAFKA, name, "", "", {})

    async def story(client: Any) -> None:
        async with client.get(f"{PREFIX}/connections") as answer:
            assert answer.status == HTTPStatus.OK
            found = json.loads((await answer.read()).decode())
        assert [each["client_id"] for each in found["connections"]] == ["app-\ufffdö"]

    with BenchNode(tmp_path / "data") as node:
        node.broker.clients = lambda after, most: [ServedClient(1, "::1", 4711, 5, 1, 1, 0, facts)]
        ask(story, node.broker)


def test_a_broker_that_starts_says_so_and_describes_its_api() -> None:
    async def story(client: Any) -> None:
        async with client.get(f"{PREFIX}/groups") as answer:
            assert answer.status == HTTPStatus.SERVICE_UNAVAILABLE
            assert answer.headers["Retry-After"] == "1"
            found = await answer.json()
            must_be("Error", found)
            assert found["error"]["code"] == "starting"
        async with client.get(f"{PREFIX}/openapi.json") as answer:
            assert (await answer.json())["openapi"] == "3.1.0"
        async with client.head(f"{PREFIX}/openapi.json") as answer:
            assert (answer.status, await answer.read()) == (200, b"")

    ask(story)


@pytest.mark.parametrize(
    ("token", "given", "code"),
    [
        (NO_TOKEN, "", "no_token_configured"),
        (Token(text=SECRET), "", "unauthorized"),
        (Token(text=SECRET), "another-secret-of-16", "unauthorized"),
        (Token(text=SECRET), SECRET, "starting"),
    ],
)
def test_changes_take_the_token(token: Token, given: str, code: str) -> None:
    headers = {"Authorization": f"Bearer {given}"} if given else {}

    async def story(client: Any) -> None:
        for method, path in (("DELETE", "/groups/billing"), ("POST", "/groups/billing/reset")):
            async with client.request(method, PREFIX + path, headers=headers) as answer:
                assert (await answer.json())["error"]["code"] == code

    ask(story, token=token)


def test_errors_are_json_whatever_was_asked() -> None:
    async def story(client: Any) -> None:
        for method, path, status in (
            ("GET", "/nothing", 404),
            ("PUT", "/groups", 405),
            ("GET", "/groups?limit=0", 400),
            ("GET", "/groups?no=such", 400),
        ):
            async with client.request(method, PREFIX + path) as answer:
                assert answer.status == status
                must_be("Error", await answer.json())

    ask(story)
