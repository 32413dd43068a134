"""A scripted broker that assigns partitions, for tests of the members of a group."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tank_client import Client, ClientSettings, Consumer, ConsumerSettings
from tank_protos.bundle import as_batch, encode
from tests.support.clients.scripted_broker import ScriptedBroker
from tests.support.clients.scripted_sharing import ScriptedSharing
from tests.support.waiting import comes

QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)
LATE_MS = 1_000
"""After so long without a read a member leaves: longer than a join takes on a busy machine."""
READING = ConsumerSettings(max_wait_ms=20)
PARTITIONS = 4


@asynccontextmanager
async def served(
    partitions: int = PARTITIONS,
) -> AsyncIterator[tuple[ScriptedBroker, ScriptedSharing, Client]]:
    """A broker with the topic t, its groups, and a client."""
    async with ScriptedBroker(topics={"t": partitions}) as broker:
        broker.sharing = ScriptedSharing({"t": partitions})
        async with Client(broker.address, QUICK, random=lambda: 0.5) as client:
            yield broker, broker.sharing, client


def put(broker: ScriptedBroker, partition: int, *values: bytes) -> None:
    broker.append("t", partition, as_batch(encode(list(values), timestamps=7)))


async def read_until(consumer: Consumer, true: Any) -> list[bytes | None]:
    """Reads until `true()`; returns the values."""
    found: list[bytes | None] = []
    while not true():
        batch = await consumer.poll(20)
        if batch is not None:
            found += batch.values
    return found


def of_t(*numbers: int) -> list[tuple[str, int]]:
    return [("t", number) for number in numbers]


async def names(sharing: ScriptedSharing, member: str, *numbers: int) -> None:
    """Waits for a heartbeat of the member, from now on, that names these partitions."""
    begin = len(sharing.events)
    await comes(lambda: ("owns", member, of_t(*numbers)) in sharing.events[begin:])
