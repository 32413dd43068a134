"""The client against a real broker process, which is stopped and killed under it."""

import asyncio
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tank_client import (
    AtTime,
    Client,
    ClientSettings,
    ConsumerSettings,
    Ends,
    ProducerSettings,
    Stored,
    errors,
    sync,
)
from tank_protos.bundle import encode
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import run

pytestmark = pytest.mark.integration

QUICK = ClientSettings(backoff_min_ms=5, backoff_max_ms=100)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data")
    process.start()
    yield process
    process.kill()


def values(start: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def contents(found: list[bytes | None]) -> list[bytes]:
    """The values of a topic of bundles, none of which is null."""
    assert None not in found
    return [value for value in found if value is not None]


async def read_all(client: Client, topic: str) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    async with client.consumer(topic, stop_at_end=True) as consumer:
        async for batch in consumer:
            found.setdefault(batch.partition, []).extend(contents(batch.values))
    return found


def test_topics_live_and_change(broker: BrokerProcess) -> None:
    async def scenario() -> None:
        async with Client(broker.address, QUICK) as client:
            admin = client.admin
            topic_id = await admin.create_topic("life", 2, settings={"log.retention.secs": "1h"})
            assert topic_id > 0
            (topic,) = await admin.describe_topics(["life"])
            assert (topic.topic_id, len(topic.partitions)) == (topic_id, 2)
            assert {s.key: s.is_default for s in topic.settings}["log.retention.secs"] is False
            with pytest.raises(errors.TopicExists):
                await admin.create_topic("life")
            with pytest.raises(errors.RequestRefused, match=r"no\.such"):
                await admin.create_topic("other", settings={"no.such": "1"})
            await admin.alter_topic("life", partitions=3, settings={"log.retention.secs": None})
            (topic,) = await admin.describe_topics(["life"])
            assert len(topic.partitions) == 3
            assert {s.key: s.is_default for s in topic.settings}["log.retention.secs"] is True
            with pytest.raises(errors.RequestRefused):
                await admin.alter_topic("life", partitions=1)
            await admin.create_topic("checked", validate_only=True)
            assert [t.name for t in await admin.describe_topics()] == ["life"]
            await admin.alter_topic("life", settings={"log.retention.secs": 7200})
            (topic,) = await admin.describe_topics(["life"])
            told = {s.key: s.value for s in topic.settings}
            assert told["log.retention.secs"] in ("7200", "2h")
            assert await admin.partition_counts(["life"]) == {"life": 3}
            await admin.delete_topic("life")
            with pytest.raises(errors.UnknownTopic, match="tank topic create life"):
                await client.fetch("life", 0, 0)

    run(scenario())


def test_what_is_produced_is_consumed_by_number_time_and_position(broker: BrokerProcess) -> None:
    async def scenario() -> None:
        async with Client(broker.address, QUICK) as client:
            await client.admin.create_topic("t", 2)
            async with client.producer(ProducerSettings(linger_ms=0)) as producer:
                for stamp in (1000, 2000, 3000):
                    deliveries = await producer.send_many(
                        "t", values(stamp, 10), partition=1, timestamps_ms=stamp
                    )
                    stored = await deliveries[-1]
                assert stored == Stored(21, 30)
                assert len(await producer.send_many("t", values(0, 5), keys=[b"k"] * 5)) == 1
            ends = await client.admin.ends("t")
            assert ends[1].high_water_mark + ends[0].high_water_mark == 35
            found = await client.admin.find_by_time("t", {1: 2000})
            assert found[1].number == 11
            third = datetime.fromtimestamp(3, UTC)
            for start, first in ((17, b"2006"), (AtTime(3000), b"3000"), (AtTime(third), b"3000")):
                async with client.consumer({"t": [1]}, start=start) as consumer:
                    batch = await consumer.poll(30_000)
                    assert batch is not None
                    assert batch.values[0] == first
                    assert re.fullmatch(r"<MessageBatch t/1 \d+-\d+, \d+ bytes>", repr(batch))
            async with client.consumer({"t": [1]}, group="g") as consumer:
                async for message in consumer.messages():
                    if message.sequence_number == 12:
                        break
                await consumer.commit()
            assert await client.admin.list_groups() == ["g"]
            async with client.consumer({"t": [1]}, start="committed", group="g") as consumer:
                batch = await consumer.poll(30_000)
                assert batch is not None
                assert batch.first == 13
            waiting = asyncio.ensure_future(
                client.admin.await_ends({("t", 0): ends[0].high_water_mark}, 60_000)
            )
            await client.produce_bundle("t", 0, encode([b"x"], timestamps=5))
            reached = (await waiting)["t", 0]
            assert reached == Ends(1, ends[0].high_water_mark + 1)

    run(scenario())


def test_a_raw_bundle_with_a_name_is_stored_once(broker: BrokerProcess) -> None:
    async def scenario() -> None:
        async with Client(broker.address, QUICK) as client:
            await client.admin.create_topic("t")
            identity = await client.admin.init_producer("spark/1/0", 1)
            assert await client.admin.init_producer("spark/1/0", 1) == identity
            for _ in range(3):
                stored = await client.produce_bundle(
                    "t",
                    0,
                    encode([b"a", b"b"], timestamps=1),
                    producer_id=identity.producer_id,
                    producer_epoch=3,
                )
                assert stored == Stored(1, 2)
            assert (await read_all(client, "t"))[0] == [b"a", b"b"]
            newer = await client.admin.init_producer("spark/1/0", 2)
            assert newer.producer_id != identity.producer_id
            with pytest.raises(errors.StaleProducer):
                await client.produce_bundle(
                    "t",
                    0,
                    encode([b"c"], timestamps=1),
                    producer_id=identity.producer_id,
                    producer_epoch=3,
                    sequence=2,
                )

    run(scenario())


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_restarted_under_both_loses_and_repeats_nothing(broker: BrokerProcess, how: str) -> None:
    async def scenario() -> None:
        partitions, rounds, each = 3, 6, 2000
        total = rounds * each

        async def restart() -> None:
            loop = asyncio.get_running_loop()
            if how == "kill":
                await loop.run_in_executor(None, broker.kill)
            else:
                await loop.run_in_executor(None, broker.stop)
            await loop.run_in_executor(None, broker.start)

        async with Client(broker.address, QUICK) as client:
            await client.admin.create_topic("t", partitions)
            seen: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}

            async def consume() -> None:
                async with client.consumer("t", settings=ConsumerSettings(max_wait_ms=500)) as consumer:
                    await consumer.start()
                    async for batch in consumer:
                        assert batch.first == len(seen[batch.partition]) + 1
                        seen[batch.partition] += contents(batch.values)
                        if sum(map(len, seen.values())) >= total:
                            return

            reading = asyncio.ensure_future(consume())
            async with client.producer(ProducerSettings(batch_bytes=2000, linger_ms=1)) as producer:
                for turn in range(rounds):
                    for number in range(each):
                        await producer.send(
                            "t", b"%d" % (turn * each + number), partition=number % partitions
                        )
                    if turn % 2:
                        await restart()
            await reading
            wanted = {
                partition: [
                    b"%d" % (turn * each + number)
                    for turn in range(rounds)
                    for number in range(partition, each, partitions)
                ]
                for partition in range(partitions)
            }
            assert seen == wanted
            assert await read_all(client, "t") == wanted

    run(scenario(), guard_s=110)


def test_the_synchronous_face_survives_a_restart(broker: BrokerProcess) -> None:
    with sync.Client(broker.address, QUICK) as client:
        client.admin.create_topic("t")
        with client.producer() as producer:
            producer.send_many("t", values(0, 1000))
            broker.restart()
            producer.send_many("t", values(1000, 1000))
        with client.consumer("t", stop_at_end=True) as consumer:
            assert [value for batch in consumer for value in batch.values] == values(0, 2000)


def test_without_a_broker_the_caller_is_told_what_to_do(broker: BrokerProcess) -> None:
    broker.kill()
    settings = ClientSettings(request_timeout_ms=200)
    with sync.Client(broker.address, settings) as client:
        started = time.monotonic()
        with pytest.raises(errors.ServerUnreachable, match=r"tank serve.*--servers"):
            client.admin.status()
        assert time.monotonic() >= started
