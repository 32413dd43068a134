"""One address behind which any broker may be: a Service of Kubernetes, a tunnel, a proxy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tank_client import Client
from tank_client.model import Address
from tank_protos.bundle import as_batch, encode
from tests.support.clients.inside import calls_of
from tests.support.clients.scripted_broker import ScriptedBroker
from tests.support.clients.scripted_pair import POLLING, QUICK, ROUTE, leads, two_brokers
from tests.support.waiting import run


@asynccontextmanager
async def service(behind: list[ScriptedBroker]) -> AsyncIterator[Address]:
    """An address that leads to the first of these, at the time when somebody connects."""

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await behind[0].serve(reader, writer)

    server = await asyncio.start_server(lead, "127.0.0.1", 0, limit=1 << 26)
    async with server:
        yield Address(*server.sockets[0].getsockname())


def test_a_broker_is_not_looked_for_where_another_one_answers_by_now() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers:
            behind = list(brokers)
            async with service(behind) as address, Client(str(address), QUICK) as client:
                consumer = client.consumer("t", settings=POLLING)
                assert (await anext(consumer)).values == [b"first"]
                # The first broker is started anew. Meanwhile the second one leads, and has the Service.
                behind.reverse()
                leads(brokers, 2, epoch=2)
                brokers[0].cut_all()
                brokers[0].append(*ROUTE, as_batch(encode([b"second"], timestamps=1)))
                assert (await anext(consumer)).values == [b"second"]
                assert (await calls_of(client).pool.at(address)).server.broker_id == 2
                leads(brokers, 1, epoch=3)
                brokers[0].append(*ROUTE, as_batch(encode([b"third"], timestamps=1)))
                assert (await anext(consumer)).values == [b"third"]
                await consumer.close()

    run(scenario(), 20)
