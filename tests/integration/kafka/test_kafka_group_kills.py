"""`kill -9` of the coordinator of a group of stock consumers: its members go on with another one."""

import asyncio
import threading
import time
from abc import abstractmethod
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.stock_groups import ROUND_ROBIN, generation_in
from tests.support.groups.coordinator import coordinator_of
from tests.support.processes.cluster import running_cluster
from tests.support.waiting import until

pytest.importorskip("confluent_kafka")
pytest.importorskip("aiokafka")

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

TOPIC, GROUP = "orders", "billing"
PARTITIONS = 3
PAUSE_S = 0.02
MOST_AT_ONCE = 100
POLL_S = 0.1
PATIENCE_S = 60
COMMITS = 10
"""Of each member, before and after."""


class Writer(threading.Thread):
    """A record into each partition, again and again."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self.enough = threading.Event()

    def run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._servers, "log_level": 0})
        while not self.enough.wait(PAUSE_S):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"%.3f" % time.time(), partition=partition)
            producer.poll(0)
        producer.flush(PATIENCE_S)


class Member(threading.Thread):
    """A consumer that commits all that it is given."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.servers = servers
        self.enough = threading.Event()
        self.kept: dict[int, int] = {}
        """By partition: the offset whose commit was acknowledged last."""
        self.commits: list[tuple[float, int]] = []
        """When each commit was acknowledged, and in which generation."""

    def keep(self, generation: int, offsets: dict[int, int]) -> None:
        """A commit was acknowledged."""
        self.kept |= offsets
        self.commits.append((time.monotonic(), generation))

    def commits_since(self, moment_s: float) -> list[tuple[float, int]]:
        return [each for each in self.commits if each[0] > moment_s]

    @abstractmethod
    def run(self) -> None: ...


class LibrdkafkaMember(Member):
    def run(self) -> None:
        from confluent_kafka import Consumer, KafkaException

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": GROUP,
                "partition.assignment.strategy": ROUND_ROBIN,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        while not self.enough.is_set():
            messages = [each for each in consumer.consume(MOST_AT_ONCE, POLL_S) if each.error() is None]
            generation = generation_in(consumer.consumer_group_metadata())
            try:
                found = consumer.commit(asynchronous=False) if messages else None
            except KafkaException:
                continue
            if found:
                self.keep(generation, {each.partition: each.offset for each in found if each.error is None})
        consumer.close()


class AiokafkaMember(Member):
    def run(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.errors import KafkaError

        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=self.servers,
            group_id=GROUP,
            session_timeout_ms=45_000,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        while not self.enough.is_set():
            found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST_AT_ONCE)
            offsets = {partition: records[-1].offset + 1 for partition, records in found.items() if records}
            if offsets:
                generation = consumer._coordinator.generation
                try:
                    await consumer.commit(offsets)
                except KafkaError:
                    continue
                self.keep(generation, {each.partition: offset for each, offset in offsets.items()})
        await consumer.stop()


KINDS: Final[tuple[type[Member], ...]] = (LibrdkafkaMember, LibrdkafkaMember, AiokafkaMember)


def are_settled(members: list[Member], since_s: float) -> bool:
    """Whether all have committed since then, in one generation."""
    commits = [member.commits_since(since_s) for member in members]
    numbers = {generation for each in commits for _, generation in each[-COMMITS:]}
    return all(len(each) >= COMMITS for each in commits) and len(numbers) == 1


def committed(servers: str) -> dict[int, int]:
    """By partition."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    try:
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        return {each.partition: each.offset for each in consumer.committed(places, PATIENCE_S)}
    finally:
        consumer.close()


@pytest.mark.long
def test_members_go_on_without_a_rebalance_and_no_commit_is_lost(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", str(PARTITIONS), "--format", "kafka")
        servers = ",".join(str(broker.addresses["kafka"]) for broker in cluster.processes("broker"))
        writer = Writer(servers)
        members: list[Member] = [kind(servers) for kind in KINDS]
        for thread in (writer, *members):
            thread.start()
        began = time.monotonic()
        until(lambda: are_settled(members, began), "the members don't share the topic", PATIENCE_S)
        generation = members[0].commits[-1][1]

        number = coordinator_of(GROUP, cluster)
        (victim,) = [each for each in cluster.processes("broker") if each.number == number]
        killed = time.monotonic()
        victim.kill()
        until(lambda: are_settled(members, killed), "the members don't go on", PATIENCE_S)
        waits = sorted(member.commits_since(killed + 0.001)[0][0] - killed for member in members)
        print(f"the first commits after the kill: {', '.join(f'{wait:.2f}' for wait in waits)} s")
        after = {number for member in members for _, number in member.commits_since(killed)}
        assert after == {generation}, "no member joined again"
        assert coordinator_of(GROUP, cluster, without=number) != number

        for member in members:
            member.enough.set()
        for member in members:
            member.join(PATIENCE_S)
            assert not member.is_alive()
        kept: dict[int, int] = {}
        for member in members:
            for partition, offset in member.kept.items():
                kept[partition] = max(kept.get(partition, 0), offset)
        assert committed(servers) == kept
        writer.enough.set()
        writer.join(PATIENCE_S)
        cluster.up()
