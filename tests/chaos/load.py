"""The clients of a run, a process of their own: `python -m tests.chaos.load`.

Idempotent producers and consumers are those of our client; raw ones speak the wire by hand. Each writes down
what it does (tests.chaos.record). A line of JSON a second on standard output says how far it is. When
standard input ends, the producers stop, wait for the answers they still want, and the process ends.
"""

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tank_client import Client, ConsumerSettings, DeliveryTimedOut, ProducerSettings, TankError
from tank_client.model import parse_servers
from tank_client.producer import BundleDelivery, Producer
from tests.chaos.raw_writers import SERVERS_VERSION, RawWriter
from tests.chaos.record import Fate, Place, Recorder
from tests.chaos.values import content, name_of, named

TOPICS = {"disk": 4, "memory": 4, "raw": 3}
"""Partitions of each. `disk`: flush=disk; `memory` and `raw`: flush=replicated."""
IDEMPOTENT = ("disk", "memory")
OLD_CLIENT, OLD_RATE = 0, 5.0
SETTLE_S = 150.0
"""Longer than a delivery may take."""
END_OF_LOG = 6
"""So many polls of half a second that bring nothing, when nobody writes any more: a reader has read all."""


@dataclass(slots=True)
class Load:
    """What the clients of this process share."""

    servers: str
    folder: Path
    rate: float
    seed: int
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    stored: int = 0
    seen: int = 0
    failures: list[str] = field(default_factory=list)
    """What passes: somebody was not reached in time."""
    broken: list[str] = field(default_factory=list)
    """What must not be: errors that no fault of the cluster explains."""

    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Nobody writes any more, and all answers are there."""

    def note(self, name: str, error: TankError | TimeoutError) -> bool:
        """An error that a client raised; whether a fault of the cluster explains it: it took too long, or
        may go well another time."""
        passing = isinstance(error, TimeoutError | DeliveryTimedOut) or error.retriable
        (self.failures if passing else self.broken).append(f"{name}: {type(error).__name__}: {error}")
        return passing

    def recorder(self, name: str) -> Recorder:
        return Recorder(self.folder / f"{name}.jsonl")


async def write(load: Load, topic: str, number: int) -> None:
    """An idempotent producer that never stops of itself: after a failed delivery it goes on under a new name,
    since the order of what comes after it is no longer promised."""
    chance = random.Random(f"{load.seed}-{topic}-{number}")
    generation = 0
    while not load.stopping.is_set():
        name = f"{topic}-writer-{number}-{generation}"
        recorder = load.recorder(name)
        async with Client(load.servers) as client:
            producer = client.producer(ProducerSettings(idempotent=True))
            try:
                await _write_until_failure(load, producer, name, topic, recorder, chance)
            finally:
                producer.abort()
                recorder.close()
        generation += 1


async def _write_until_failure(
    load: Load, producer: Producer, name: str, topic: str, recorder: Recorder, chance: random.Random
) -> None:
    orders = dict.fromkeys(range(TOPICS[topic]), 0)
    waiting: set[asyncio.Task[bool]] = set()
    failed = False
    while not load.stopping.is_set() and not failed:
        partition = chance.choice(list(orders))
        place = (topic, partition)
        values = [named(name, place, orders[partition] + i) for i in range(chance.randint(1, 10))]
        recorder.sent(name, place, orders[partition], True, values)
        orders[partition] += len(values)
        try:
            async with asyncio.timeout(SETTLE_S):
                deliveries = [
                    await producer.send(topic, content(value), partition=partition) for value in values
                ]
        except (TankError, TimeoutError) as error:
            load.note(name, error)
            break
        waiting.add(asyncio.create_task(_settle(load, name, recorder, values, deliveries)))
        done = {task for task in waiting if task.done()}
        failed = any(not task.result() for task in done)
        waiting -= done
        await asyncio.sleep(len(values) / load.rate)
    for task in waiting:
        await task


async def _settle(
    load: Load, name: str, recorder: Recorder, values: list[str], deliveries: list[BundleDelivery]
) -> bool:
    """Notes what became of values of one call. The number of each is known where one bundle took them all."""
    try:
        async with asyncio.timeout(SETTLE_S):
            stored = [await delivery for delivery in deliveries]
    except (TankError, TimeoutError) as error:
        load.note(name, error)
        recorder.told(Fate.UNKNOWN, values)
        return False
    alone = (
        len(set(deliveries)) == 1 and stored[0].known and stored[0].last - stored[0].first + 1 == len(values)
    )
    recorder.told(Fate.STORED, values, stored[0].first if alone else 0)
    load.stored += len(values)
    return True


async def read(load: Load, name: str, topic: str) -> None:
    """A consumer that follows a whole topic from its first message on."""
    recorder = load.recorder(name)
    try:
        async with Client(load.servers) as client:
            consumer = client.consumer(topic, settings=ConsumerSettings(out_of_bounds="error"))  # type: ignore[arg-type]
            empty = 0
            while empty < END_OF_LOG:
                try:
                    batch = await consumer.poll(500)
                except TankError as error:
                    if not load.note(name, error):
                        return
                    await asyncio.sleep(0.5)
                    continue
                empty = empty + 1 if batch is None and load.written.is_set() else 0
                if batch is not None:
                    messages = list(batch.messages())
                    recorder.seen(
                        name,
                        (batch.topic, batch.partition),
                        [message.sequence_number for message in messages],
                        [name_of(bytes(message.value or b"")) for message in messages],
                    )
                    load.seen += len(messages)
            recorder.read_all(name, topic)
    finally:
        recorder.close()


def raw_writers(load: Load, old: bool) -> list[RawWriter]:
    """A newer client on each partition of `raw`; with `old` also one of the old document for each."""
    servers = [(a.host, a.port) for a in parse_servers(load.servers)]
    writers = []
    for partition in range(TOPICS["raw"]):
        place: Place = ("raw", partition)
        kinds = [(f"raw-{partition}", SERVERS_VERSION, servers)]
        if old:
            kinds.append((f"old-{partition}", OLD_CLIENT, [servers[partition % len(servers)]]))
        for name, version, its in kinds:
            rate = OLD_RATE if version == OLD_CLIENT else load.rate / 10
            writers.append(RawWriter(name, place, its, load.recorder(name), rate, version, load.seed))
    return writers


async def run(load: Load, old: bool) -> None:
    """All of them, until standard input ends."""
    threads = raw_writers(load, old)
    for thread in threads:
        thread.start()
    writers = [asyncio.create_task(write(load, topic, n)) for topic in IDEMPOTENT for n in range(2)]
    readers = [asyncio.create_task(read(load, f"{topic}-reader", topic)) for topic in TOPICS]
    told = asyncio.create_task(_tell(load, lambda: load.stored + sum(t.stored for t in threads)))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    load.stopping.set()
    for thread in threads:
        thread.stopping.set()
    await asyncio.gather(*writers)
    for thread in threads:
        await asyncio.to_thread(thread.join)
        thread.recorder.close()
        if thread.failure is not None:
            load.broken.append(f"{thread.name} ended: {thread.failure}")
    load.written.set()
    async with asyncio.timeout(SETTLE_S):
        await asyncio.gather(*readers)
    told.cancel()
    _say(load, load.stored)


async def _tell(load: Load, stored: Callable[[], int]) -> None:
    while True:
        _say(load, stored())
        await asyncio.sleep(1)


def _say(load: Load, stored: int) -> None:
    told = {"stored": stored, "seen": load.seen, "failures": load.failures[-5:], "broken": load.broken}
    print(json.dumps(told), flush=True)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument(
        "--rate", type=float, required=True, help="messages a second of each idempotent producer"
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--old-clients", action="store_true")
    chosen = parser.parse_args()
    load = Load(chosen.servers, chosen.folder, chosen.rate, chosen.seed)
    asyncio.run(run(load, chosen.old_clients))


if __name__ == "__main__":
    main()
