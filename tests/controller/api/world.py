"""The HTTP API of a controller that doesn't lead, beside one that does, for tests to ask by HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tank_controller import limits
from tank_controller.api import leader as api_leader
from tank_controller.api.document import document
from tank_controller.api.leader import Leader, Lines
from tank_controller.api.names import Name
from tank_controller.api.operations import OPERATIONS
from tank_controller.api.routes import HttpApi
from tank_protos.http_api.access import Access
from tank_protos.http_api.operations import PREFIX
from tank_protos.http_api.token import Token
from tests.controller.cluster_for_tests import Cluster
from tests.support.controllers.scripted_controllers import ScriptedControllers

SECRET = "0123456789abcdef"
WITH_SECRET = Token(text=SECRET)
DOCUMENT: Any = document()


@dataclass
class Answer:
    """What came back."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """Of an error."""
        return str(self.body["error"]["code"])


Ask = Callable[..., Awaitable[Answer]]


def strictly(schema: Any) -> Any:
    """The schema, with every key that it doesn't name refused."""
    if isinstance(schema, dict):
        strict = {key: strictly(value) for key, value in schema.items()}
        return {**strict, "additionalProperties": False} if "properties" in schema else strict
    return [strictly(each) for each in schema] if isinstance(schema, list) else schema


STRICT = {name: strictly(schema) for name, schema in DOCUMENT["components"]["schemas"].items()}


def must_be(name: str, found: Any) -> None:
    """What the description says that it is."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": STRICT}}
    jsonschema.Draft202012Validator(schema).validate(found)


class World:
    """Two controllers whose state a test sets, and the API of the first, which doesn't lead."""

    def __init__(self, controllers: ScriptedControllers) -> None:
        self.controllers = controllers
        self.cluster = controllers.cluster
        self.api: HttpApi | None = None
        self.client: Any = None
        """Of HTTP."""

    def run(self, story: Callable[[Ask], Awaitable[None]], token: Token = WITH_SECRET) -> None:
        """Tells a story of requests; every answer is checked against the description."""
        asyncio.run(self._run(story, token))

    async def _run(self, story: Callable[[Ask], Awaitable[None]], token: Token) -> None:
        addresses = self.controllers.addresses
        lines = Lines()
        leader = Leader(lines.to(addresses[0]), lines.to, 1, {1: addresses[0], 2: addresses[1]})
        self.api = HttpApi(leader, Access(token, "controller"), lambda: 7)
        app = web.Application(client_max_size=limits.MAX_API_BODY_BYTES)
        self.api.add_to(app)
        async with TestClient(TestServer(app)) as client:
            self.client = client

            async def ask(
                name: Name, body: object = None, /, *, token: str = SECRET, **said: object
            ) -> Answer:
                return await _ask(client, name, body, token, said)

            await story(ask)
        await lines.close()


async def _ask(client: Any, name: Name, body: object, token: str, said: dict[str, object]) -> Answer:
    operation = OPERATIONS[name]
    in_path = {each.name: str(said.pop(each.name)) for each in operation.in_path}
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    path = PREFIX + operation.path.format(**in_path)
    async with client.request(operation.method, path, data=data, params=said, headers=headers) as answer:
        found = await answer.json()
        assert answer.content_type == "application/json"
        must_be(operation.answer if answer.status < 400 else "Error", found)
        if answer.status < 400:
            assert answer.status == operation.status
        return Answer(answer.status, found, dict(answer.headers))


@pytest.fixture(name="world")
def api_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(limits, "API_LEADER_S", 0.3)
    monkeypatch.setattr(api_leader, "POLL_S", 0.01)
    with ScriptedControllers(Cluster(1, 2, 3)) as controllers:
        yield World(controllers)
