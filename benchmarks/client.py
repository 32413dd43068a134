"""How many messages a second the client publishes to, and consumes from, a broker on this machine.

    python benchmarks/client.py [--servers HOST:PORT] [--messages N] [--bytes N] [--partitions N] [--flush
    disk|replicated]

Without --servers it starts a broker of its own on a temporary folder and stops it at the end. Figures are
of this process and the broker together on one machine: messages a second, and CPU seconds of this process
per million messages.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tank_client import Client, ConsumerSettings, ProducerSettings, sync


async def send_many(client: Client, topic: str, values: list[bytes]) -> None:
    """`send_many`, a thousand at a time, keyless."""
    async with client.producer(ProducerSettings(batch_bytes=64 << 10)) as producer:
        for at in range(0, len(values), 1000):
            await producer.send_many(topic, values[at : at + 1000])


async def send_each(client: Client, topic: str, values: list[bytes]) -> None:
    """`send`, one message a call, keyless."""
    async with client.producer(ProducerSettings(batch_bytes=64 << 10)) as producer:
        for value in values:
            await producer.send(topic, value)


async def send_keyed(client: Client, topic: str, values: list[bytes]) -> None:
    """`send` with one of 1,000 keys."""
    keys = [b"key%d" % number for number in range(1000)]
    async with client.producer(ProducerSettings(batch_bytes=64 << 10)) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, key=keys[number % 1000])


async def send_many_keyed(client: Client, topic: str, values: list[bytes]) -> None:
    """`send_many`, a thousand at a time, each with one of 1,000 keys."""
    keys = [b"key%d" % number for number in range(1000)]
    async with client.producer(ProducerSettings(batch_bytes=64 << 10)) as producer:
        for at in range(0, len(values), 1000):
            portion = values[at : at + 1000]
            await producer.send_many(topic, portion, keys=keys[: len(portion)])


async def consume_chunks(client: Client, topic: str, wanted: int) -> None:
    """Batches as they come, nothing decoded: what Spark does before Arrow."""
    read = 0
    async with client.consumer(topic, stop_at_end=True, settings=ConsumerSettings()) as consumer:
        async for batch in consumer:
            read += batch.upper - batch.lower + 1 if batch.lower else batch.next_number - 1
    assert read >= wanted, f"{read} of {wanted}"


async def consume_values(client: Client, topic: str, wanted: int) -> None:
    """Batches with their column of values."""
    read = 0
    async with client.consumer(topic, stop_at_end=True) as consumer:
        async for batch in consumer:
            read += len(batch.values)
    assert read == wanted, f"{read} of {wanted}"


async def consume_messages(client: Client, topic: str, wanted: int) -> None:
    """A tuple per message."""
    read = 0
    async with client.consumer(topic, stop_at_end=True) as consumer:
        async for _ in consumer.messages():
            read += 1
    assert read == wanted, f"{read} of {wanted}"


def sync_send(servers: str, topic: str, values: list[bytes]) -> None:
    """The synchronous face: `send`, one message a call."""
    with sync.Client(servers) as client, client.producer(ProducerSettings(batch_bytes=64 << 10)) as producer:
        for value in values:
            producer.send(topic, value)


def report(name: str, messages: int, size: int, started: float, cpu: float) -> None:
    """One line."""
    wall, used = time.perf_counter() - started, time.process_time() - cpu
    rate = messages / wall
    print(
        f"{name:<28}{rate:>12,.0f} messages/s {rate * size / 1e6:>8.1f} MB/s "
        f"{used / messages * 1e6:>6.2f} CPU s per million",
        flush=True,
    )


async def timed(name: str, messages: int, size: int, work: Callable[[], Awaitable[None]]) -> None:
    """Runs and reports."""
    started, cpu = time.perf_counter(), time.process_time()
    await work()
    report(name, messages, size, started, cpu)


async def measure(servers: str, messages: int, size: int, partitions: int, flush: str) -> None:
    """All of it, each publish to a topic of its own."""
    # Contents that do not compress: neither side shall win by snappy.
    values = [os.urandom(size) for _ in range(messages)]
    few = values[: messages // 4]
    stamp = int(time.time())
    async with Client(servers) as client:
        topics = [f"bench-{stamp}-{name}" for name in ("many", "each", "keyed", "sync", "many-keyed")]
        for topic in topics:
            await client.admin.create_topic(topic, partitions, settings={"flush": flush})
        await timed("publish, send_many", messages, size, lambda: send_many(client, topics[0], values))
        await timed(
            "publish, send_many with keys", messages, size, lambda: send_many_keyed(client, topics[4], values)
        )
        await timed("publish, send", len(few), size, lambda: send_each(client, topics[1], few))
        await timed("publish, send with key", len(few), size, lambda: send_keyed(client, topics[2], few))
        await timed("consume, chunks", messages, size, lambda: consume_chunks(client, topics[0], messages))
        await timed("consume, values", messages, size, lambda: consume_values(client, topics[0], messages))
        await timed(
            "consume, messages", messages, size, lambda: consume_messages(client, topics[0], messages)
        )
        started, cpu = time.perf_counter(), time.process_time()
        await asyncio.to_thread(sync_send, servers, topics[3], few)
        report("publish, sync send", len(few), size, started, cpu)
        for topic in topics:
            await client.admin.delete_topic(topic)


def start_broker(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A broker on free ports; (process, address)."""
    command = [sys.executable, "-m", "tank_cli.main", "serve", "--data", str(folder)]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"listening on (\S+?),", line)
        if found:
            return process, found[1]
    raise SystemExit("the broker did not start: run `tank serve` to see why")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--servers", default="")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--flush", choices=["disk", "replicated"], default="replicated")
    arguments = parser.parse_args()
    settings = (arguments.messages, arguments.bytes, arguments.partitions, arguments.flush)
    if arguments.servers:
        asyncio.run(measure(arguments.servers, *settings))
        return
    with tempfile.TemporaryDirectory() as folder:
        process, servers = start_broker(Path(folder) / "data")
        try:
            asyncio.run(measure(servers, *settings))
        finally:
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    main()
