"""Sends a message every 10 ms: `python steady.py HOST:PORT STREAM TOPIC SECONDS`, in an environment that has
`apache-iggy` alone.

The stream and the topic, of one partition, are made if they aren't there. The client has its library's own
settings. Prints a line for each acknowledged message, a list in JSON: when it was sent, and when its
acknowledgement came, in seconds since 1970.
"""

import asyncio
import contextlib
import importlib
import json
import sys
import time

iggy = importlib.import_module("apache_iggy")
PACE_S = 0.01
PAUSE_S = 0.02
"""Before a message is sent again that was refused."""


async def main(address: str, stream: str, topic: str, seconds: float) -> None:
    """Sends until the time is over. What is refused is sent again, as users do it."""
    client = iggy.IggyClient.from_connection_string(f"iggy+tcp://iggy:iggy@{address}")
    await client.connect()
    if await client.get_stream(stream) is None:
        await client.create_stream(name=stream)
    if await client.get_topic(stream, topic) is None:
        await client.create_topic(stream=stream, name=topic, partitions_count=1)
    until = time.time() + seconds
    while time.time() < until:
        sent = time.time()
        with contextlib.suppress(Exception):
            await client.send_messages(
                stream=stream, topic=topic, partitioning=0, messages=[iggy.SendMessage("x" * 100)]
            )
            print(json.dumps([sent, time.time()]), flush=True)
            await asyncio.sleep(PACE_S)
            continue
        await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
