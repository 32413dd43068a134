"""Groups of consumers of Kafka's protocol that others wrote, librdkafka's and aiokafka's: members share the
partitions, write down what they are given in which generation, commit it, and are made anew now and then."""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.chaos.client_thread import ClientThread
from tests.chaos.librdkafka_log import SETTINGS, log_beside
from tests.chaos.record import Place, Recorder
from tests.chaos.values import name_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer

MOST_AT_ONCE: Final = 200
POLL_S: Final = 0.5
ASK_S: Final = 10.0
SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 1_000
LIVES_S: Final = (10.0, 40.0)
"""How long a member lives, at least and at most, before it leaves and another one takes its place."""
ROUND_ROBIN, COOPERATIVE = "roundrobin", "cooperative-sticky"
NO_GENERATION: Final = -1

_MAGIC: Final = b"CGMDv2:"
"""What librdkafka puts before a member's generation, of four bytes, where it shows them."""


@dataclass(slots=True, eq=False)
class Group:
    """What the members of one group share."""

    name: str
    servers: str
    places: tuple[Place, ...]
    strategy: str
    """How partitions are assigned."""
    seed: int
    written: threading.Event
    """Nobody writes any more."""
    done: threading.Event = field(default_factory=threading.Event)
    """All that was written is committed by the group, or its watcher has failed."""

    @property
    def topics(self) -> list[str]:
        """What the members subscribe to."""
        return sorted({topic for topic, _ in self.places})


class GroupMember(ClientThread):
    """What both libraries' members have in common."""

    def __init__(self, name: str, group: Group, recorder: Recorder, instance_id: str | None = None) -> None:
        super().__init__(name, group.places[0], recorder)
        self.group = group
        self.instance_id = instance_id
        self.refused = 0
        """Commits that failed: then another member is given the same messages."""
        if instance_id is not None:
            recorder.is_static(name)
        self._waits = False
        """It is where its library may wait for ever."""
        self._life = 0
        self._chance = random.Random(f"{group.seed}-{name}")

    def _handed(self, generation: int, place: Place, records: Iterable[tuple[int, bytes]]) -> None:
        """The member was given these: offsets and values. TANK counts messages from 1 on."""
        found = list(records)
        numbers = [offset + 1 for offset, _ in found]
        values = [name_of(value) for _, value in found]
        self.recorder.handed(self.group.name, (self.name, self._life), generation, place, numbers, values)
        self.count += len(found)

    def _begins(self) -> float:
        """Another life; until when, by the monotonic clock."""
        self._life += 1
        return time.monotonic() + self._chance.uniform(*LIVES_S)


class LibrdkafkaMember(GroupMember):
    """librdkafka, by confluent-kafka."""

    @property
    def may_hang(self) -> bool:
        """librdkafka's close can wait for ever after its coordinator died (issue 3740 there), and so can a
        commit that is waited for (issue 1801 of confluent-kafka-python). The group goes on without the
        member: its watcher sees to that."""
        return self._waits

    def work(self) -> None:
        from confluent_kafka import KafkaError, KafkaException

        while not self.group.done.is_set():
            try:
                self._live(self._begins())
            except KafkaException as error:
                code = error.args[0].code()
                # Fenced: a join that it had given up came late, and counts as another process.
                is_fenced = self.instance_id is not None and code == KafkaError._FATAL
                # It asked a broker for offsets that was the coordinator a moment ago, and does not ask the
                # next one: that consumer reads nothing any more (issue 5586 there), another one does.
                asks_no_more = code == KafkaError.NOT_COORDINATOR
                if not is_fenced and not asks_no_more:
                    raise
                self.refused += 1

    def _live(self, until_s: float) -> None:
        from confluent_kafka import Consumer, KafkaException

        group = self.group
        settings = {
            "bootstrap.servers": group.servers,
            "client.id": self.name,
            "group.id": group.name,
            "partition.assignment.strategy": group.strategy,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **SETTINGS,
        }
        if self.instance_id is not None:
            settings["group.instance.id"] = self.instance_id
        consumer = Consumer(settings, logger=log_beside(self.recorder.path))
        consumer.subscribe(group.topics)
        try:
            while not group.done.is_set() and time.monotonic() < until_s:
                messages = consumer.consume(MOST_AT_ONCE, POLL_S)
                # No rebalance that would take partitions from it ends before its next call.
                generation = generation_in(consumer.consumer_group_metadata())
                found: dict[Place, list[tuple[int, bytes]]] = {}
                for message in messages:
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    place = message.topic() or "", message.partition() or 0
                    found.setdefault(place, []).append((message.offset() or 0, message.value() or b""))
                for place, records in found.items():
                    self._handed(generation, place, records)
                if messages:
                    self._waits = True
                    try:
                        consumer.commit(asynchronous=False)
                    except KafkaException:
                        self.refused += 1
                    self._waits = False
        finally:
            self._waits = True
            consumer.close()
            self._waits = False


def generation_in(shown: bytes) -> int:
    """The generation of a member, by what librdkafka shows of it; -1: it is in none."""
    if not shown.startswith(_MAGIC):
        return NO_GENERATION
    return int.from_bytes(shown[len(_MAGIC) : len(_MAGIC) + 4], "little", signed=True)


class AiokafkaMember(GroupMember):
    """aiokafka, in an event loop of its own."""

    def work(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        while not self.group.done.is_set():
            try:
                await self._live(self._begins())
            except asyncio.CancelledError:  # nothing here cancels it: it is that of aiokafka's own tasks
                self.refused += 1

    async def _live(self, until_s: float) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.errors import KafkaError

        group = self.group
        consumer = AIOKafkaConsumer(
            *group.topics,
            bootstrap_servers=group.servers,
            client_id=self.name,
            group_id=group.name,
            group_instance_id=self.instance_id,
            partition_assignment_strategy=(RoundRobinPartitionAssignor,),
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        try:
            await consumer.start()
        except KafkaError:  # no broker is there: the next life begins later
            await consumer.stop()
            await asyncio.sleep(POLL_S)
            return
        try:
            while not group.done.is_set() and time.monotonic() < until_s:
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST_AT_ONCE)
                assigned = consumer.assignment()
                for partition, records in found.items():
                    place = partition.topic, partition.partition
                    generation = NO_GENERATION
                    if partition in assigned:
                        generation = consumer._coordinator.generation
                    self._handed(generation, place, [(each.offset, each.value or b"") for each in records])
                if found:
                    try:
                        await consumer.commit()
                    except KafkaError:
                        self.refused += 1
        finally:
            await consumer.stop()


class GroupWatcher(ClientThread):
    """Asks how far a group has committed, again and again: no position may go back. When nobody writes any
    more and the group has committed everything, its members may stop."""

    def __init__(self, name: str, group: Group, recorder: Recorder) -> None:
        super().__init__(name, group.places[0], recorder)
        self.group = group

    def work(self) -> None:
        from confluent_kafka import Consumer

        settings = {
            "bootstrap.servers": self.group.servers,
            "client.id": self.name,
            "group.id": self.group.name,
            "enable.auto.commit": False,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        try:
            while not self._look(consumer):
                time.sleep(POLL_S)
            self.recorder.read_by_group(self.group.name, list(self.group.places))
        finally:
            self.group.done.set()
            consumer.close()

    def _look(self, consumer: "Consumer") -> bool:
        """Whether the group has read all."""
        from confluent_kafka import KafkaException, TopicPartition

        written = self.group.written.is_set()
        partitions = [TopicPartition(*place) for place in self.group.places]
        offsets: dict[Place, int] = {}
        # Its coordinator may be gone just now: there will be another one.
        with contextlib.suppress(KafkaException):
            for each in consumer.committed(partitions, ASK_S):
                if each.error is not None:
                    return False
                offsets[each.topic, each.partition] = max(each.offset, 0)
        if not offsets:
            return False
        for place, offset in offsets.items():
            self.recorder.position(self.group.name, place, offset, found=True)
        self.count = sum(offsets.values())
        if written:
            with contextlib.suppress(KafkaException):
                ends = {place: consumer.get_watermark_offsets(each, ASK_S)[1] for place, each in
                        zip(self.group.places, partitions, strict=True)}  # fmt: skip
                return offsets == ends
        return False
