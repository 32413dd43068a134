"""Iggy's protocol, with apache-iggy 0.9: makes a stream and a topic, writes orders, or reads what all wrote.

    python examples/three/with_iggy.py create 127.0.0.1:8090 shop.orders 1
    python examples/three/with_iggy.py write 127.0.0.1:8090 shop.orders 100
    python examples/three/with_iggy.py read 127.0.0.1:8090 shop.orders 300

Topic `orders` of stream `shop` is what the other clients call `shop.orders`. A line of JSON for each message
that is read: its offset, who wrote it, and its value.
"""

import asyncio
import json
import os
import sys

from apache_iggy import Consumer, IggyClient, Partitioning, PollingStrategy, ReceiveMessage, SendMessage

EVERY_S = 0.005
BETWEEN_POLLS_S = 0.05
AT_ONCE = 100


async def connected(server: str) -> IggyClient:
    """A client that logs in again by itself whenever it has to connect again."""
    client = IggyClient.from_connection_string(f"iggy+tcp://iggy:iggy@{server}")
    await client.connect()
    return client


async def create(server: str, name: str, partitions: int) -> None:
    """Stream and topic, where they are missing."""
    stream, topic = name.split(".")
    client = await connected(server)
    if await client.get_stream(stream) is None:
        await client.create_stream(stream)
    if await client.get_topic(stream, topic) is None:
        await client.create_topic(stream, topic, partitions_count=partitions)


async def write(server: str, name: str, count: int) -> None:
    """One order after the other, each with a header."""
    stream, topic = name.split(".")
    client = await connected(server)
    for number in range(count):
        order = SendMessage(f"order {number}", user_headers={"from": "iggy"})
        await client.send_messages(stream, topic, Partitioning.partition_id(0), [order])
        await asyncio.sleep(EVERY_S)


async def read(server: str, name: str, count: int) -> None:
    """As a consumer whose offsets the server keeps, until there were so many."""
    stream, topic = name.split(".")
    client = await connected(server)
    while count > 0:
        messages = await client.poll_messages(
            stream,
            topic,
            consumer=Consumer.Single("three-protocols"),
            polling_strategy=PollingStrategy.Next(),
            count=min(AT_ONCE, count),
            auto_commit=True,
            partition_id=0,
        )
        for message in messages:
            print(json.dumps([message.offset(), writer_of(message), message.payload().decode()]))
        count -= len(messages)
        if not messages:
            await asyncio.sleep(BETWEEN_POLLS_S)


def writer_of(message: ReceiveMessage) -> str:
    """A header's value has the kind that its writer gave it; those of other protocols are bytes."""
    headers = message.user_headers()
    writer = "" if headers is None else headers.to_scalar_dict().get("from", "")
    return writer.decode() if isinstance(writer, bytes) else str(writer)


if __name__ == "__main__":
    does = {"create": create, "write": write, "read": read}[sys.argv[1]]
    asyncio.run(does(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    sys.stdout.flush()
    # The library's threads go on while Python ends, and now and then abort a process that is done.
    os._exit(0)
