"""Brokers that are behind with what the others know, and brokers that hang."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tank_client import Client, ProducerSettings, errors
from tank_client.model import Address, Ends, FoundTime, Route
from tank_client.routing import leader_finder
from tank_client.wire.transport import BrokerTransport
from tank_protos.bundle import encode
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import tank
from tests.support.clients.inside import calls_of
from tests.support.clients.scripted_broker import Fate, Moment, ScriptedBroker
from tests.support.clients.scripted_pair import (
    DOUBTFUL,
    POLLING,
    QUICK,
    ROUTE,
    fetched,
    leads,
    produced,
    two_brokers,
)
from tests.support.storage.scripted_log import Log
from tests.support.waiting import run

# A view that is behind


@pytest.mark.parametrize("use", [fetched, produced], ids=["fetch", "produce"])
def test_a_broker_that_has_not_heard_of_a_topic_is_asked_again(
    use: Callable[[Client], Awaitable[object]],
) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers, Client(brokers[0].address, QUICK) as client:
            await client.admin.describe_topics(["t"])
            unheard = brokers[1].topics.pop("t")
            told = 0

            def script(moment: Moment) -> Fate:
                nonlocal told
                told += not moment.carried_out
                if told == 5:
                    brokers[1].topics["t"] = unheard
                return Fate.SERVE

            brokers[1].script = script
            await use(client)

    run(scenario())


def test_a_topic_that_was_just_created_is_known_before_all_brokers_know_it() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            await client.admin.describe_topics(["t"])
            brokers[1].topics = dict(brokers[0].topics)
            told = 0

            def script(moment: Moment) -> Fate:
                nonlocal told
                told += not moment.carried_out
                if told == 5:
                    brokers[1].topics = brokers[0].topics
                return Fate.SERVE

            brokers[1].script = script
            await client.admin.create_topic("new")
            routes = calls_of(client).pool.routes
            routes.learn(("new", 0), routes.known_servers[1])
            assert not (await client.fetch("new", 0, 0)).chunk

    run(scenario(), 20)


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (
            lambda c: c.admin.await_ends({("t", 1): None, ROUTE: None}),
            {("t", 1): Ends(0, 0), ROUTE: Ends(1, 1)},
        ),
        (lambda c: c.admin.find_by_time("t", {0: 5, 1: 6}), {0: FoundTime(1, 5), 1: FoundTime(1, 6)}),
    ],
    ids=["ends", "times"],
)
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC, ErrorCode.UNKNOWN_PARTITION])
def test_one_of_several_partitions_that_a_broker_has_not_heard_of_is_asked_for_again(
    use: Callable[[Client], Awaitable[object]], expected: object, code: ErrorCode
) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers, Client(brokers[0].address, QUICK) as client:
            brokers[0].topics["t"].append(Log())
            for broker in brokers:
                broker.metadata.leaders["t", 1] = (2, 1)
            await client.admin.describe_topics(["t"])
            unheard = 5

            def answer(route: Route) -> int:
                nonlocal unheard
                if route == ("t", 1) and unheard:
                    unheard -= 1
                    return code
                return 0

            brokers[1].metadata.refusal = answer
            assert await use(client) == expected
            assert not unheard

    run(scenario(), 20)


def test_a_consumer_waits_for_a_broker_that_has_not_heard_of_a_partition() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers, Client(brokers[0].address, QUICK) as client:
            await client.admin.describe_topics(["t"])
            unheard = brokers[1].topics["t"]
            brokers[1].topics["t"] = []
            consumer = client.consumer({"t": [0]}, start=1, settings=POLLING)
            assert await consumer.poll(20) is None
            brokers[1].topics["t"] = unheard
            assert (await anext(consumer)).values == [b"first"]
            await consumer.close()

    run(scenario())


def test_a_partition_that_nobody_knows_any_more_is_gone() -> None:
    """The topic was made anew, with fewer."""

    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers, Client(brokers[0].address, QUICK) as client:
            brokers[0].topics["t"].append(Log())
            await client.admin.describe_topics(["t"])
            brokers[0].topics["t"].pop()
            with pytest.raises(errors.UnknownPartition):
                await client.fetch("t", 1, 1)
            assert await fetched(client) == b"first"

    run(scenario(), 20)


def test_a_topic_that_nobody_knows_any_more_is_gone() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers, Client(brokers[0].address, QUICK) as client:
            producer, consumer = client.producer(), client.consumer("t", start=3, settings=POLLING)
            await (await producer.send("t", b"a"))
            assert await consumer.poll() is None
            del brokers[0].topics["t"]
            with pytest.raises(errors.UnknownTopic):
                await (await producer.send("t", b"b"))
            with pytest.raises(errors.UnknownTopic):
                await anext(consumer)
            with pytest.raises(errors.UnknownTopic):
                await client.fetch(*ROUTE, 1)
            await consumer.close()
            producer.abort()

    run(scenario())


# A broker that hangs


def frozen(moment: Moment) -> Fate:
    return Fate.HOLD


@pytest.mark.parametrize("use", [fetched, produced], ids=["fetch", "produce"])
def test_a_leader_that_hangs_is_left_once_another_one_leads(
    use: Callable[[Client], Awaitable[object]],
) -> None:
    settings = replace(QUICK, silence_ms=50, attempt_timeout_ms=1_000_000, request_timeout_ms=2_000_000)

    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, settings) as client:
            await use(client)
            asked = 0
            enough = asyncio.Event()

            def still_the_other(moment: Moment) -> Fate:
                nonlocal asked
                asked += isinstance(moment.request, tank.DescribeTopicsRequest) and moment.carried_out
                if asked == 3:
                    enough.set()
                return Fate.SERVE

            brokers[0].script, brokers[1].script = frozen, still_the_other
            using = asyncio.ensure_future(use(client))
            await enough.wait()
            assert not using.done()
            leads(brokers, 2, epoch=2)
            await using

    run(scenario())


async def knowing_two_topics(client: Client, brokers: list[ScriptedBroker]) -> None:
    """The first broker leads another topic, too, of which the client has heard first."""
    brokers[0].topics["other"] = [Log()]
    for broker in brokers:
        broker.metadata.leaders["other", 0] = (1, 1)
    await client.admin.describe_topics(["other"])
    await client.admin.describe_topics(["t"])
    assert await fetched(client) == b"first"


IMPATIENT = replace(QUICK, silence_ms=50, attempt_timeout_ms=1_000_000, request_timeout_ms=2_000_000)


@pytest.mark.parametrize("use", [fetched, produced], ids=["fetch", "produce"])
def test_a_leader_that_hangs_is_left_for_what_moved_though_something_else_stayed(
    use: Callable[[Client], Awaitable[object]],
) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, IMPATIENT) as client:
            await knowing_two_topics(client, brokers)
            brokers[0].script = frozen
            leads(brokers, 2, epoch=2)
            await use(client)

    run(scenario(), 20)


@pytest.mark.parametrize("ack_timeout_ms", [0, 600_000])
def test_a_slow_leader_is_asked_about_and_not_left_because_something_else_has_moved(
    ack_timeout_ms: int,
) -> None:
    def slow(moment: Moment) -> Fate:
        return Fate.HOLD if isinstance(moment.request, tank.IdempotentProduceRequest) else Fate.SERVE

    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, IMPATIENT) as client:
            await knowing_two_topics(client, brokers)
            asked: list[str] = []
            enough = asyncio.Event()

            def still_the_other(moment: Moment) -> Fate:
                if isinstance(moment.request, tank.DescribeTopicsRequest) and moment.carried_out:
                    asked.extend(moment.request.names)
                    if len(asked) == 3:
                        enough.set()
                return Fate.SERVE

            brokers[0].script, brokers[1].script = slow, still_the_other
            async with client.producer(
                ProducerSettings(idempotent=False, ack_timeout_ms=ack_timeout_ms)
            ) as producer:
                delivery = await producer.send("t", b"second")
                for broker in brokers:
                    broker.metadata.leaders["other", 0] = (2, 2)
                await enough.wait()
                assert not delivery.done()
                assert asked == ["t"] * 3
                assert brokers[0].connections == 1
                producer.abort()

    run(scenario(), 20)


def test_a_server_that_hangs_is_not_asked_what_others_can_answer() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers:
            servers = [broker.address for broker in brokers]
            async with Client(servers, IMPATIENT, random=lambda: 0.0) as client:
                await client.admin.features()
                brokers[0].script = frozen
                late, pool = asyncio.Event(), calls_of(client).pool
                suspect = pool.on_silence

                def silent(transport: BrokerTransport) -> None:
                    assert suspect is not None
                    suspect(transport)
                    late.set()

                pool.on_silence = silent
                waiting = asyncio.ensure_future(client.admin.init_producer())
                await late.wait()
                assert (await client.admin.init_producer()).producer_id == 101
                waiting.cancel()

    run(scenario(), 20)


def mute(moment: Moment) -> Fate:
    """It doesn't say who leads."""
    return Fate.HOLD if isinstance(moment.request, tank.DescribeTopicsRequest) else Fate.SERVE


def test_one_who_is_asked_who_leads_and_hangs_is_left() -> None:
    async def scenario() -> None:
        settings = replace(QUICK, silence_ms=50, attempt_timeout_ms=1_000_000)
        async with two_brokers(leader=2) as brokers:
            servers = [broker.address for broker in brokers]
            async with Client(servers, settings, random=lambda: 0.0) as client:
                brokers[0].script = mute
                assert await fetched(client) == b"first"

    run(scenario(), 20)


def test_one_who_hangs_does_not_keep_others_from_being_asked_who_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_finder, "SILENCES", 1_000_000)  # it is never left

    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, IMPATIENT) as client:
            await client.admin.describe_topics(["t"])
            calls, hangs = calls_of(client), Address("localhost", brokers[0].port)
            brokers[0].script = mute
            leads(brokers, 2, epoch=2)
            assert await calls.leaders.find("t", hangs)
            assert calls.pool.routes.target(ROUTE) == Address("localhost", brokers[1].port)

    run(scenario(), 20)


def test_a_broker_that_stands_alone_is_not_doubted() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, DOUBTFUL) as client:
            consumer = client.consumer("t", settings=POLLING)
            assert await consumer.poll(200) is None
            asked = [r for r in broker.requests if isinstance(r, tank.DescribeTopicsRequest)]
            assert len(asked) == 1  # for the partitions
            await consumer.close()

    run(scenario())


# A call that ends


def test_a_call_that_gives_up_leaves_the_connection_to_the_others() -> None:
    async def scenario() -> None:
        settings = replace(QUICK, request_timeout_ms=100, attempt_timeout_ms=1_000_000)
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, settings) as client:
            producer = client.producer(ProducerSettings(idempotent=False))
            await (await producer.send("t", b"a"))
            broker.script = frozen
            delivery = await producer.send("t", b"b")
            with pytest.raises(errors.ServerUnreachable, match="not answered in time"):
                await client.admin.init_producer()
            broker.script = lambda moment: Fate.SERVE
            assert (await client.admin.init_producer()).producer_id
            assert broker.connections == 1
            assert not delivery.done()
            producer.abort()

    run(scenario(), 20)


def test_a_call_asks_nobody_after_its_end() -> None:
    """The one who is asked who leads does not answer as long as the call lasts."""

    def no_leader(moment: Moment) -> Fate | int:
        produce = isinstance(moment.request, tank.IdempotentProduceRequest)
        return ErrorCode.NO_LEADER if produce and not moment.carried_out else Fate.SERVE

    async def scenario() -> None:
        settings = replace(QUICK, request_timeout_ms=100)
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, settings) as client:
            await client.admin.describe_topics(["t"])
            brokers[0].script, brokers[1].script = no_leader, frozen
            with pytest.raises(errors.RequestTimedOut):
                await client.produce_bundle("t", 0, encode([b"b"], timestamps=1), producer_id=9)
            assert sum(isinstance(r, tank.IdempotentProduceRequest) for r in brokers[0].requests) == 1

    run(scenario(), 20)
