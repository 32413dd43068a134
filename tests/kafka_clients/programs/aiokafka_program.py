"""aiokafka."""

import asyncio
import json
import sys
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError

from tests.kafka_clients.programs.records import printed, record


async def produce(servers: str, topic: str, codec: str, count: int, name: str, kind: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=True,
        linger_ms=20,
    )
    await producer.start()
    try:
        futures = []
        for number in range(count):
            sent = record(name, number, kind)
            futures.append(
                await producer.send(topic, sent.value, sent.key, partition=0, headers=sent.headers)
            )
        async with asyncio.timeout(25):
            told = await asyncio.gather(*futures)
        print(json.dumps([each.offset for each in told]))
    finally:
        await producer.stop()


async def consume(servers: str, topic: str, count: int) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        for _ in range(count):
            async with asyncio.timeout(20):
                found = await consumer.getone()
            print(json.dumps(printed(found.offset, found.key, found.value, list(found.headers))))
    finally:
        await consumer.stop()


async def share(servers: str, topic: str, group: str, instance: str) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        group_instance_id=instance or None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=30_000 if instance else 10_000,
        heartbeat_interval_ms=500,
    )
    await consumer.start()
    stopped = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    assigned: list[int] = []
    while not stopped.done():
        records = await consumer.getmany(timeout_ms=100)
        now = sorted(each.partition for each in consumer.assignment())
        if now != assigned:
            assigned = now
            print(json.dumps(["assigned", assigned]), flush=True)
        for found in records.values():
            for each in found:
                print(json.dumps(["record", each.partition, each.offset]), flush=True)
        if records:
            with suppress(CommitFailedError, IllegalStateError):  # while the group gathers its members
                await consumer.commit()
    await consumer.stop()


async def introduce(servers: str, topic: str, group: str, count: int) -> None:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        taken = 0
        async for message in consumer:
            print(json.dumps([message.partition, message.offset]), flush=True)
            taken += 1
            if taken == count:
                break
    finally:
        await consumer.stop()


if sys.argv[1] == "share":
    asyncio.run(share(*sys.argv[2:6]))
elif sys.argv[1] == "introduce":
    asyncio.run(introduce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])))
elif sys.argv[1] == "produce":
    _, _, servers, topic, codec, count, name, kind = sys.argv
    asyncio.run(produce(servers, topic, codec, int(count), name, kind))
else:
    asyncio.run(consume(sys.argv[2], sys.argv[3], int(sys.argv[4])))
