"""Writes measurements with their sensor as key, and learns where each was stored.

    python -m examples.client.producer

Messages with the same key go to the same partition and keep their order there.
"""

import asyncio
from contextlib import suppress

from examples.client.start import command_line
from tank_client import Client, ProducerSettings, TopicExists

MEASURED = [("kitchen", "20.5"), ("bath", "23.1"), ("kitchen", "20.9"), ("garden", "11.0")]


async def produce(servers: str) -> None:
    """Sends all measurements, then waits until each is stored."""
    # A bundle of messages leaves when it is full, or after 20 ms: longer waits make larger bundles.
    settings = ProducerSettings(linger_ms=20)
    async with Client(servers) as client, client.producer(settings) as producer:
        with suppress(TopicExists):
            await client.admin.create_topic("measurements", partitions=2)
        deliveries = [
            await producer.send("measurements", degrees.encode(), key=sensor.encode())
            for sensor, degrees in MEASURED
        ]
        for (sensor, degrees), delivery in zip(MEASURED, deliveries, strict=True):
            stored = await delivery  # raises when the message could not be stored
            print(f"{sensor} {degrees}: stored with the messages {stored.first} to {stored.last}")


if __name__ == "__main__":
    asyncio.run(produce(command_line(__doc__).parse_args().servers))
