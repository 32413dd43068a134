"""Following leaders: answers that can't name them, servers that die, leaders that are cut off."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tank_client import Client, ConsumerSettings, OutOfBounds, OutOfBoundsPolicy, ProducerSettings, Stored
from tank_client.errors import OutOfOrderSequence, UnknownProducer, UnknownTopic
from tank_client.model import END, Ends, FoundTime
from tank_client.routing import by_leader
from tank_client.settings import AtTime
from tank_protos.bundle import as_batch, encode
from tank_protos.generated import tank
from tests.support.clients.scripted_broker import Fate, Moment, ScriptedBroker
from tests.support.clients.scripted_pair import (
    DOUBTFUL,
    POLLING,
    QUICK,
    ROUTE,
    cut_off,
    fetched,
    leads,
    produced,
    two_brokers,
)
from tests.support.storage.scripted_log import Log
from tests.support.waiting import run

SHORT_LAG = replace(QUICK, view_lag_ms=50)


async def first_of_a_consumer(client: Client, **options: object) -> list[bytes | None]:
    consumer = client.consumer("t", **options)  # type: ignore[arg-type]
    batch = await anext(consumer)
    await consumer.close()
    return batch.values


async def ends_at_the_end(client: Client) -> int:
    consumer = client.consumer("t", start="end")
    await consumer.start()
    found = consumer.position(*ROUTE)
    await consumer.seek(*ROUTE, 1)
    await consumer.seek(*ROUTE, END)
    assert consumer.position(*ROUTE) == found
    await consumer.close()
    return found


USES: list[tuple[str, Callable[[Client], Awaitable[object]], object]] = [
    ("fetch", fetched, b"first"),
    ("ends", lambda c: c.admin.await_ends({ROUTE: None}), {ROUTE: Ends(1, 1)}),
    ("times", lambda c: c.admin.find_by_time("t", {0: 5}), {0: FoundTime(1, 5)}),
    ("to the end", lambda c: first_of_a_consumer(c, stop_at_end=True), [b"first"]),
    ("from the end", ends_at_the_end, 2),
    ("from a time", lambda c: first_of_a_consumer(c, start=AtTime(0)), [b"first"]),
    ("from a number", lambda c: first_of_a_consumer(c, start=1), [b"first"]),
    ("produce", produced, Stored(2, 2)),
    ("bundle", lambda c: c.produce_bundle("t", 0, encode([b"b"], timestamps=1)), Stored(2, 2)),
]


@pytest.mark.parametrize(("use", "expected"), [use[1:] for use in USES], ids=[use[0] for use in USES])
def test_a_fresh_client_finds_a_leader_that_answers_cannot_name(
    use: Callable[[Client], Awaitable[object]], expected: object
) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as (one, _), Client(one.address, QUICK) as client:
            assert await use(client) == expected

    run(scenario())


@pytest.mark.parametrize("use", [fetched, produced], ids=["fetch", "produce"])
def test_a_leader_that_changes_unsaid_is_found_again(use: Callable[[Client], Awaitable[object]]) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers, Client(brokers[0].address, QUICK) as client:
            await use(client)
            for leader, epoch in ((1, 2), (2, 3)):
                leads(brokers, leader, epoch)
                await use(client)

    run(scenario())


def test_a_consumer_finds_a_leader_that_changes_unsaid() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers, Client(brokers[0].address, QUICK) as client:
            consumer = client.consumer("t", settings=POLLING)
            assert (await anext(consumer)).values == [b"first"]
            for leader, epoch, value in ((1, 2, b"second"), (2, 3, b"third")):
                leads(brokers, leader, epoch)
                brokers[0].append(*ROUTE, as_batch(encode([value], timestamps=1)))
                assert (await anext(consumer)).values == [value]
            await consumer.close()

    run(scenario(), 10)


# One server


@pytest.mark.parametrize("use", [fetched, produced], ids=["fetch", "produce"])
def test_the_death_of_the_only_server_that_was_named_is_no_end(
    use: Callable[[Client], Awaitable[object]],
) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            await use(client)
            await client.admin.describe_topics(["t"])  # it is asked for anyway; now it is known
            await brokers[0].stop()
            leads(brokers, 2, epoch=2)
            await use(client)
            await client.admin.describe_topics()
            await brokers[0].start()

    run(scenario())


def test_a_consumer_outlives_the_only_server_that_was_named() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            consumer = client.consumer({"t": [0]}, start=1, settings=POLLING)
            assert (await anext(consumer)).values == [b"first"]
            assert await consumer.poll(20) is None
            await brokers[0].stop()
            leads(brokers, 2, epoch=2)
            brokers[1].append(*ROUTE, as_batch(encode([b"second"], timestamps=1)))
            assert (await anext(consumer)).values == [b"second"]
            await consumer.close()
            await brokers[0].start()

    run(scenario())


# A leader that is cut off


@pytest.mark.parametrize("idempotent", [True, None])
def test_producers_leave_a_leader_that_only_believes_that_it_leads(idempotent: bool | None) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            async with client.producer(ProducerSettings(idempotent=idempotent)) as producer:
                await (await producer.send("t", b"a"))
                cut_off(brokers)
                await (await producer.send("t", b"b", timestamp_ms=1))
            stored = await client.produce_bundle("t", 0, encode([b"c"], timestamps=1), producer_id=9)
            assert stored == Stored(4, 4)
            assert brokers[1].topics["t"][0].values() == [b"first", b"a", b"b", b"c"]

    run(scenario())


def test_a_call_leaves_a_leader_that_only_believes_that_it_leads() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            await client.fetch(*ROUTE, 1)
            cut_off(brokers)
            bundle = encode([b"c"], timestamps=1)
            assert await client.produce_bundle("t", 0, bundle, producer_id=9) == Stored(2, 2)

    run(scenario())


@pytest.mark.parametrize("known", [True, False], ids=["a gap", "nothing of it"])
@pytest.mark.parametrize("by_call", [True, False], ids=["bundle", "producer"])
def test_a_producer_does_not_believe_an_old_leader_that_lacks_what_it_has_sent(
    known: bool, by_call: bool
) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            old, new = brokers
            asked = []

            def lacks(moment: Moment) -> Fate:
                if moment.carried_out and isinstance(moment.request, tank.IdempotentProduceRequest):
                    asked.append(moment)
                return Fate.SERVE

            async with client.producer() as producer:
                number = 0

                async def send(value: bytes) -> None:
                    nonlocal number
                    if by_call:
                        bundle = encode([value], timestamps=1)
                        await client.produce_bundle(*ROUTE, bundle, producer_id=9, sequence=number)
                    else:
                        await (await producer.send("t", value))
                    number += 1

                if known:
                    await send(b"a")
                cut_off(brokers)
                await send(b"b")
                await send(b"c")
                old.script = lacks
                new.cut_all()  # now the old one is asked
                await send(b"d")
            assert asked
            assert new.topics["t"][0].values() == [b"first", *([b"a"] if known else []), b"b", b"c", b"d"]
            assert b"d" not in old.topics["t"][0].values()

    run(scenario())


def test_what_every_leader_lacks_of_a_producer_is_out_of_order() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            bundle = encode([b"a"], timestamps=1)
            await client.produce_bundle(*ROUTE, bundle, producer_id=9)
            for sequence in (5, 7):
                with pytest.raises(OutOfOrderSequence):
                    await client.produce_bundle(*ROUTE, bundle, producer_id=9, sequence=sequence)
            with pytest.raises(UnknownProducer):
                await client.produce_bundle(*ROUTE, bundle, producer_id=8, sequence=5)

    run(scenario())


def test_a_client_that_tries_seldom_believes_what_every_leader_lacks_too() -> None:
    async def scenario() -> None:
        seldom = replace(QUICK, backoff_min_ms=60, backoff_max_ms=60, view_lag_ms=20)  # it waits for 30 to 60
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, seldom) as client:
            with pytest.raises(UnknownProducer):
                await client.produce_bundle(*ROUTE, encode([b"a"], timestamps=1), producer_id=8, sequence=5)

    run(scenario())


def test_what_a_leader_lacked_once_does_not_make_it_believed_another_time() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, SHORT_LAG) as client:
            asked = []

            def counts(moment: Moment) -> Fate:
                if moment.carried_out and isinstance(moment.request, tank.IdempotentProduceRequest):
                    asked.append(moment)
                return Fate.SERVE

            brokers[0].script = counts
            bundle = encode([b"a"], timestamps=1)
            for _ in range(2):
                asked.clear()
                with pytest.raises(UnknownProducer):
                    await client.produce_bundle(*ROUTE, bundle, producer_id=8, sequence=5)
                assert len(asked) > 1
                await asyncio.sleep(2 * SHORT_LAG.view_lag_ms / 1000)

    run(scenario())


@pytest.mark.parametrize("wait_ms", [20, 3_600_000])
def test_a_reader_leaves_a_leader_from_which_nothing_comes(wait_ms: int) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, DOUBTFUL) as client:
            consumer = client.consumer("t", settings=ConsumerSettings(max_wait_ms=wait_ms))
            assert (await anext(consumer)).values == [b"first"]
            cut_off(brokers)
            brokers[1].append(*ROUTE, as_batch(encode([b"second"], timestamps=1)))
            assert (await anext(consumer)).values == [b"second"]
            assert (await client.admin.await_ends({ROUTE: 1}, 60_000)) == {ROUTE: Ends(1, 2)}
            await consumer.close()

    run(scenario())


def test_who_waits_for_ends_leaves_a_leader_from_which_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_leader, "LONE_WAIT_MS", 500)

    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, DOUBTFUL) as client:
            assert (await client.admin.await_ends({ROUTE: 0}, 60_000)) == {ROUTE: Ends(1, 1)}
            cut_off(brokers)
            brokers[1].append(*ROUTE, as_batch(encode([b"second"], timestamps=1)))
            assert (await client.admin.await_ends({ROUTE: 1}, 60_000)) == {ROUTE: Ends(1, 2)}

    run(scenario())


@pytest.mark.parametrize("policy", ["earliest", "latest", "error"])
def test_a_reader_does_not_go_back_at_a_leader_that_is_cut_off(policy: str) -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, DOUBTFUL) as client:
            settings = ConsumerSettings(max_wait_ms=60_000, out_of_bounds=OutOfBoundsPolicy(policy))
            consumer = client.consumer("t", settings=settings)
            assert (await anext(consumer)).values == [b"first"]
            cut_off(brokers)
            brokers[1].append(*ROUTE, as_batch(encode([b"second", b"third"], timestamps=1)))
            assert (await anext(consumer)).values == [b"second", b"third"]
            assert await consumer.poll(50) is None
            brokers[1].cut_all()  # now the old leader is asked for the number 4, and ends at 1
            brokers[1].append(*ROUTE, as_batch(encode([b"fourth"], timestamps=1)))
            assert (await anext(consumer)).values == [b"fourth"]
            await consumer.close()

    run(scenario())


def test_a_fresh_client_that_asks_a_leader_that_is_cut_off_is_not_told_that_messages_are_lost() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers:
            cut_off(brokers)
            brokers[1].append(*ROUTE, as_batch(encode([b"second", b"third"], timestamps=1)))
            async with Client(brokers[0].address, QUICK) as client:
                assert (await client.fetch(*ROUTE, 3)).high_water_mark == 3

    run(scenario())


def test_a_number_above_every_end_is_out_of_bounds() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            for _ in range(2):
                with pytest.raises(OutOfBounds):
                    await client.fetch(*ROUTE, 9)
            assert await first_of_a_consumer(client, start=9) == [b"first"]

    run(scenario())


def cannot_see_it(brokers: list[ScriptedBroker]) -> None:
    """Broker 1 has not heard of the topic."""
    brokers[0].topics = {}


@pytest.mark.parametrize("use", [produced, first_of_a_consumer], ids=["producer", "consumer"])
def test_a_topic_that_one_broker_has_not_heard_of_yet_is_found(
    use: Callable[[Client], Awaitable[object]],
) -> None:
    """Another program created it a moment ago, through the other broker."""

    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers:
            cannot_see_it(brokers)
            async with Client(brokers[0].address, QUICK) as client:
                await use(client)

    run(scenario())


def test_a_topic_that_no_broker_knows_is_unknown() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=2) as brokers, Client(brokers[0].address, QUICK) as client:
            for broker in brokers:
                broker.topics = {}
            for _ in range(2):
                with pytest.raises(UnknownTopic):
                    await produced(client)

    run(scenario())


def test_a_topic_that_the_only_broker_does_not_know_is_unknown_at_once() -> None:
    async def scenario() -> None:
        patient = replace(QUICK, new_topic_lag_ms=60_000)
        async with ScriptedBroker() as broker, Client(broker.address, patient) as client:
            with pytest.raises(UnknownTopic):
                await produced(client)

    run(scenario())


# Partitions of several leaders


def test_ends_and_times_are_asked_for_leader_by_leader() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[1].address, QUICK) as client:
            brokers[0].topics["t"].append(Log())
            for broker in brokers:
                broker.metadata.leaders["t", 1] = (2, 1)
            brokers[0].redirects["t", 1] = 0
            other = ("t", 1)
            assert await client.admin.await_ends({ROUTE: 0, other: 0}, 60_000) == {
                ROUTE: Ends(1, 1),
                other: Ends(0, 0),
            }
            waiting = asyncio.ensure_future(client.admin.await_ends({other: 0, ROUTE: 1}, 60_000))
            await asyncio.sleep(0.01)
            brokers[0].append(*other, as_batch(encode([b"x"], timestamps=1)))
            brokers[1].wake()
            assert list((await waiting).items()) == [(other, Ends(1, 1)), (ROUTE, Ends(1, 1))]
            questions = [r for r in brokers[0].requests if isinstance(r, tank.AwaitEndsRequest)]
            assert questions[-1].max_wait_ms == 0  # the other one had news: how does it stand here?
            found = await client.admin.find_by_time("t", {1: 6, 0: 5})
            assert list(found.items()) == [(1, FoundTime(1, 6)), (0, FoundTime(1, 5))]
            for broker, led in zip(brokers, (0, 1), strict=True):
                asked = [
                    r
                    for r in broker.requests
                    if isinstance(r, tank.AwaitEndsRequest | tank.FindByTimeRequest)
                ]
                assert asked
                assert all([entry.partition for entry in request.partitions] == [led] for request in asked)

    run(scenario(), 20)
