"""The producer against a scripted broker: batching, retries without loss or repeats, memory, failures."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tank_client import Client, ClientSettings, ProducerSettings, Stored, errors
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import tank
from tests.support.clients.inside import held_by
from tests.support.clients.scripted_broker import Fate, Kind, Moment, ScriptedBroker
from tests.support.waiting import run

QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5, connect_timeout_ms=5000)


def is_produce(moment: Moment) -> bool:
    return isinstance(moment.request, tank.IdempotentProduceRequest | tank.ProduceRequest)


def values(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def client(broker: ScriptedBroker, settings: ClientSettings = QUICK) -> Client:
    return Client(broker.address, settings, random=lambda: 0.5)


def test_messages_arrive_in_order_with_their_numbers() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as broker, client(broker) as c, c.producer() as producer:
            deliveries = [await producer.send("t", value, partition=1) for value in values(100)]
            assert len(set(deliveries)) == 1, "one future for the bundle"
            assert await deliveries[0] == Stored(1, 100)
            many = await producer.send_many("t", values(5), partition=1, keys=[b"k"] * 5)
            assert await many[0] == Stored(101, 105)
            assert broker.topics["t"][1].values() == values(100) + values(5)

    run(scenario())


def test_full_bundles_leave_at_once_and_the_rest_lingers_until_the_flush() -> None:
    async def scenario() -> None:
        settings = ProducerSettings(batch_bytes=10, linger_ms=3_600_000)
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            producer = c.producer(settings)
            full = [await producer.send("t", b"12345") for _ in range(2)]
            lingering = await producer.send("t", b"x")
            assert await full[0] == Stored(1, 2)
            assert not lingering.done()
            await producer.flush()
            assert lingering.result() == Stored(3, 3)
            await producer.close()

    run(scenario())


def cut_at(index: int, *, carried_out: bool) -> Callable[[Moment], Fate | int]:
    """Cuts the connection at the `index`-th produce, before or after it is carried out; and once more three
    later."""
    seen: list[int] = []

    def script(moment: Moment) -> Fate | int:
        if not is_produce(moment):
            return Fate.SERVE
        if moment.index not in seen:
            seen.append(moment.index)
        at = seen.index(moment.index)
        return Fate.CUT if at in (index, index + 3) and moment.carried_out == carried_out else Fate.SERVE

    return script


@pytest.mark.parametrize("carried_out", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("index", range(14))
def test_wherever_the_network_is_cut_nothing_is_lost_repeated_or_reordered(
    index: int, carried_out: bool
) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            broker.script = cut_at(index, carried_out=carried_out)
            async with c.producer(ProducerSettings(batch_bytes=8, linger_ms=0)) as producer:
                deliveries = [await producer.send("t", value) for value in values(60)]
                await producer.flush()
                stored = [await delivery for delivery in dict.fromkeys(deliveries)]
            assert broker.topics["t"][0].values() == values(60)
            assert [entry.first for entry in stored] == sorted(entry.first for entry in stored)
            assert broker.connections > 1

    run(scenario())


@pytest.mark.parametrize("index", range(4))
def test_a_connection_cut_before_the_first_bundle_is_made_again(index: int) -> None:
    """Status, Features, DescribeTopics and InitProducer are lost in turn."""

    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            broker.script = lambda moment: Fate.CUT if moment.index == index else Fate.SERVE
            async with c.producer() as producer:
                await producer.send_many("t", values(10))
            assert broker.topics["t"][0].values() == values(10)

    run(scenario())


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NO_LEADER,
        ErrorCode.NOT_ACKNOWLEDGED_IN_TIME,
        ErrorCode.STORAGE,
        ErrorCode.OVERLOADED,
    ],
)
def test_a_failure_that_passes_is_waited_out_and_the_order_kept(error: ErrorCode) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            failures = iter([0, 0, 1, 0, 1, 1, 0, 1])
            broker.script = lambda moment: (
                error if is_produce(moment) and not moment.carried_out and next(failures, 0) else Fate.SERVE
            )
            async with c.producer(ProducerSettings(batch_bytes=8, linger_ms=0)) as producer:
                for value in values(50):
                    await producer.send("t", value)
            assert broker.topics["t"][0].values() == values(50)

    run(scenario())


@pytest.mark.parametrize("error", [ErrorCode.STORAGE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_disk_that_is_full_from_the_first_bundle_on_is_waited_out(error: ErrorCode) -> None:
    """The broker never heard of this producer then, and says so to the bundles behind the first."""

    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            full = iter([True] * 4)

            def script(moment: Moment) -> Fate | int:
                first = is_produce(moment) and moment.request.topics[0].partitions[0].sequence == 0
                return error if first and not moment.carried_out and next(full, False) else Fate.SERVE

            broker.script = script
            async with c.producer(ProducerSettings(batch_bytes=1, linger_ms=0)) as producer:
                for value in values(12):
                    await producer.send("t", value)
            assert broker.topics["t"][0].values() == values(12)
            assert len(broker.topics["t"][0].producers) == 1, "nothing was forgotten"

    run(scenario())


def test_a_refused_bundle_fails_alone_and_the_others_go_on_in_order() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:

            def script(moment: Moment) -> Fate | int:
                if is_produce(moment) and not moment.carried_out:
                    bundle = bytes(moment.request.topics[0].partitions[0].bundle)
                    return ErrorCode.TOO_LARGE if b"\x03bad" in bundle else Fate.SERVE
                return Fate.SERVE

            broker.script = script
            producer = c.producer(ProducerSettings(batch_bytes=1, linger_ms=0))
            deliveries = [
                await producer.send("t", value) for value in (b"a", b"bad", b"b", b"c", b"d", b"e", b"f")
            ]
            with pytest.raises(errors.MessageTooLarge):
                await producer.flush()
            with pytest.raises(errors.MessageTooLarge):
                await deliveries[1]
            assert broker.topics["t"][0].values() == [b"a", b"b", b"c", b"d", b"e", b"f"]
            await producer.flush()  # the failure was told once
            await producer.close()

    run(scenario())


def test_a_forgotten_producer_gets_a_new_id_and_loses_nothing_that_was_not_sent() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            forget = iter([0, 0, 1])
            broker.script = lambda moment: (
                ErrorCode.UNKNOWN_PRODUCER
                if is_produce(moment) and not moment.carried_out and next(forget, 0)
                else Fate.SERVE
            )
            producer = c.producer(ProducerSettings(batch_bytes=1, linger_ms=0))
            for value in values(4):
                await (await producer.send("t", value))
            await producer.close()
            assert broker.topics["t"][0].values() == values(4)
            assert len(broker.topics["t"][0].producers) == 2

    run(scenario())


def test_a_gap_that_is_the_brokers_fault_is_told() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            producer = c.producer(ProducerSettings(linger_ms=0))
            await (await producer.send("t", b"a"))
            for stored in broker.topics["t"][0].producers.values():
                stored.clear()  # it knows the producer, has lost what it stored, and expects sequence 0
            with pytest.raises(errors.OutOfOrderSequence):
                await (await producer.send("t", b"b"))
            assert await (await producer.send("t", b"c")) == Stored(2, 2)
            await producer.close()  # the failure was awaited, and is not raised again

    run(scenario())


def test_a_redirect_is_followed_and_remembered() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as leader, ScriptedBroker(topics={"t": 2}) as broker:
            broker.redirects["t", 1] = leader.port
            async with (
                client(broker) as c,
                c.producer(ProducerSettings(batch_bytes=4, linger_ms=0)) as producer,
            ):
                for value in values(30):
                    await producer.send("t", value, partition=1)
                await producer.flush()
                asked = sum(isinstance(request, tank.IdempotentProduceRequest) for request in broker.requests)
                assert asked <= 5, "only those in flight when it was learned"
                assert leader.topics["t"][1].values() == values(30)
                # The leader goes; the other broker leads now.
                broker.redirects.clear()
                broker.topics["t"][1] = leader.topics["t"][1]
                await leader.stop()
                await (await producer.send("t", b"after", partition=1))
                assert broker.topics["t"][1].values() == [*values(30), b"after"]
            await leader.start()

    run(scenario())


def test_redirects_in_a_circle_end_with_the_delivery_timeout() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as one, ScriptedBroker(topics={"t": 1}) as two:
            one.redirects["t", 0], two.redirects["t", 0] = two.port, one.port
            settings = ProducerSettings(linger_ms=0, delivery_timeout_ms=50)
            async with client(one) as c:
                producer = c.producer(settings)
                with pytest.raises(errors.DeliveryTimedOut, match="it is not stored"):
                    await (await producer.send("t", b"x"))
                producer.abort()

    run(scenario())


def test_without_a_broker_the_delivery_times_out_and_says_why() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            async with client(broker) as c:
                producer = c.producer(ProducerSettings(linger_ms=0, delivery_timeout_ms=50))
                await (await producer.send("t", b"x"))
                await broker.stop()
                with pytest.raises(errors.DeliveryTimedOut, match=r"may be stored|not stored"):
                    await (await producer.send("t", b"y"))
                producer.abort()
            await broker.start()

    run(scenario())


def test_memory_is_bounded_and_the_sender_waits() -> None:
    async def scenario() -> None:
        settings = ProducerSettings(batch_bytes=1000, buffer_bytes=20_000, linger_ms=0, max_block_ms=50)
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            broker.script = lambda moment: Fate.HOLD if is_produce(moment) else Fate.SERVE
            producer = c.producer(settings)
            sent = 0
            with pytest.raises(errors.BufferFull, match="buffer_bytes"):
                while True:
                    await producer.send("t", b"x" * 100)
                    sent += 1
            assert held_by(producer).held_bytes <= 20_000
            assert sent == 100
            with pytest.raises(errors.BufferFull):
                await producer.send_many("t", [b"y" * 10] * 1000)
            assert held_by(producer).held_bytes <= 20_000 + 1000 * 110
            producer.abort()

    run(scenario())


def test_waiting_senders_go_on_when_there_is_room() -> None:
    async def scenario() -> None:
        settings = ProducerSettings(batch_bytes=100, buffer_bytes=1000, linger_ms=3_600_000)
        async with (
            ScriptedBroker(topics={"t": 1}) as broker,
            client(broker) as c,
            c.producer(settings) as producer,
        ):
            await asyncio.gather(*(producer.send("t", value) for value in values(200)))
            await producer.flush()
            assert sorted(broker.topics["t"][0].values()) == sorted(values(200))

    run(scenario())


def test_without_idempotence_an_unknown_outcome_is_told_and_not_repeated() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(Kind.CPP, {"t": 1}) as broker, client(broker) as c:
            broker.script = cut_at(1, carried_out=True)
            producer = c.producer(ProducerSettings(batch_bytes=1, linger_ms=0))
            deliveries = [await producer.send("t", value) for value in values(3)]
            assert await deliveries[0] == Stored(0, 0)
            with pytest.raises(errors.OutcomeUnknown):
                await deliveries[1]
            await deliveries[2]
            assert broker.topics["t"][0].values() == values(3)
            producer.abort()

    run(scenario())


def test_at_least_once_repeats_and_keeps_the_order() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(Kind.CPP, {"t": 1}) as broker, client(broker) as c:
            broker.script = cut_at(1, carried_out=True)
            settings = ProducerSettings(batch_bytes=1, linger_ms=0, at_least_once=True)
            async with c.producer(settings) as producer:
                for value in values(3):
                    await producer.send("t", value)
            assert broker.topics["t"][0].values() == [b"0", b"1", b"1", b"2"]

    run(scenario())


def test_a_closed_client_takes_its_producers_along() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            broker.script = lambda moment: Fate.HOLD if is_produce(moment) else Fate.SERVE
            c = client(broker)
            producer = c.producer()
            delivery = await producer.send("t", b"x")
            await c.abort()
            with pytest.raises(errors.Closed):
                await delivery
            with pytest.raises(errors.Closed):
                await producer.send("t", b"y")

    run(scenario())


def test_who_stops_waiting_for_a_bundle_takes_it_from_nobody() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            producer = c.producer(ProducerSettings(linger_ms=3_600_000))
            delivery = await producer.send("t", b"x")

            async def wait(delivery: Any) -> Any:
                return await delivery

            waiting = asyncio.ensure_future(wait(delivery))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await producer.close()
            assert await delivery == Stored(1, 1)

    run(scenario())


def test_wrong_topics_and_keys_raise_at_once() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c, c.producer() as producer:
            with pytest.raises(errors.UnknownTopic, match="tank topic create nope"):
                await producer.send("nope", b"x")
            with pytest.raises(errors.UnknownPartition):
                await producer.send("t", b"x", partition=1)
            with pytest.raises(errors.InvalidArgument):
                await producer.send("t", b"x", key=b"k" * 256)
            with pytest.raises(errors.InvalidArgument):
                await producer.send_many("t", [b"x"], keys=[])

    run(scenario())
