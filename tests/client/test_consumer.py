"""The consumer against a scripted broker: starts, ends, bounds, positions, failures."""

import asyncio
from typing import Any

import pytest

from tank_client import (
    END,
    AtTime,
    Client,
    ClientSettings,
    ConsumedMessage,
    ConsumerSettings,
    OutOfBoundsPolicy,
    StartAt,
    errors,
)
from tank_protos.bundle import Codec, as_batch, encode
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated import tank
from tests.support.clients.scripted_broker import Fate, Kind, Moment, ScriptedBroker
from tests.support.storage.scripted_log import Log
from tests.support.waiting import run

QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)


def client(broker: ScriptedBroker) -> Client:
    return Client(broker.address, QUICK, random=lambda: 0.5)


def batch(first: int, count: int) -> bytes:
    return as_batch(encode([b"%d" % n for n in range(first, first + count)], timestamps=7))


def fill(broker: ScriptedBroker, topic: str, partition: int, messages: int, *, per_bundle: int = 10) -> None:
    for first in range(1, messages + 1, per_bundle):
        broker.append(topic, partition, batch(first, min(per_bundle, messages + 1 - first)))


async def numbers(consumer: Any) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    async for one in consumer:
        found.setdefault(one.partition, []).extend(one.numbers)
    return found


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_broker_is_read_to_its_end(kind: Kind) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(kind, {"t": 3}) as broker, client(broker) as c:
            fill(broker, "t", 0, 95)
            fill(broker, "t", 2, 7)
            settings = ConsumerSettings(fetch_bytes=100)
            topics = {"t": [0, 1, 2]} if kind is Kind.OLD else "t"
            consumer = c.consumer(topics, stop_at_end=True, settings=settings)
            assert await numbers(consumer) == {0: list(range(1, 96)), 2: list(range(1, 8))}
            assert consumer.at_end
            assert consumer.position("t", 0) == 96
            await consumer.close()

    run(scenario())


def test_an_old_broker_that_cuts_within_bundles_is_read_whole() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(Kind.OLD, {"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 300, per_bundle=100)
            for size in (1, 7, 333, 1000):
                consumer = c.consumer(
                    {"t": [0]}, stop_at_end=True, settings=ConsumerSettings(fetch_bytes=size)
                )
                assert await numbers(consumer) == {0: list(range(1, 301))}
                await consumer.close()

    run(scenario())


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("first", 1),
        (StartAt.FIRST, 1),
        ("end", 41),
        (END, 41),
        (17, 17),
        ({("t", 0): 33}, 33),
        ({("t", 0): "end"}, 41),
        ("committed", 25),
    ],
)
def test_it_begins_where_it_is_told(start: Any, first: int) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 40)
            broker.positions["g"] = {("t", 0): (25, "")}
            async with c.consumer("t", start=start, group="g") as consumer:
                broker.append("t", 0, batch(41, 1))
                found = await consumer.poll(30_000)
                assert found is not None
                assert found.first == first

    run(scenario())


@pytest.mark.parametrize("policy", list(OutOfBoundsPolicy))
def test_a_group_without_a_position_begins_where_the_policy_says(policy: OutOfBoundsPolicy) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 40)
            consumer = c.consumer(
                "t", start="committed", group="new", settings=ConsumerSettings(out_of_bounds=policy)
            )
            if policy is OutOfBoundsPolicy.ERROR:
                with pytest.raises(errors.NoPosition, match="'new'"):
                    await consumer.start()
                return
            await consumer.start()
            assert consumer.position("t", 0) == (0 if policy is OutOfBoundsPolicy.EARLIEST else 41)
            await consumer.close()

    run(scenario())


def test_wrong_starts_are_said() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            starts: list[tuple[Any, str]] = [("frist", "frist"), ({}, "t/0"), ("committed", "group")]
            for start, message in starts:
                with pytest.raises(errors.InvalidArgument, match=message):
                    await c.consumer("t", start=start).start()
            with pytest.raises(errors.UnknownTopic):
                await c.consumer("nope").start()
        async with ScriptedBroker(Kind.CPP, {"t": 1}) as broker, client(broker) as c:
            with pytest.raises(errors.FeatureMissing, match="by time"):
                await c.consumer("t", start=AtTime(5)).start()

    run(scenario())


def test_uncommitted_messages_are_not_seen_until_they_are() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 20)
            broker.topics["t"][0].high_water_mark = 13
            async with c.consumer("t", settings=ConsumerSettings(max_wait_ms=10)) as consumer:
                seen: list[int] = []
                while len(seen) < 13:
                    found = await consumer.poll(30_000)
                    assert found is not None
                    seen += found.numbers
                assert await consumer.poll(50) is None
                broker.topics["t"][0].high_water_mark = None
                found = await consumer.poll(30_000)
                assert found is not None
                assert seen + list(found.numbers) == list(range(1, 21))

    run(scenario())


def test_a_message_says_where_it_comes_from() -> None:
    async def scenario() -> None:
        topics = {"t": 2, "u": 1}
        async with ScriptedBroker(topics=topics) as broker, client(broker) as c, c.producer() as producer:
            for topic, partition, key in (("t", 0, None), ("t", 1, b"k"), ("u", 0, None)):
                value = f"{topic}/{partition}".encode()
                await producer.send(topic, value, key=key, partition=partition, timestamp_ms=7)
            await producer.flush()
            async with c.consumer(["t", "u"], stop_at_end=True) as consumer:
                found = sorted([message async for message in consumer.messages()], key=lambda m: m[4:6])
            assert found == [
                ConsumedMessage(1, 7, None, b"t/0", "t", 0),
                ConsumedMessage(1, 7, b"k", b"t/1", "t", 1),
                ConsumedMessage(1, 7, None, b"u/0", "u", 0),
            ]
            assert [f"{m.topic}/{m.partition}".encode() for m in found] == [m.value for m in found]
            async with c.consumer("u", stop_at_end=True) as consumer:
                async for batch in consumer:
                    assert list(batch.messages()) == found[2:]

    run(scenario())


def test_messages_can_be_left_and_taken_up_without_a_gap() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 30)
            async with c.consumer("t", group="g", stop_at_end=True) as consumer:
                seen = []
                for _ in range(3):
                    async for message in consumer.messages():
                        seen.append(message.sequence_number)
                        if message.sequence_number % 4 == 0:
                            break
                assert seen == list(range(1, 13))
                await consumer.commit()
                assert broker.positions["g"]["t", 0][0] == 13
                assert (await numbers(consumer))[0] == list(range(13, 31))

    run(scenario())


def test_commit_keeps_what_was_handed_out_and_no_more() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as broker, client(broker) as c:
            fill(broker, "t", 0, 30)
            settings = ConsumerSettings(fetch_bytes=1)
            async with c.consumer("t", group="g", settings=settings) as consumer:
                await consumer.commit()
                assert broker.positions.get("g", {}) == {}
                first = await consumer.poll(30_000)
                assert first is not None
                await consumer.commit()
                assert broker.positions["g"] == {("t", 0): (first.next_number, "")}
                commits = len(broker.requests)
                await consumer.commit()
                assert not any(
                    isinstance(request, tank.CommitPositionsRequest) for request in broker.requests[commits:]
                ), "nothing moved"
            async with c.consumer("t") as consumer:
                with pytest.raises(errors.InvalidArgument, match="group"):
                    await consumer.commit()

    run(scenario())


def test_a_seek_drops_what_was_fetched() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 100)
            async with c.consumer("t", settings=ConsumerSettings(fetch_bytes=1)) as consumer:
                await consumer.poll(30_000)
                for number, first in ((73, 73), (5, 5), (0, 1)):
                    await consumer.seek("t", 0, number)
                    found = await consumer.poll(30_000)
                    assert found is not None
                    assert found.first == first
                await consumer.seek("t", 0, END)
                assert consumer.position("t", 0) == 101
                with pytest.raises(errors.UnknownPartition):
                    await consumer.seek("t", 7, 1)

    run(scenario())


def test_prefetch_is_bounded() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 4}) as broker, client(broker) as c:
            value = b"x" * 1000
            for partition in range(4):
                for _ in range(200):
                    broker.append("t", partition, as_batch(encode([value], timestamps=1, codec=Codec.NONE)))
            settings = ConsumerSettings(fetch_bytes=10_000, prefetch_bytes=50_000, max_requests=2)
            async with c.consumer("t", stop_at_end=True, settings=settings) as consumer:
                count, taken_bytes, most = 0, 0, 0
                async for found in consumer:
                    await asyncio.sleep(0.002)  # time to fetch all, if nothing held it back
                    taken_bytes += found.size_bytes
                    most = max(most, broker.fetched_bytes - taken_bytes)
                    count += len(found)
                assert count == 800
                assert 10_000 < most <= 50_000 + 2 * 10_000

    run(scenario())


def test_partitions_that_stay_behind_take_turns() -> None:
    """Memory for two fetches and six partitions that never reach their end: each has its turn."""

    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 6}) as broker, client(broker) as c:
            for partition in range(6):
                fill(broker, "t", partition, 300)
            settings = ConsumerSettings(fetch_bytes=50, prefetch_bytes=100)
            async with c.consumer("t", settings=settings) as consumer:
                turns = [batch.partition for batch in [await anext(consumer) for _ in range(24)]]
            assert {turns.count(partition) for partition in range(6)} <= {3, 4, 5}, turns

    run(scenario())


@pytest.mark.parametrize("policy", list(OutOfBoundsPolicy))
def test_an_expired_number_goes_where_the_policy_says(policy: OutOfBoundsPolicy) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 100)
            broker.topics["t"][0].first_available = 51
            del broker.topics["t"][0].batches[:5]
            settings = ConsumerSettings(out_of_bounds=policy, max_wait_ms=20)
            async with c.consumer("t", start=5, settings=settings) as consumer:
                if policy is OutOfBoundsPolicy.ERROR:
                    with pytest.raises(errors.OutOfBounds, match="51 to 100, not 5"):
                        await consumer.poll(30_000)
                    return
                if policy is OutOfBoundsPolicy.LATEST:
                    assert await consumer.poll(100) is None
                    broker.append("t", 0, batch(101, 1))
                found = await consumer.poll(30_000)
                assert found is not None
                assert found.first == (51 if policy is OutOfBoundsPolicy.EARLIEST else 101)

    run(scenario())


def test_however_often_the_network_is_cut_everything_comes_once_and_in_order() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 3}) as broker, client(broker) as c:
            for partition in range(3):
                fill(broker, "t", partition, 200)

            consumes = 0

            def script(moment: Moment) -> Fate | int:
                nonlocal consumes
                if not isinstance(moment.request, tank.ConsumeRequest):
                    return Fate.SERVE
                consumes += moment.carried_out
                return Fate.CUT if moment.carried_out and consumes % 3 == 1 else Fate.SERVE

            broker.script = script
            settings = ConsumerSettings(fetch_bytes=60, prefetch_bytes=180)
            async with c.consumer("t", stop_at_end=True, settings=settings) as consumer:
                assert await numbers(consumer) == {p: list(range(1, 201)) for p in range(3)}
            assert broker.connections > 3

    run(scenario())


@pytest.mark.parametrize("flag", [ConsumeFlag.NO_LEADER, ConsumeFlag.NOT_OPENED])
def test_a_failure_that_passes_is_waited_out(flag: ConsumeFlag) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 20)
            failures = iter([True] * 5)
            broker.script = lambda moment: (
                flag
                if isinstance(moment.request, tank.ConsumeRequest)
                and not moment.carried_out
                and next(failures, False)
                else Fate.SERVE
            )
            async with c.consumer("t", stop_at_end=True) as consumer:
                assert await numbers(consumer) == {0: list(range(1, 21))}

    run(scenario())


def test_a_redirect_is_followed() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as leader, ScriptedBroker(topics={"t": 2}) as broker:
            fill(leader, "t", 1, 50)
            fill(broker, "t", 0, 30)
            broker.redirects["t", 1] = leader.port
            async with (
                client(broker) as c,
                c.consumer({"t": [0, 1]}, settings=ConsumerSettings(max_wait_ms=20)) as consumer,
            ):
                seen: dict[int, list[int]] = {0: [], 1: []}
                while len(seen[0]) < 30 or len(seen[1]) < 50:
                    found = await consumer.poll(30_000)
                    assert found is not None
                    seen[found.partition] += found.numbers
                assert seen == {0: list(range(1, 31)), 1: list(range(1, 51))}

    run(scenario())


def test_a_partition_that_stays_away_is_told_and_reading_goes_on() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            fill(broker, "t", 0, 20)
            away = True
            broker.script = lambda moment: (
                ConsumeFlag.NO_LEADER
                if isinstance(moment.request, tank.ConsumeRequest) and not moment.carried_out and away
                else Fate.SERVE
            )
            async with c.consumer("t", settings=ConsumerSettings(give_up_after_ms=20)) as consumer:
                with pytest.raises(errors.NoLeader):
                    await consumer.poll(30_000)
                away = False
                found = await consumer.poll(30_000)
                assert found is not None

    run(scenario())


def test_more_partitions_than_a_request_counts_are_split() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 600}) as broker, client(broker) as c:
            for partition in (0, 255, 256, 599):
                fill(broker, "t", partition, 3)
            async with c.consumer("t", stop_at_end=True) as consumer:
                found = await numbers(consumer)
            assert found == {partition: [1, 2, 3] for partition in (0, 255, 256, 599)}

    run(scenario())


def test_a_closed_consumer_says_so() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            consumer = c.consumer("t")
            await consumer.start()
            await consumer.close()
            with pytest.raises(errors.Closed):
                await consumer.poll(1000)

    run(scenario())


def test_partitions_that_are_added_are_read() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            settings = ClientSettings(metadata_max_age_ms=20)
            async with Client(broker.address, settings) as c, c.consumer("t", start="end") as consumer:
                broker.topics["t"].append(Log())
                fill(broker, "t", 1, 5)
                found = await consumer.poll(30_000)
                assert found is not None
                assert (found.partition, list(found.numbers)) == (1, [1, 2, 3, 4, 5])

    run(scenario())
