"""The scene of `benchmarks.failover`: a cluster, a producer that writes to it all the time, and the fate of
each of its values."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.harness.local_cluster import ClusterFailed, LocalCluster, Process
from tank_client import Client, ProducerSettings, TankError

TOPIC = "failover"
REPLICAS = 3
VALUE_BYTES = 100
PACE_S = 0.005
PATIENCE_S = 60.0


@dataclass(slots=True)
class Writes:
    """The times at which values were sent, one each 5 ms, and acknowledged; seconds of the monotonic
    clock."""

    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    """(sent, acknowledged), in the order of the acknowledgements."""
    numbers: list[int] = field(default_factory=list)
    """The numbers of the acknowledged values, in the same order."""
    sent: int = 0
    failed: int = 0

    async def pause_s(self, since: float) -> float:
        """The time from `since` to the first acknowledgement of a value that was sent after it.
        ClusterFailed."""
        at = len(self.acknowledged)
        while time.monotonic() < since + PATIENCE_S:
            while at < len(self.acknowledged):
                sent, acknowledged = self.acknowledged[at]
                if sent >= since:
                    return acknowledged - since
                at += 1
            await asyncio.sleep(PACE_S)
        raise ClusterFailed(f"nothing was written for {PATIENCE_S:.0f} s after a fault")

    def longest_gap_s(self, since: float, until: float) -> float:
        """The longest time without an acknowledgement between these moments, their ends included."""
        times = [acknowledged for _, acknowledged in self.acknowledged if since < acknowledged < until]
        return max(later - earlier for earlier, later in pairwise([since, *times, until]))


@dataclass(slots=True, frozen=True)
class Kept:
    """Counts of values that the topic should have at the end, but doesn't, or not once and in order."""

    lost: int
    """Acknowledged, and not in the topic."""
    repeated: int
    """More than once in the topic."""
    out_of_order: int
    """Behind a value that was sent later."""

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(
            self.lost + other.lost,
            self.repeated + other.repeated,
            self.out_of_order + other.out_of_order,
        )


def kept(acknowledged: Sequence[int], stored: Sequence[int]) -> Kept:
    """Compares the acknowledged values with the stored ones, which are in the topic's order."""
    often = Counter(stored)
    most, behind = -1, 0
    for number in stored:
        behind += number < most
        most = max(most, number)
    return Kept(
        lost=sum(number not in often for number in set(acknowledged)),
        repeated=sum(count > 1 for count in often.values()),
        out_of_order=behind,
    )


def value_of(number: int) -> bytes:
    """The value with this number."""
    return b"%0*d" % (VALUE_BYTES, number)


async def write(client: Client, writes: Writes, stopping: asyncio.Event) -> None:
    """Writes values until `stopping` is set."""
    producer = client.producer(ProducerSettings(linger_ms=0, delivery_timeout_ms=30_000))
    waiting: set[asyncio.Task[None]] = set()

    async def one(sent: float, number: int) -> None:
        try:
            await (await producer.send(TOPIC, value_of(number), partition=0))
        except TankError:
            writes.failed += 1
        else:
            writes.acknowledged.append((sent, time.monotonic()))
            writes.numbers.append(number)

    while not stopping.is_set():
        task = asyncio.create_task(one(time.monotonic(), writes.sent))
        writes.sent += 1
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        await asyncio.sleep(PACE_S)
    if waiting:
        await asyncio.wait(waiting, timeout=PATIENCE_S)
    producer.abort()


async def stored(client: Client) -> list[int]:
    """The numbers of all values in the topic, in its order."""
    found = []
    async with client.consumer(TOPIC, stop_at_end=True) as consumer:
        async for batch in consumer:
            found += [int(value) for value in batch.values if value is not None and value != THAWED_VALUE]
    return found


THAWED_VALUE = b"thawed"
"""The value of the requests that wait in a frozen leader's sockets."""


@dataclass(slots=True)
class Scene:
    """A cluster, a client that writes to it, and clients that observe it."""

    cluster: LocalCluster
    client: Client
    writes: Writes
    thawed_asked: int = 0
    thawed_acknowledged: int = 0
    """Requests acknowledged by leaders that had been frozen, and were replaced."""

    async def leader(self) -> Process:
        """The broker that leads the partition. ClusterFailed: none does."""
        number = await self._leading()
        for broker in self.cluster.brokers:
            if broker.number == number:
                return broker
        raise ClusterFailed(f"no broker leads {TOPIC}/0")

    async def await_other_leader(self, than: int, since: float) -> None:
        """Waits until a broker other than `than` leads; no broker may lead meanwhile. ClusterFailed: none
        does."""
        while (leading := await self._leading()) in (than, None):
            if time.monotonic() > since + PATIENCE_S:
                raise ClusterFailed(f"broker {than} still leads" if leading else f"no broker leads {TOPIC}/0")
            await asyncio.sleep(PACE_S)

    async def _leading(self) -> int | None:
        (topic,) = await self.client.admin.describe_topics([TOPIC])
        return topic.partitions[0].leader

    async def replicas(self) -> tuple[int, ...]:
        """The brokers that hold the partition, the preferred leader first."""
        (topic,) = await self.client.admin.describe_topics([TOPIC])
        return tuple(topic.partitions[0].replicas)

    async def leading_controller(self) -> Process:
        """ClusterFailed: none leads."""
        return await asyncio.to_thread(self.cluster.leading_controller)

    async def whole(self) -> None:
        """Starts processes that don't run, and waits until every replica is in sync and the preferred one
        leads, so that this doesn't happen during a measurement. ClusterFailed."""
        await asyncio.to_thread(self.cluster.up)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(TankError):
                (topic,) = await self.client.admin.describe_topics([TOPIC])
                partition = topic.partitions[0]
                if len(partition.in_sync) == REPLICAS and partition.leader == partition.replicas[0]:
                    await asyncio.sleep(0.5)
                    return
            await asyncio.sleep(0.1)
        raise ClusterFailed("not every replica is in sync, or the preferred one doesn't lead")
