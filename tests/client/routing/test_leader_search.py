"""Partitions that nobody leads for a while: who is asked, what is believed, and when requests go on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from tank_client import Client, ClientSettings, ProducerSettings, errors
from tank_client.model import Address, Route
from tank_client.routing.backoff import ELECTION, soon_ms
from tank_client.routing.leader_search import LeaderSearch
from tank_client.routing.pool import Pool
from tank_client.routing.routes import Routes
from tank_client.wire.operations import Redirected
from tank_protos.bundle import as_batch, encode
from tank_protos.generated import tank
from tests.support.clients.inside import calls_of
from tests.support.clients.scripted_pair import POLLING, QUICK, ROUTE, leads, two_brokers
from tests.support.storage.scripted_log import Log
from tests.support.waiting import run

ONE, TWO = Address("one", 1), Address("two", 2)


def routes() -> Routes:
    made = Routes([ONE, TWO])
    assert made.learn(ROUTE, ONE, (7, 1))
    return made


def test_a_leader_that_took_no_connection_is_none_until_a_newer_word() -> None:
    known = routes()
    known.failed(ONE)
    assert not known.learn(ROUTE, ONE, (7, 1)), "who says so has not heard of its end"
    assert not known.learn(ROUTE, ONE), "nor has who redirects there"
    assert not known.knows(ROUTE)
    assert known.learn(ROUTE, ONE, (7, 2))
    assert known.target(ROUTE) == ONE


def test_another_leader_is_news_at_once() -> None:
    known = routes()
    known.failed(ONE)
    assert known.learn(ROUTE, TWO, (7, 2))
    assert not known.learn(ROUTE, ONE, (7, 1)), "an older word"
    assert known.target(ROUTE) == TWO


def test_a_connection_that_broke_is_no_reason_to_doubt_its_leader_and_no_news_of_it() -> None:
    known = routes()
    known.lost(ONE)
    assert not known.knows(ROUTE)
    assert not known.learn(ROUTE, ONE, (7, 1))
    assert known.target(ROUTE) == ONE


@pytest.mark.parametrize("forgive", [lambda known: known.forgive(ROUTE), lambda known: known.answered(ONE)])
def test_who_is_forgiven_or_answers_may_lead_again(forgive: object) -> None:
    known = routes()
    known.failed(ONE)
    assert callable(forgive)
    forgive(known)
    known.learn(ROUTE, ONE, (7, 1))
    assert known.knows(ROUTE)


def test_an_election_is_waited_for_in_short_steps_and_an_outage_in_longer_ones() -> None:
    assert (soon_ms(1, 50, lambda: 0.0), soon_ms(1, 50, lambda: 1.0)) == (25, 50)
    assert soon_ms(ELECTION, 50, lambda: 1.0) == 50
    assert soon_ms(ELECTION + 1, 50, lambda: 1.0) == 250


def test_a_producer_asks_who_leads_and_sends_nothing_until_somebody_does() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            async with client.producer(ProducerSettings(linger_ms=0)) as producer:
                await (await producer.send("t", b"a"))
                await brokers[0].stop()
                brokers[1].requests.clear()
                later = await producer.send("t", b"b")
                await asyncio.sleep(0.1)  # the one that is left still names the dead one
                assert not later.done()
                asked = {type(request) for request in brokers[1].requests}
                assert tank.DescribeTopicsRequest in asked
                assert tank.IdempotentProduceRequest not in asked
                leads(brokers, 2, epoch=2)
                await later
            assert brokers[1].topics["t"][0].values()[-2:] == [b"a", b"b"]
            await brokers[0].start()

    run(scenario())


def test_a_leader_that_broke_a_connection_and_lives_goes_on_leading() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[1].address, QUICK) as client:
            async with client.producer(ProducerSettings(linger_ms=0)) as producer:
                for value in (b"a", b"b", b"c"):
                    await (await producer.send("t", value))
                    brokers[0].cut_all()
            assert brokers[0].topics["t"][0].values()[-3:] == [b"a", b"b", b"c"]

    run(scenario())


def test_a_consumer_goes_on_where_somebody_leads_again() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            consumer = client.consumer({"t": [0]}, start=1, settings=POLLING)
            assert (await anext(consumer)).values == [b"first"]
            await brokers[0].stop()
            assert await consumer.poll(100) is None
            leads(brokers, 2, epoch=2)
            brokers[1].append(*ROUTE, as_batch(encode([b"second"], timestamps=1)))
            assert (await anext(consumer)).values == [b"second"]
            await consumer.close()
            await brokers[0].start()

    run(scenario())


def test_nobody_waits_for_a_leader_whose_machine_says_nothing() -> None:
    async def scenario() -> None:
        async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        silent = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
        patient = ClientSettings(silence_ms=50, connect_timeout_ms=60_000, backoff_min_ms=5)
        async with silent, two_brokers(leader=2) as brokers, Client(brokers[0].address, patient) as client:
            gone = ("127.0.0.1", silent.sockets[0].getsockname()[1])
            for broker in brokers:
                broker.metadata.brokers[2] = gone
            async with client.producer(ProducerSettings(linger_ms=0)) as producer:
                delivery = await producer.send("t", b"a", partition=0)
                await asyncio.sleep(0.1)
                leads(brokers, 1, epoch=2)
                await delivery

    run(scenario())


def test_brokers_that_are_not_there_cost_a_search_no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = [Address("gone", port) for port in range(1, 20)] + [TWO]
    known = Routes(servers)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)

    async def scenario() -> None:
        async def ask(topic: str, at: Address) -> bool:
            if at != TWO:
                known.failed(at)
                return False
            leader_search.found(ROUTE)
            return True

        pool = SimpleNamespace(routes=known, settings=ClientSettings())
        leader_search = LeaderSearch(cast(Pool, pool), ask, lambda routes: None, lambda: 0.5)
        await leader_search.begin(ROUTE, servers[0])
        assert pauses == []
        assert ROUTE not in leader_search

    run(scenario())


OTHER = ("t", 1)
LOST = errors.ConnectionLost("it broke")


@asynccontextmanager
async def both_sought() -> AsyncIterator[
    tuple[Client, list[asyncio.Future[None]], asyncio.Queue[list[Route]]]
]:
    """Two partitions that were led by broker 1, to which the connection broke: it leads one of them still,
    and nobody leads the other. Gives what is done when each was found, and what listeners are told."""
    async with two_brokers(leader=1, host="127.0.0.1") as brokers:
        brokers[0].topics["t"].append(Log())
        for broker in brokers:
            broker.metadata.leaders[OTHER] = (1, 1)
        async with Client(brokers[0].address, QUICK) as client:
            await client.admin.describe_topics(["t"])
            for broker in brokers:
                del broker.metadata.leaders[OTHER]
            calls = calls_of(client)
            leaders, known = calls.leaders, calls.pool.routes
            leader = known.target(ROUTE)
            known.lost(leader)
            told: asyncio.Queue[list[Route]] = asyncio.Queue()
            leaders.listen(lambda found: told.put_nowait(list(found)))
            sought = [leaders.failed(route, LOST, leader) for route in (ROUTE, OTHER)]
            assert leaders.is_sought(ROUTE)
            yield client, cast(list[asyncio.Future[None]], sought), told


def test_who_waits_for_a_leader_that_is_found_does_not_wait_for_that_of_another_partition() -> None:
    async def scenario() -> None:
        async with both_sought() as (client, sought, told):
            assert await told.get() == [], "no news: who waits goes on, after its pause"
            await sought[0]
            assert not calls_of(client).leaders.is_sought(ROUTE)
            assert calls_of(client).leaders.is_sought(OTHER)
            assert not sought[1].done()

    run(scenario())


def test_a_redirect_to_the_leader_that_is_sought_ends_the_wait_for_it() -> None:
    async def scenario() -> None:
        async with both_sought() as (client, sought, told):
            one, two = calls_of(client).pool.routes.known_servers
            assert calls_of(client).leaders.failed(ROUTE, Redirected(one), two) is None
            assert sought[0].done()
            await asyncio.sleep(0)
            assert told.get_nowait() == []

    run(scenario())


def test_a_mistake_of_ours_in_a_search_ends_it_for_those_who_wait() -> None:
    async def scenario() -> None:
        async def ask(topic: str, at: Address) -> bool:
            raise AssertionError("ours")

        said: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: said.append(what["exception"]))
        pool = SimpleNamespace(routes=Routes([ONE, TWO]), settings=ClientSettings())
        told: list[Route] = []
        await LeaderSearch(cast(Pool, pool), ask, told.extend, lambda: 0.5).begin(ROUTE, ONE)
        assert told == [ROUTE]
        assert [str(error) for error in said] == ["ours"]

    run(scenario())
