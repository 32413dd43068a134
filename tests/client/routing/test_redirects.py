"""Brokers that name each other as the leader: a client goes to and fro between them, but not without a pause.

Pauses are looked at from below only: a timer never ends early, however busy the machine is."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from tank_client import Client, ClientSettings
from tank_protos.generated import tank
from tests.support.clients.scripted_broker import Fate, Moment
from tests.support.clients.scripted_pair import POLLING, ROUTE, leads, produced, two_brokers
from tests.support.waiting import run

ENOUGH = 6
"""Requests, after which one of the two leads."""
PAUSES_MS = (0, 10, 20, 30, 40)
"""Before each request but the first."""


async def consumed(client: Client) -> None:
    consumer = client.consumer({"t": [0]}, start=1, settings=POLLING)
    assert (await anext(consumer)).values == [b"first"]
    await consumer.close()


@pytest.mark.parametrize("use", [produced, consumed])
@pytest.mark.parametrize("describe_first", [True, False])
def test_brokers_that_name_each_other_are_asked_more_and_more_seldom(
    use: Callable[[Client], Awaitable[object]], describe_first: bool
) -> None:
    async def scenario() -> None:
        async with (
            two_brokers(leader=1, host="127.0.0.1") as brokers,
            Client(brokers[0].address, ClientSettings()) as client,
        ):
            asked_at: list[float] = []

            def script(moment: Moment) -> Fate:
                kinds = tank.IdempotentProduceRequest | tank.ConsumeRequest
                if not moment.carried_out and isinstance(moment.request, kinds):
                    asked_at.append(asyncio.get_running_loop().time())
                    if len(asked_at) == ENOUGH:
                        leads(brokers, 2, epoch=2)
                return Fate.SERVE

            for broker, other in zip(brokers, reversed(brokers), strict=True):
                broker.redirects[ROUTE] = other.port
                broker.script = script
            if describe_first:
                await client.admin.describe_topics(["t"])
            await use(client)
            pauses = [(after - before) * 1000 for before, after in pairwise(asked_at)]
            assert len(pauses) >= len(PAUSES_MS)
            for least, pause in zip(PAUSES_MS, pauses, strict=False):
                assert pause >= least, pauses

    run(scenario())
