"""A client of brokers that have names, while the name service is away."""

import socket
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from tank_client import Client, errors
from tests.support.clients.scripted_broker import ScriptedBroker
from tests.support.clients.scripted_pair import QUICK, ROUTE, fetched, two_brokers
from tests.support.waiting import run

_SHORT = replace(QUICK, request_timeout_ms=1_000)


def _pair() -> AbstractAsyncContextManager[list[ScriptedBroker]]:
    """The second leads, and has a name."""
    return two_brokers(leader=2, host="broker.test")


class Names:
    """The name service, as `socket.getaddrinfo` asks it: each name is this machine's."""

    def __init__(self) -> None:
        self.failing: int | None = None

    def __call__(self, host: str, port: int | None, *args: Any, **kwargs: Any) -> list[tuple[Any, ...]]:
        if self.failing is not None:
            raise socket.gaierror(self.failing, "as the test wants it")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port or 0))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    return names


@pytest.mark.parametrize("code", [socket.EAI_AGAIN, socket.EAI_FAIL])
def test_a_leader_is_reached_again_at_its_last_address(names: Names, code: int) -> None:
    async def scenario() -> None:
        async with _pair() as brokers, Client(brokers[0].address, QUICK) as client:
            assert await fetched(client) == b"first"
            names.failing = code
            for broker in brokers:
                broker.cut_all()
            assert await fetched(client) == b"first"

    run(scenario(), 20)


def test_who_wants_a_connection_of_his_own_to_a_leader_gets_an_address(names: Names) -> None:
    async def scenario() -> None:
        async with _pair() as brokers, Client(brokers[0].address, QUICK) as client:
            assert await fetched(client) == b"first"
            names.failing = socket.EAI_AGAIN
            address, _ = await client.leader(*ROUTE)
            assert str(address) == brokers[1].address.replace("broker.test", "127.0.0.1")

    run(scenario(), 20)


def test_a_leader_whose_name_is_gone_is_not_reached(names: Names) -> None:
    async def scenario() -> None:
        async with _pair() as brokers, Client(brokers[0].address, _SHORT) as client:
            assert await fetched(client) == b"first"
            names.failing = socket.EAI_NONAME
            for broker in brokers:
                broker.cut_all()
            with pytest.raises(errors.TankError):
                await fetched(client)

    run(scenario(), 20)
