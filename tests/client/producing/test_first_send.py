"""The first message of a topic, where no broker answers: it waits as long as the producer may block."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from tank_client import Client, ClientSettings, ProducerSettings, Stored, errors, sync
from tests.support.clients.inside import held_by
from tests.support.clients.scripted_broker import Fate, Moment, ScriptedBroker
from tests.support.waiting import run

PATIENT = ClientSettings(connect_timeout_ms=3_600_000, request_timeout_ms=3_600_000)
"""A call would not end while the test runs."""
BRIEF = ProducerSettings(max_block_ms=50)


@pytest.fixture
def silent_address() -> Iterator[str]:
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def dead_address(silent_address: str) -> Iterator[str]:
    """It takes no connections: bound, and not listening."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(params=["silent", "dead"])
def address(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_address")
    return address


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_many"])
def test_it_waits_no_longer_than_it_may_and_says_what_to_do(address: str, many: bool) -> None:
    async def scenario() -> None:
        async with Client(address, PATIENT) as client, client.producer(BRIEF) as producer:
            with pytest.raises(errors.ServerUnreachable, match=f"{address} .*tank serve.*--servers"):
                await (producer.send_many("t", [b"x"]) if many else producer.send("t", b"x"))

    run(scenario(), 30)


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_many"])
def test_so_does_the_synchronous_face(address: str, many: bool) -> None:
    with (
        sync.Client(address, PATIENT) as client,
        client.producer(BRIEF) as producer,
        pytest.raises(errors.ServerUnreachable, match=f"{address} .*tank serve.*--servers"),
    ):
        producer.send_many("t", [b"x"]) if many else producer.send("t", b"x")


def test_any_call_ends_in_its_time_while_it_connects(silent_address: str) -> None:
    async def scenario() -> None:
        settings = ClientSettings(connect_timeout_ms=3_600_000, request_timeout_ms=50)
        async with Client(silent_address, settings) as client:
            with pytest.raises(errors.ServerUnreachable, match="has not answered yet"):
                await client.admin.list_groups()
            with pytest.raises(errors.ServerUnreachable, match="has not answered yet"):
                await client.fetch("t", 0, 1)

    run(scenario(), 30)


def test_it_waits_longer_than_a_call_may_take() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            tries = 0

            def cut_often(moment: Moment) -> Fate:
                nonlocal tries
                if moment.carried_out or "Describe" not in type(moment.request).__name__:
                    return Fate.SERVE
                tries += 1
                return Fate.CUT if tries < 6 else Fate.SERVE

            broker.script = cut_often
            settings = ClientSettings(request_timeout_ms=1, backoff_min_ms=2, backoff_max_ms=2)
            async with Client(broker.address, settings) as client, client.producer() as producer:
                assert await (await producer.send("t", b"x")) == Stored(1, 1)

    run(scenario(), 30)


def test_what_was_known_of_a_topic_is_believed_while_no_broker_answers() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, PATIENT) as client:
            producer = client.producer(BRIEF)
            delivery = None
            while delivery is None:  # so brief that a busy machine needs some
                with contextlib.suppress(errors.ServerUnreachable):
                    delivery = await producer.send("t", b"x")
            await delivery
            broker.script = lambda moment: Fate.HOLD
            held_by(producer).topics["t"].stale = True
            delivery = await producer.send("t", b"y")
            await asyncio.sleep(0)
            assert not delivery.done()
            producer.abort()

    run(scenario(), 30)
