"""Two scripted brokers of one cluster, and steps of tests with them."""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from tank_client import Client, ClientSettings, ConsumerSettings, Stored
from tank_protos.bundle import as_batch, bundles, decode, encode
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import tank
from tests.support.clients.scripted_broker import Fate, Moment, ScriptedBroker

QUICK = ClientSettings(
    backoff_min_ms=1, backoff_max_ms=5, request_timeout_ms=3_000, view_lag_ms=300, new_topic_lag_ms=50
)
DOUBTFUL = replace(QUICK, doubt_after_ms=30)
POLLING = ConsumerSettings(max_wait_ms=20)
ROUTE = ("t", 0)


@asynccontextmanager
async def two_brokers(leader: int, *, host: str = "localhost") -> AsyncIterator[list[ScriptedBroker]]:
    """Brokers 1 and 2, known by name, with one topic and what is stored there; the one that doesn't lead it
    can't name the other in its answers. The first message is there."""
    async with ScriptedBroker(topics={"t": 1}) as one, ScriptedBroker(topics={"t": 1}) as two:
        brokers = [one, two]
        for number, broker in enumerate(brokers, 1):
            broker.metadata.broker_id = number
            broker.metadata.brokers = {1: (host, one.port), 2: (host, two.port)}
        two.topics = one.topics
        leads(brokers, leader, epoch=1)
        one.append(*ROUTE, as_batch(encode([b"first"], timestamps=1)))
        yield brokers


def leads(brokers: list[ScriptedBroker], leader: int, epoch: int) -> None:
    """All brokers know that this one leads."""
    for number, broker in enumerate(brokers, 1):
        broker.metadata.leaders[ROUTE] = (leader, epoch)
        broker.redirects.pop(ROUTE, None)
        if number != leader:
            broker.redirects[ROUTE] = 0


def cannot(moment: Moment) -> Fate | int:
    """A leader that nobody follows any more."""
    produce = isinstance(moment.request, tank.IdempotentProduceRequest)
    return ErrorCode.NOT_ACKNOWLEDGED_IN_TIME if produce and not moment.carried_out else Fate.SERVE


def cut_off(brokers: list[ScriptedBroker]) -> None:
    """Broker 2 leads now, and broker 1 does not know."""
    brokers[0].topics = copy.deepcopy(brokers[0].topics)
    leads(brokers, 2, epoch=2)
    del brokers[0].redirects[ROUTE]
    brokers[0].metadata.leaders[ROUTE] = (1, 1)
    brokers[0].script = cannot


async def fetched(client: Client) -> bytes:
    chunk = await client.fetch(*ROUTE, 1)
    return decode(next(iter(bundles(chunk.chunk))), 1)[0].value


async def produced(client: Client) -> Stored:
    async with client.producer() as producer:
        return await (await producer.send("t", b"second"))
