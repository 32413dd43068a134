"""aiokafka."""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


async def produce(servers: str, topic: str, codec: str, count: int, name: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=True,
        linger_ms=20,
    )
    await producer.start()
    try:
        futures = [
            await producer.send(
                topic,
                None if number % 7 == 6 and number % 3 != 2 else (f"{name}-{number}-" + 100 * "x").encode(),
                None if number % 3 == 2 else f"{name}-{number}".encode(),
                partition=0,
                headers=[("h", str(number).encode())],
            )
            for number in range(count)
        ]
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
                record = await consumer.getone()
            headers = [[key, value.decode()] for key, value in record.headers]
            key, value = record.key, record.value
            print(
                json.dumps(
                    [record.offset, key and key.decode(), value if value is None else value.decode(), headers]
                )
            )
    finally:
        await consumer.stop()


if sys.argv[1] == "produce":
    asyncio.run(produce(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6]))
else:
    asyncio.run(consume(sys.argv[2], sys.argv[3], int(sys.argv[4])))
