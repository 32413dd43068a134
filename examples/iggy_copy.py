"""Copies the messages of a topic from one Iggy server to another, with apache-iggy 0.9: payloads, headers,
ids, and each into the partition that it was in. Stop the producers first.

    python examples/iggy_copy.py iggy+tcp://iggy:iggy@old:8090 iggy+tcp://iggy:iggy@127.0.0.1:8090 shop orders

Stream and topic are made where they are missing; the new topic must be empty. For each partition it prints
by how much offsets differ: where the old server has deleted its oldest messages, the new one begins with 0
all the same.
"""

import asyncio
import os
import sys

from apache_iggy import Consumer, IggyClient, Partitioning, PollingStrategy, SendMessage

AT_ONCE = 500


async def connected(connection: str) -> IggyClient:
    """A client of the server in a connection string."""
    client = IggyClient.from_connection_string(connection)
    await client.connect()
    return client


async def copy(old: IggyClient, new: IggyClient, stream: str, topic: str) -> str:
    """The whole topic, partition by partition. Returns what is in the way; empty: nothing."""
    source = await old.get_topic(stream, topic)
    if source is None:
        return f"the old server has no topic {topic!r} in stream {stream!r}"
    if await new.get_stream(stream) is None:
        await new.create_stream(stream)
    if (made := await new.get_topic(stream, topic)) is None:
        await new.create_topic(stream, topic, partitions_count=source.partitions_count)
    elif made.messages_count:
        return f"the new topic has {made.messages_count:,} messages already"
    for partition in range(source.partitions_count):
        count, first = await copy_partition(old, new, stream, topic, partition)
        print(f"partition {partition}: {count:,} messages; a new offset is the old one less {first:,}")
    return ""


async def copy_partition(
    old: IggyClient, new: IggyClient, stream: str, topic: str, partition: int
) -> tuple[int, int]:
    """Returns how many messages there were, and the old offset of the first."""
    count, first = 0, 0
    strategy: PollingStrategy = PollingStrategy.First()
    while True:
        found = await old.poll_messages(
            stream,
            topic,
            consumer=Consumer.Single("copy"),
            polling_strategy=strategy,
            count=AT_ONCE,
            auto_commit=False,
            partition_id=partition,
        )
        if not found:
            return count, first
        messages = [
            SendMessage(message.payload(), user_headers=message.user_headers(), id=message.id())
            for message in found
        ]
        await new.send_messages(stream, topic, Partitioning.partition_id(partition), messages)
        first = first if count else found[0].offset()
        count += len(found)
        strategy = PollingStrategy.Offset(value=found[-1].offset() + 1)


async def main() -> str:
    from_server, to_server, stream, topic = sys.argv[1:]
    return await copy(await connected(from_server), await connected(to_server), stream, topic)


if __name__ == "__main__":
    problem = asyncio.run(main())
    if problem:
        print(problem, file=sys.stderr)
    sys.stdout.flush()
    # The library's threads go on while Python ends, and now and then abort a process that is done.
    os._exit(1 if problem else 0)
