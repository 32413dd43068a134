"""The clients of a run, a process of their own: `python -m tests.chaos.load`.

Idempotent producers and consumers are those of our client; raw ones speak the wire by hand; Kafka's are
stock ones, and Iggy's has processes of its own. Each writes down what it does (tests.chaos.record). Lines of
JSON on standard output say how far each is. When standard input ends, the producers stop and wait for the
answers they still want, the consumers read on to the end of the log, and the process ends.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tank_client import Client, ClientSettings, ConsumerSettings, ProducerSettings, TankError
from tank_client.model import parse_servers
from tank_client.producer import BundleDelivery, Producer
from tests.chaos.client_thread import ClientThread
from tests.chaos.iggy.clients import IggyProgram, IggyProgramAccess
from tests.chaos.iggy.stream import PARTITIONS, PLACED
from tests.chaos.raw_clients import OLD_CLIENT, SERVERS_VERSION
from tests.chaos.raw_readers import RawReader
from tests.chaos.raw_writers import RawWriter
from tests.chaos.record import Fate, Place, Recorder
from tests.chaos.stock_groups import (
    COOPERATIVE,
    ROUND_ROBIN,
    AiokafkaMember,
    Group,
    GroupMember,
    GroupWatcher,
    LibrdkafkaMember,
)
from tests.chaos.stock_readers import AiokafkaReader, LibrdkafkaReader
from tests.chaos.stock_writers import AiokafkaWriter, LibrdkafkaWriter
from tests.chaos.values import content, name_of, named

TOPICS = {"disk": 4, "memory": 4, "raw": 3}
"""Partitions of each. `disk`: flush=disk; `memory` and `raw`: flush=replicated."""
KAFKA = {"kafka": 2}
"""Partitions of the topic of Kafka's format, where stock clients of its protocol are installed."""
IGGY = {PLACED: PARTITIONS}
"""Those of the topic that Iggy's client makes, where it is."""
IDEMPOTENT = ("disk", "memory")
SHARED = "disk"
"""Members of a group of our client share its partitions."""
CROSSED: list[Place] = [("disk", 0), ("disk", 1)]
"""Partitions of bundles that stock clients use, too, when clients of each protocol use both formats."""
OLD_RATE = 5.0
SETTINGS = ClientSettings(request_timeout_ms=60_000)
"""When all is told to stop at once, nobody keeps a position for half a minute on a busy machine: each broker
gives others 20 s to take over, and there are none."""
SETTLE_S = 150.0
"""Longer than a delivery may take."""
TELL_EVERY_S = 0.25
KEPT_EVERY_S = 0.2
ASKED_EVERY = 5
END_OF_LOG = 6
"""So many polls of half a second that bring nothing, when nobody writes any more: a reader has read all."""


@dataclass(slots=True)
class Load:
    """What the clients of this process share."""

    servers: str
    folder: Path
    rate: float
    seed: int
    kafka_servers: str = ""
    """Where Kafka's clients connect; empty: there are none."""
    crossed: bool = False
    """Clients of each protocol also use topics of the other's format."""
    iggy: IggyProgramAccess | None = None
    """None: Iggy's client has no part."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """Nobody writes any more, and all answers are there."""
    stored: Counter[Place] = field(default_factory=lambda: Counter(dict.fromkeys(places(IDEMPOTENT), 0)))
    """Values that idempotent producers of ours were told to be stored."""
    seen: Counter[Place] = field(default_factory=lambda: Counter(dict.fromkeys(places(TOPICS), 0)))
    """Values that consumers were given."""
    kept: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(TOPICS, 0)))
    """Positions that groups were told to be kept."""
    shared: dict[str, int] = field(default_factory=dict)
    """How far the groups of our client's members are, by name: the sum of their positions."""
    broken: list[str] = field(default_factory=list)
    """Errors of clients. A fault is over long before a producer or a consumer of ours gives up, so that none
    may be met."""

    @property
    def topics(self) -> dict[str, int]:
        """All topics, with their partitions."""
        return topics_of(kafka=bool(self.kafka_servers), iggy=self.iggy is not None)

    @property
    def idempotent(self) -> tuple[str, ...]:
        """The topics that idempotent producers of ours write to."""
        return (*IDEMPOTENT, *KAFKA) if self.crossed else IDEMPOTENT

    @property
    def stock(self) -> list[Place]:
        """The partitions that stock clients use."""
        return [*places(KAFKA), *(CROSSED if self.crossed else ())] if self.kafka_servers else []

    def note(self, name: str, error: TankError | TimeoutError) -> None:
        """An error that a client raised."""
        self.broken.append(f"{name}: {type(error).__name__}: {error}")

    def recorder(self, name: str) -> Recorder:
        return Recorder(self.folder / f"{name}.jsonl")


def topics_of(kafka: bool, iggy: bool = False) -> dict[str, int]:
    """All topics of a run, with their partitions."""
    return TOPICS | (KAFKA if kafka else {}) | (IGGY if iggy else {})


def places(topics: Iterable[str]) -> list[Place]:
    """All partitions of these."""
    partitions = topics_of(kafka=True, iggy=True)
    return [(topic, partition) for topic in topics for partition in range(partitions[topic])]


async def write(load: Load, topic: str, number: int) -> None:
    """An idempotent producer that doesn't stop of itself, unless it met an error."""
    chance = random.Random(f"{load.seed}-{topic}-{number}")
    name = f"{topic}-writer-{number}"
    recorder = load.recorder(name)
    async with Client(load.servers, SETTINGS) as client:
        producer = client.producer(ProducerSettings(idempotent=True))
        try:
            await _write(load, producer, name, topic, recorder, chance)
        finally:
            producer.abort()
            recorder.close()


async def _write(
    load: Load, producer: Producer, name: str, topic: str, recorder: Recorder, chance: random.Random
) -> None:
    orders = dict.fromkeys(range(load.topics[topic]), 0)
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
        waiting.add(asyncio.create_task(_settle(load, name, recorder, place, values, deliveries)))
        done = {task for task in waiting if task.done()}
        failed = any(not task.result() for task in done)
        waiting -= done
        await asyncio.sleep(len(values) / load.rate)
    for task in waiting:
        await task


async def _settle(
    load: Load,
    name: str,
    recorder: Recorder,
    place: Place,
    values: list[str],
    deliveries: list[BundleDelivery],
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
    load.stored[place] += len(values)
    return True


async def write_last(load: Load) -> None:
    """One value more in each partition. A replica keeps what its leader lacks until the leader has something
    new for it: behind this one all replicas are the same."""
    name = "last-writer"
    recorder = load.recorder(name)
    async with Client(load.servers, SETTINGS) as client:
        producer = client.producer(ProducerSettings(idempotent=True))
        try:
            for topic, partition in places(load.topics):
                values = [named(name, (topic, partition), 0)]
                recorder.sent(name, (topic, partition), 0, True, values)
                delivery = await producer.send(topic, content(values[0]), partition=partition)
                await _settle(load, name, recorder, (topic, partition), values, [delivery])
        except TankError as error:
            load.note(name, error)
        finally:
            producer.abort()
            recorder.close()


async def read(load: Load, name: str, topic: str) -> None:
    """A consumer that follows a whole topic from its first message on."""
    recorder = load.recorder(name)
    try:
        async with Client(load.servers, SETTINGS) as client:
            consumer = client.consumer(topic, settings=ConsumerSettings(out_of_bounds="error"))  # type: ignore[arg-type]
            empty = 0
            while empty < END_OF_LOG:
                try:
                    batch = await consumer.poll(500)
                except TankError as error:
                    load.note(name, error)
                    return
                empty = empty + 1 if batch is None and load.written.is_set() else 0
                if batch is not None:
                    messages = list(batch.messages())
                    place = (batch.topic, batch.partition)
                    recorder.seen(
                        name,
                        place,
                        [message.sequence_number for message in messages],
                        [name_of(bytes(message.value or b"")) for message in messages],
                    )
                    load.seen[place] += len(messages)
            recorder.read_all(name, places([topic]))
    finally:
        recorder.close()


async def keep(load: Load, topic: str) -> None:
    """A group whose positions rise in all partitions of a topic, and are asked for now and then."""
    group = f"{topic}-keeper"
    recorder = load.recorder(group)
    try:
        async with Client(load.servers, SETTINGS) as client:
            number = 0
            while not load.stopping.is_set():
                number += 1
                await client.admin.commit_positions(group, dict.fromkeys(places([topic]), number))
                for place in places([topic]):
                    recorder.position(group, place, number, found=False)
                load.kept[topic] += 1
                if number % ASKED_EVERY == 0:
                    await _find(client, recorder, group, topic)
                await asyncio.sleep(KEPT_EVERY_S)
            await _find(client, recorder, group, topic)
    except TankError as error:
        load.note(group, error)
    finally:
        recorder.close()


async def _find(client: Client, recorder: Recorder, group: str, topic: str) -> None:
    found = await client.admin.fetch_positions(group, [topic])
    for place in places([topic]):
        at = found.get(place)
        recorder.position(group, place, 0 if at is None else at.number, found=True)


@dataclass(slots=True)
class ClientThreads:
    """On each partition of `raw` a producer and a consumer that speak the wire by hand, and with `old` one
    more of each of the old document. On each of `kafka`, where there is that, and perhaps on some of another
    topic, a producer and a consumer of each of Kafka's stock clients."""

    writers: list[ClientThread] = field(default_factory=list)
    readers: list[ClientThread] = field(default_factory=list)
    members: list[GroupMember] = field(default_factory=list)
    """Those of groups, some of which may have nothing to read; their watchers are among the readers."""
    written: threading.Event = field(default_factory=threading.Event)

    @property
    def all(self) -> list[ClientThread]:
        return [*self.writers, *self.readers, *self.members]

    def plan(self, load: Load, old: bool) -> None:
        """Nobody runs yet."""
        self._plan_raw(load, old)
        if load.kafka_servers:
            self._plan_groups(load)
        if load.iggy is not None:
            for role, its, ends in (("send", self.writers, None), ("poll", self.readers, self.written)):
                recorder = load.recorder(f"iggy-{role}")
                its.append(IggyProgram(role, load.iggy, recorder, load.rate / 10, load.seed, ends))
        for place in load.stock:
            for write, read in ((LibrdkafkaWriter, LibrdkafkaReader), (AiokafkaWriter, AiokafkaReader)):
                servers, rate = load.kafka_servers, load.rate / 10
                name = f"{write.__name__}-{place[0]}-{place[1]}"
                self.writers.append(write(name, place, servers, load.recorder(name), rate, load.seed))
                name = f"{read.__name__}-{place[0]}-{place[1]}"
                self.readers.append(read(name, place, servers, load.recorder(name), self.written))

    def _plan_groups(self, load: Load) -> None:
        """One group whose members give up all that they read before each generation, of both libraries, and
        one whose members keep it; the latter has a static member."""
        topics = {*KAFKA, *(topic for topic, _ in load.stock)}
        shares = (
            (ROUND_ROBIN, ((LibrdkafkaMember, None), (LibrdkafkaMember, None), (AiokafkaMember, None))),
            (COOPERATIVE, ((LibrdkafkaMember, None), (LibrdkafkaMember, "static"))),
        )
        for strategy, kinds in shares:
            name = f"{strategy}-group"
            shared = tuple(places(sorted(topics)))
            group = Group(name, load.kafka_servers, shared, strategy, load.seed, self.written)
            self.readers.append(GroupWatcher(name, group, load.recorder(name)))
            for number, (kind, instance_id) in enumerate(kinds):
                member = f"{name}-{kind.__name__}-{number}"
                self.members.append(kind(member, group, load.recorder(member), instance_id))

    def _plan_raw(self, load: Load, old: bool) -> None:
        servers = [(a.host, a.port) for a in parse_servers(load.servers)]
        for place in places(["raw"]):
            kinds = [("raw", SERVERS_VERSION, servers, load.rate / 10)]
            if old:
                kinds.append(("old", OLD_CLIENT, [servers[place[1] % len(servers)]], OLD_RATE))
            for kind, version, its, rate in kinds:
                name = f"{kind}-writer-{place[1]}"
                recorder = load.recorder(name)
                self.writers.append(RawWriter(name, place, its, recorder, rate, version, load.seed))
                name = f"{kind}-reader-{place[1]}"
                recorder = load.recorder(name)
                self.readers.append(
                    RawReader(name, place, its, recorder, version, load.seed, self.written, END_OF_LOG)
                )

    async def end(self, clients: Iterable[ClientThread]) -> None:
        """Returns when these are through. TimeoutError."""
        deadline_s = time.monotonic() + SETTLE_S
        for client in clients:
            await asyncio.to_thread(client.join, max(deadline_s - time.monotonic(), 0))
            if client.is_alive() and not client.may_hang:
                raise TimeoutError(f"{client.name} does not end: it is at {client.place_in_code}")
            client.recorder.close()


def _sharing(load: Load) -> list[asyncio.Task[None]]:
    """A group of our client's consumers. It is imported here, because older clients have none that share."""
    from tests.chaos import our_groups

    group = our_groups.OurGroup(SHARED, places([SHARED]), SETTINGS)
    members = [our_groups.share(load, group, number) for number in range(our_groups.MEMBERS)]
    return [asyncio.create_task(each) for each in (our_groups.watch(load, group), *members)]


async def run(load: Load, old: bool, *, groups: bool) -> None:
    """All of them, until standard input ends. groups: whether consumers of a group share a topic."""
    if load.iggy is not None:
        await asyncio.to_thread(load.iggy.make, load.recorder("iggy-make"))
    threads = ClientThreads()
    load.seen.update(dict.fromkeys(places(load.topics), 0))
    load.stored.update(dict.fromkeys(places(load.idempotent), 0))
    threads.plan(load, old)
    for client in threads.all:
        client.start()
    writers = [asyncio.create_task(write(load, topic, n)) for topic in load.idempotent for n in range(2)]
    writers += [asyncio.create_task(keep(load, topic)) for topic in TOPICS]
    readers = [asyncio.create_task(read(load, f"{topic}-reader", topic)) for topic in load.topics]
    if groups:
        readers += _sharing(load)
    told = asyncio.create_task(_tell(load, threads))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    load.stopping.set()
    for writer in threads.writers:
        writer.stopping.set()
    await asyncio.gather(*writers)
    await threads.end(threads.writers)
    await write_last(load)
    load.written.set()
    threads.written.set()
    async with asyncio.timeout(SETTLE_S):
        await asyncio.gather(*readers)
    await threads.end(threads.readers)
    await threads.end(threads.members)
    told.cancel()
    _say(load, threads)


async def _tell(load: Load, threads: ClientThreads) -> None:
    while True:
        _say(load, threads)
        await asyncio.sleep(TELL_EVERY_S)


def _say(load: Load, threads: ClientThreads) -> None:
    """`tests.chaos.load_process.Progress`."""
    stored = {f"writers of {topic}/{partition}": n for (topic, partition), n in load.stored.items()}
    stored |= {writer.name: writer.count for writer in threads.writers}
    seen = {f"reader of {topic}/{partition}": n for (topic, partition), n in load.seen.items()}
    seen |= {reader.name: reader.count for reader in threads.readers}
    seen |= {f"positions of {topic}": n for topic, n in load.kept.items()}
    seen |= load.shared
    ended = [f"{client.name}: {client.failure!r}" for client in threads.all if client.failure is not None]
    healed = sum((each.healed for each in threads.all if isinstance(each, IggyProgram)), Counter())
    said = {"stored": stored, "seen": seen, "broken": load.broken + ended, "healed": healed}
    print(json.dumps(said), flush=True)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", required=True)
    parser.add_argument("--folder", type=Path, required=True, help="a new one, for what the clients did")
    parser.add_argument(
        "--rate", type=float, required=True, help="messages a second of each idempotent producer"
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--old-clients", action="store_true")
    parser.add_argument("--kafka-servers", default="", help="with stock clients of Kafka's protocol")
    parser.add_argument("--iggy-servers", default="", help="with Iggy's client, whose user IGGY_ROOT has")
    parser.add_argument("--iggy-python", default=sys.executable, help="the interpreter that has its package")
    parser.add_argument("--crossed", action="store_true", help="each protocol on topics of both formats")
    parser.add_argument(
        "--no-groups", action="store_true", help="without consumers that share: an older version has none"
    )
    chosen = parser.parse_args()
    chosen.folder.mkdir()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it tells of each broker that is gone
    iggy = IggyProgramAccess(chosen.iggy_servers, chosen.iggy_python) if chosen.iggy_servers else None
    load = Load(
        chosen.servers, chosen.folder, chosen.rate, chosen.seed, chosen.kafka_servers, chosen.crossed, iggy
    )
    asyncio.run(run(load, chosen.old_clients, groups=not chosen.no_groups))


if __name__ == "__main__":
    main()
