"""What a program can do wrong with a producer, or too much of at once: nothing else stops for it."""

from typing import Any

import pytest

from tank_client import Client, ClientSettings, ProducerSettings, Stored, errors
from tests.support.clients.inside import held_by
from tests.support.clients.scripted_broker import ScriptedBroker
from tests.support.waiting import run


def client(broker: ScriptedBroker) -> Client:
    return Client(broker.address)


@pytest.mark.parametrize(
    "wrong",
    [
        {"values": ["text"]},
        {"values": [b"x"], "keys": ["text"]},
        {"values": [b"x"], "keys": ["text"], "partition": 0},
        {"values": [b"x"], "keys": [b"k" * 256], "partition": 0},
        {"values": [b"x"], "timestamps_ms": 1.5},
        {"values": [b"x"], "timestamps_ms": [None]},
    ],
    ids=str,
)
def test_what_cannot_be_encoded_is_refused_at_once_and_stops_nobody(wrong: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c, c.producer() as producer:
            with pytest.raises(errors.InvalidArgument):
                await producer.send_many("t", **wrong)
            one = {"key": wrong["keys"][0]} if "keys" in wrong else {}
            stamp: Any = 1.5 if "timestamps_ms" in wrong else 1
            with pytest.raises(errors.InvalidArgument):
                await producer.send("t", wrong["values"][0], partition=0, timestamp_ms=stamp, **one)
            key: Any = bytearray(b"k")
            assert await (await producer.send("t", b"good", key=key)) == Stored(1, 1)

    run(scenario())


def test_a_bundle_that_the_engine_cannot_encode_fails_alone() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            producer = c.producer(ProducerSettings(batch_bytes=1, linger_ms=0))
            bad = await producer.send("t", b"x")
            held_by(producer).topics["t"].by_partition[0].sealed[0].keys = ["text"]  # type: ignore[list-item]
            good = await producer.send("t", b"y")
            with pytest.raises(errors.InvalidArgument, match="t/0 cannot be encoded"):
                await bad
            assert await good == Stored(1, 1)
            producer.abort()

    run(scenario())


def test_a_connection_that_has_no_place_for_a_bundle_gets_it_later() -> None:
    async def scenario() -> None:
        settings = ClientSettings(max_in_flight_per_connection=1, backoff_min_ms=1)
        async with ScriptedBroker(topics={"t": 3}) as broker, Client(broker.address, settings) as c:
            async with c.producer(ProducerSettings(batch_bytes=1, linger_ms=0)) as producer:
                for number in range(30):
                    await producer.send("t", b"%d" % number, partition=number % 3)
            for partition, log in enumerate(broker.topics["t"]):
                assert log.values() == [b"%d" % number for number in range(partition, 30, 3)]

    run(scenario())
