"""How many messages a second the client publishes to, and consumes from, a broker on this machine.

    python -m benchmarks.client [--kernel pure|compiled|both] [--cases REGEX] [--rounds N] [--messages N]

Without --servers it starts a broker of its own on a temporary folder, on the same kernel as the client, and
stops it at the end. Client and broker share the machine. Each case runs once to warm up, then --rounds times,
all in turn; a figure is the median, from the first call to the last acknowledgement or the last batch.
"""

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import track

from benchmarks.harness.servers import kernels
from benchmarks.harness.table import Reached, Row, dump, load, machine, show, spread, summary
from tank_client import Client, ProducerSettings, sync
from tank_protos import kernel

# The number of distinct values: programs make values one by one, so the newest are in the processor's cache.
DISTINCT = 20_000
PORTION = 1000
SETTINGS = ProducerSettings(batch_bytes=64 << 10)
WITHOUT_NUMBERS = ProducerSettings(batch_bytes=64 << 10, idempotent=False)
BARS_M = {"compiled": 3.0, "pure": 1.0}

Values = list[bytes]


def portions(values: Values, messages: int) -> Iterator[Values]:
    """`messages` values, a thousand at a time."""
    for at in range(0, messages, PORTION):
        begin = at % (len(values) - PORTION + 1)
        yield values[begin : begin + PORTION]


async def send_many(client: Client, topic: str, values: Values, messages: int) -> None:
    """`send_many`, a thousand at a time, without keys; idempotent, as the client is by default."""
    await _send_many(client, topic, values, messages, SETTINGS)


async def send_many_unnumbered(client: Client, topic: str, values: Values, messages: int) -> None:
    """The same without the numbers that recognize repeats, and so with one bundle under way per partition."""
    await _send_many(client, topic, values, messages, WITHOUT_NUMBERS)


async def _send_many(
    client: Client, topic: str, values: Values, messages: int, settings: ProducerSettings
) -> None:
    async with client.producer(settings) as producer:
        for portion in portions(values, messages):
            await producer.send_many(topic, portion)


async def send_many_keyed(client: Client, topic: str, values: Values, messages: int) -> None:
    """`send_many`, a thousand at a time, each with one of 1,000 keys."""
    keys = [b"key%d" % number for number in range(PORTION)]
    async with client.producer(SETTINGS) as producer:
        for portion in portions(values, messages):
            await producer.send_many(topic, portion, keys=keys)


async def send_each(client: Client, topic: str, values: Values, messages: int) -> None:
    """`send`, one message a call, without keys."""
    async with client.producer(SETTINGS) as producer:
        for portion in portions(values, messages):
            for value in portion:
                await producer.send(topic, value)


async def send_sync(client: Client, topic: str, values: Values, messages: int) -> None:
    """`send` of the synchronous client, one message a call."""

    def work() -> None:
        with sync.Client(SERVERS[0]) as face, face.producer(SETTINGS) as producer:
            for portion in portions(values, messages):
                for value in portion:
                    producer.send(topic, value)

    await asyncio.to_thread(work)


async def consume_values(client: Client, topic: str, values: Values, messages: int) -> None:
    """Batches with their column of values."""
    read = 0
    async with client.consumer(topic, stop_at_end=True) as consumer:
        async for batch in consumer:
            read += len(batch.values)
    assert read == messages, f"{read} of {messages}"


async def consume_messages(client: Client, topic: str, values: Values, messages: int) -> None:
    """A tuple per message."""
    read = 0
    async with client.consumer(topic, stop_at_end=True) as consumer:
        async for _ in consumer.messages():
            read += 1
    assert read == messages, f"{read} of {messages}"


SERVERS: list[str] = []
"""The address, for the client of another thread."""


@dataclass(frozen=True, slots=True)
class Broker:
    """The broker that the client uses."""

    address: str
    pid: int | None = None
    """None for a broker that was running before (--servers): its processor time is unknown."""

    def cpu_seconds(self) -> float:
        """The processor time since the broker's start, of all threads; 0: unknown."""
        if self.pid is None:
            return 0.0
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Case:
    """One measured operation, and the seconds of each round."""

    name: str
    work: Callable[[Client, str, Values, int], Awaitable[None]]
    # Of --messages.
    share: float = 1.0
    barred: bool = False
    reads: bool = False
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    broker_cpu_seconds: list[float] = field(default_factory=list)

    def row(self, size: int, messages: int) -> Row:
        """For the table."""
        rates = [messages / seconds / 1e6 for seconds in self.seconds]
        cost = f"client {median(self.cpu_seconds) / messages * 1e6:.2f} µs each"
        if any(self.broker_cpu_seconds):
            cost += f", broker {median(self.broker_cpu_seconds) / messages * 1e6:.2f}"
        bar = BARS_M[kernel.NAME] if self.barred else None
        return Row(
            f"{self.name}, {size} B",
            f"{spread(rates, 2)} M/s, {cost}",
            bar=f"≥ {bar:g} M/s" if bar else "",
            reached=Reached.of(rate >= bar for rate in rates) if bar else None,
            kernel=kernel.NAME,
        )


def all_cases() -> list[Case]:
    """In the order of the table."""
    return [
        Case("publish, send_many", send_many, barred=True),
        Case("publish, send_many, not idempotent", send_many_unnumbered),
        Case("publish, send_many with keys", send_many_keyed, 0.25),
        Case("publish, send", send_each, 0.25),
        Case("publish, send, synchronous", send_sync, 0.25),
        Case("consume, batches", consume_values, barred=True, reads=True),
        Case("consume, message by message", consume_messages, reads=True),
    ]


async def measure(arguments: argparse.Namespace, broker: Broker) -> list[Row]:
    """All rounds of all cases, each publish to a topic of its own."""
    SERVERS[:] = [broker.address]
    # Values that don't compress, so that snappy makes no difference.
    source = random.Random(1)
    values = [source.randbytes(arguments.bytes) for _ in range(DISTINCT)]
    cases = [case for case in all_cases() if re.search(arguments.cases, case.name)]
    steps = [(number, case) for number in range(arguments.rounds + 1) for case in cases]
    async with Client(broker.address) as client:
        await make(client, "read", arguments)
        await send_many(client, "read", values, arguments.messages)
        for step, (number, case) in enumerate(track(steps, console=Console(stderr=True), transient=True)):
            messages = int(arguments.messages * case.share) // PORTION * PORTION
            topic = "read" if case.reads else f"written-{step}"
            if not case.reads:
                await make(client, topic, arguments)
            began, cpu, broker_cpu = time.perf_counter(), time.process_time(), broker.cpu_seconds()
            await case.work(client, topic, values, messages)
            took, used = time.perf_counter() - began, time.process_time() - cpu
            if number:
                case.seconds.append(took)
                case.cpu_seconds.append(used)
                case.broker_cpu_seconds.append(broker.cpu_seconds() - broker_cpu)
            if not case.reads:
                await client.admin.delete_topic(topic)
        await client.admin.delete_topic("read")
    return [
        case.row(arguments.bytes, int(arguments.messages * case.share) // PORTION * PORTION) for case in cases
    ]


async def make(client: Client, topic: str, arguments: argparse.Namespace) -> None:
    """A topic as the arguments say."""
    await client.admin.create_topic(topic, arguments.partitions, settings={"flush": arguments.flush})


@contextmanager
def own_broker() -> Iterator[Broker]:
    """A broker on free ports and a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tank_cli.main", "serve", "--data", str(Path(folder) / "data")]
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                found = re.search(r"listening on (\S+?),", line)
                if found:
                    yield Broker(found[1], process.pid)
                    return
            raise SystemExit("the broker did not start: run `tank serve` to see why")
        finally:
            process.terminate()
            process.wait(20)


def rows_of(name: str) -> tuple[str, list[Row]]:
    """The same measurement in a process of its own, on that kernel."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client", *sys.argv[1:], "--rows"],
        env=os.environ | {"TANK_KERNEL": name},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return load(done.stdout)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernel", choices=["pure", "compiled", "both"], help="default: TANK_KERNEL's")
    parser.add_argument("--cases", default="", help="a regular expression of the names")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--flush", choices=["disk", "replicated"], default="replicated")
    parser.add_argument("--servers", default="", help="a broker that runs; it keeps its kernel")
    parser.add_argument("--quick", action="store_true", help="fewer messages and rounds")
    parser.add_argument("--rows", action="store_true", help="print rows for another program")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.messages, arguments.rounds = 500_000, 3
    if arguments.kernel and not arguments.rows:
        rows = [row for name in kernels(arguments.kernel) for row in rows_of(name)[1]]
    elif arguments.servers:
        rows = asyncio.run(measure(arguments, Broker(arguments.servers)))
    else:
        with own_broker() as broker:
            rows = asyncio.run(measure(arguments, broker))
    how = f"medians of {arguments.rounds} rounds of {arguments.messages:,} messages"
    if arguments.rows:
        dump(rows, how)
    else:
        show(f"The Python client: {how}. {machine()}. {summary(rows)}", rows)


if __name__ == "__main__":
    main()
