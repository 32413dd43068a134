"""Where brokers' names lead, while the name service is well and while it is away."""

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tank_client.model import Address
from tank_client.routing.pool import Pool
from tank_client.routing.routes import Routes
from tank_client.settings import ClientSettings
from tank_client.wire.hosts import Hosts
from tank_node.cluster.view import BrokerView
from tank_node.surroundings import Surroundings
from tank_protos.resolver import HostAddress, Resolver
from tests.support.clients.scripted_broker import Kind, ScriptedBroker
from tests.support.nodes.served_node import ServedNode
from tests.support.waiting import comes, run

AT_1: HostAddress = (socket.AF_INET, "10.0.0.1")
AT_2: HostAddress = (socket.AF_INET, "10.0.0.2")


class Scene:
    """A client's hosts, a name service and a broker."""

    def __init__(self) -> None:
        self.addresses = {"b1": "10.0.0.1"}
        self.failing: int | None = None
        self.hangs = False
        self.looked_up: list[str] = []
        self.said: dict[str, list[str]] = {"b1": ["10.0.0.2"]}
        self.asked = 0
        resolver = Resolver(self.look_up, lambda: 0.0, logging.getLogger("tests.hosts"))
        self.hosts = Hosts(resolver, self.ask)

    async def look_up(self, host: str) -> Sequence[tuple[Any, ...]]:
        self.looked_up.append(host)
        if self.hangs:
            await asyncio.Event().wait()
        if self.failing is not None:
            raise socket.gaierror(self.failing, "as the test wants it")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.addresses[host], 0))]

    async def ask(self) -> Mapping[str, Sequence[str]]:
        self.asked += 1
        return self.said


def test_what_the_name_service_says_counts() -> None:
    async def story() -> None:
        scene = Scene()
        assert await scene.hosts.resolve("b1") == (AT_1,)
        assert scene.asked == 0

    run(story())


@pytest.mark.parametrize("failing", [socket.EAI_AGAIN, None], ids=["fails", "hangs"])
def test_a_broker_is_asked_once_for_a_name_that_never_had_an_answer(failing: int | None) -> None:
    async def story() -> None:
        scene = Scene()
        scene.failing, scene.hangs = failing, failing is None
        assert await scene.hosts.resolve("b1") == (AT_2,)
        assert await scene.hosts.resolve("b1") == (AT_2,)
        assert scene.asked == 1

    run(story())


def test_the_name_service_is_believed_again_when_it_answers() -> None:
    async def story() -> None:
        scene = Scene()
        scene.failing = socket.EAI_AGAIN
        await scene.hosts.resolve("b1")
        scene.failing = None
        assert await scene.hosts.resolve("b1") == (AT_1,)

    run(story())


def test_no_broker_is_asked_about_a_name_that_is_not_there() -> None:
    async def story() -> None:
        scene = Scene()
        scene.failing = socket.EAI_NONAME
        with pytest.raises(socket.gaierror):
            await scene.hosts.resolve("b1")
        assert scene.asked == 0

    run(story())


@pytest.mark.parametrize("said", [{}, {"b2": ["10.0.0.2"]}, {"b1": ["b2", ""]}])
def test_where_no_broker_knows_either_the_lookup_says_what_is_wrong(said: dict[str, list[str]]) -> None:
    async def story() -> None:
        scene = Scene()
        scene.failing, scene.said = socket.EAI_AGAIN, said
        with pytest.raises(socket.gaierror) as raised:
            await scene.hosts.resolve("b1")
        assert raised.value.errno == socket.EAI_AGAIN

    run(story())


def test_names_that_metadata_names_are_known_before_they_are_dialed() -> None:
    async def story() -> None:
        scene = Scene()
        scene.addresses["b2"] = "10.0.0.2"
        scene.hosts.learn(["b1", "127.0.0.1"])
        await asyncio.sleep(0)
        scene.hosts.learn(["b1", "b2"])
        await comes(lambda: scene.looked_up == ["b1", "b2"])
        await asyncio.sleep(0.01)  # what was looked up is remembered
        scene.failing = socket.EAI_AGAIN
        assert await scene.hosts.resolve("b2") == (AT_2,)
        assert scene.asked == 0

    run(story())


def test_the_first_broker_that_knows_is_asked_over_the_connection_that_there_is(tmp_path: Path) -> None:
    async def story(node: ServedNode) -> None:
        node.broker.link.view.brokers[2] = BrokerView(2, 1, "b1", 11011, "")
        node.broker.surroundings = Surroundings(addresses=lambda host: ["10.0.0.2"] if host == "b1" else [])
        scene = Scene()
        scene.failing = socket.EAI_AGAIN
        here = Address("127.0.0.1", node.port)
        async with ScriptedBroker(Kind.CPP, {"t": 1}) as other_kind:
            there = Address("127.0.0.1", int(other_kind.address.rpartition(":")[2]))
            resolver = Resolver(scene.look_up, lambda: 0.0, logging.getLogger("tests.hosts"))
            pool = Pool(Routes([there, here]), ClientSettings(), resolver)
            await pool.at(there)
            with pytest.raises(socket.gaierror):
                await pool.hosts.resolve("b1")
            await pool.at(here)
            assert await pool.hosts.resolve("b1") == (AT_2,)
            with pytest.raises(socket.gaierror):
                await pool.hosts.resolve("b2")
            await pool.close()

    with ServedNode(tmp_path / "data") as node:
        run(story(node))
