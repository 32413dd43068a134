"""How long nobody can write: the leader killed, frozen, stopped, moved; the controllers' leader killed.

    python -m benchmarks.failover [--cases REGEX] [--runs N] [--kernel pure|compiled|both] [--quick]
                                  [--markdown] [--rows]

A producer of our client writes 200 values a second to one partition of three replicas (`flush=disk`), each in
a bundle of its own. A pause is the time from the fault until the first acknowledgement of a value that was
sent after it. The cluster is whole again before the next fault. While a leader is frozen, requests to write
wait in its sockets, too: thawed, it must acknowledge none of them.
"""

import argparse
import asyncio
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.local_cluster import ClusterFailed, LocalCluster, Process, running_cluster
from benchmarks.servers import Kernel, kernels
from benchmarks.table import Reached, Row, dump, machine, show, spread, summary
from tank_client import Client, ClientSettings, ProducerSettings, Stored, TankError
from tank_client.data_operations import produce_request, read_produce, to_store
from tank_client.model import Address
from tank_client.transport import Transport, connect
from tank_protos.bundle import encode

TOPIC = "failover"
REPLICAS = 3
PACE_S = 0.005
SESSION_S = 6.0
"""A broker that is silent for so long is fenced."""
FROZEN_S = 9.0
THAWED = 20
"""Requests that wait in a frozen leader's sockets."""
PATIENCE_S = 60.0
RUNS, QUICK_RUNS = 20, 3
FROZEN_RUNS = 3
"""Each costs a session."""


@dataclass(slots=True)
class Writes:
    """One value each 5 ms, and when it was acknowledged; seconds of the monotonic clock."""

    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    """(sent, acknowledged), in the order of the acknowledgements."""
    failed: int = 0

    async def pause_s(self, since: float) -> float:
        """From `since` to the first acknowledgement of what was sent after it. ClusterFailed."""
        at = len(self.acknowledged)
        while time.monotonic() < since + PATIENCE_S:
            while at < len(self.acknowledged):
                sent, acknowledged = self.acknowledged[at]
                if sent >= since:
                    return acknowledged - since
                at += 1
            await asyncio.sleep(PACE_S)
        raise ClusterFailed(f"nothing was written for {PATIENCE_S:.0f} s after a fault")

    def longest_gap_s(self, since: float) -> float:
        """Between two acknowledgements next to each other, from `since` on."""
        times = [acknowledged for _, acknowledged in self.acknowledged if acknowledged >= since]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


async def write(client: Client, writes: Writes, stopping: asyncio.Event) -> None:
    """Until it is told to stop."""
    producer = client.producer(ProducerSettings(linger_ms=0, delivery_timeout_ms=30_000))
    waiting: set[asyncio.Task[None]] = set()

    async def one(sent: float) -> None:
        try:
            await (await producer.send(TOPIC, b"x" * 100, partition=0))
            writes.acknowledged.append((sent, time.monotonic()))
        except TankError:
            writes.failed += 1

    while not stopping.is_set():
        task = asyncio.create_task(one(time.monotonic()))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        await asyncio.sleep(PACE_S)
    if waiting:
        await asyncio.wait(waiting, timeout=PATIENCE_S)
    producer.abort()


@dataclass(slots=True)
class Scene:
    """A cluster, and clients that write to it and look at it."""

    cluster: LocalCluster
    client: Client
    writes: Writes
    thawed_asked: int = 0
    thawed_acknowledged: int = 0
    """By leaders that had been frozen, and led no longer."""

    async def leader(self) -> Process:
        """The broker that leads the partition."""
        (topic,) = await self.client.admin.describe_topics([TOPIC])
        return next(b for b in self.cluster.brokers if b.number == topic.partitions[0].leader)

    async def replicas(self) -> tuple[int, ...]:
        """The brokers that hold the partition, the preferred leader first."""
        (topic,) = await self.client.admin.describe_topics([TOPIC])
        return tuple(topic.partitions[0].replicas)

    async def leading_controller(self) -> Process:
        """ClusterFailed: none leads."""
        for controller in self.cluster.processes("controller"):
            if await asyncio.to_thread(self.cluster.leads, controller):
                return controller
        raise ClusterFailed("no controller leads")

    async def whole(self) -> None:
        """Starts what doesn't run, and waits until every replica is in sync, and the preferred one leads
        again: that is not to happen in the middle of a measurement. ClusterFailed."""
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


def hurt(process: Process, number: signal.Signals) -> float:
    """Sends a signal; the moment before."""
    since = time.monotonic()
    os.kill(process.pid, number)
    return since


async def kill_leader(scene: Scene) -> float:
    """`kill -9`."""
    since = hurt(await scene.leader(), signal.SIGKILL)
    return await scene.writes.pause_s(since)


async def freeze_leader(scene: Scene) -> float:
    """SIGSTOP for longer than a session; then it finds requests that came meanwhile."""
    leader = await scene.leader()
    line = await connect(
        Address("127.0.0.1", leader.port), ClientSettings(), ask=True,
        on_end=lambda transport, lost: None, on_silence=lambda transport: None,
    )  # fmt: skip
    since = hurt(leader, signal.SIGSTOP)
    try:
        pause_s = await scene.writes.pause_s(since)
        asked = [asyncio.create_task(is_acknowledged(line)) for _ in range(THAWED)]
        await asyncio.sleep(max(0.0, since + FROZEN_S - time.monotonic()))
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    scene.thawed_asked += THAWED
    scene.thawed_acknowledged += sum(await asyncio.gather(*asked))
    line.close()
    return pause_s


async def is_acknowledged(line: Transport) -> bool:
    """Whether the broker at the other end says that it has stored one more bundle."""
    bundle = to_store(TOPIC, 0, encode([b"thawed"], timestamps=1))
    request, answer = produce_request(line.server, bundle, "bench")
    try:
        message = await line.ask(request, answer, PATIENCE_S * 1000, "produce to a frozen leader")
    except TankError:
        return False
    return isinstance(read_produce(message, bundle), Stored)


async def move_leader(scene: Scene) -> float:
    """Another replica becomes the preferred leader: the longest gap until it has led for a second."""
    first, *others = await scene.replicas()
    order = ",".join(map(str, (*others, first)))
    since = time.monotonic()
    await asyncio.to_thread(scene.cluster.move, TOPIC, 0, order)
    while (await scene.leader()).number != others[0]:
        if time.monotonic() > since + PATIENCE_S:
            raise ClusterFailed(f"broker {others[0]} doesn't take over")
        await asyncio.sleep(PACE_S)
    await asyncio.sleep(1.0)
    return scene.writes.longest_gap_s(since)


async def stop_leader(scene: Scene) -> float:
    """SIGTERM: it hands over what it leads. The longest gap until it has ended, and a second more."""
    leader = await scene.leader()
    since = hurt(leader, signal.SIGTERM)
    await scene.writes.pause_s(since)
    await asyncio.to_thread(leader.await_end, PATIENCE_S)
    await asyncio.sleep(1.0)
    return scene.writes.longest_gap_s(since)


async def kill_controller(scene: Scene) -> float:
    """`kill -9` of the controllers' leader: the longest gap within three seconds."""
    since = hurt(await scene.leading_controller(), signal.SIGKILL)
    await asyncio.sleep(3.0)
    return scene.writes.longest_gap_s(since)


async def change_after_controller(scene: Scene) -> float:
    """From `kill -9` of the controllers' leader until a topic is made."""
    since = hurt(await scene.leading_controller(), signal.SIGKILL)
    await scene.client.admin.create_topic(f"after-{since * 1000:.0f}", 1, REPLICAS)
    return time.monotonic() - since


Fault = Callable[[Scene], Awaitable[float]]
OTHERS = "Kafka 8.7 s, NATS 5.9, RabbitMQ 5.2, C++ TANK 11.4"
"""Medians of runs recorded on such a machine."""


@dataclass(slots=True, frozen=True)
class Case:
    """One kind of fault, and what it shall reach."""

    name: str
    fault: Fault
    median_s: float
    """The median is to be below; without `worst_s` all of them."""
    worst_s: float | None = None
    frozen: bool = False
    recorded: str = ""

    def row(self, pauses: list[float], kernel: Kernel) -> Row:
        worst = max(pauses)
        if self.worst_s is None:
            bar, reached = f"< {self.median_s * 1000:,.0f} ms", worst < self.median_s
        else:
            middle = sorted(pauses)[len(pauses) // 2]
            bar = f"median < {self.median_s * 1000:,.0f} ms, worst < {self.worst_s * 1000:,.0f}"
            reached = middle < self.median_s and worst < self.worst_s
        figure = f"{spread([1000 * pause for pause in pauses], 0)} ms"
        return Row(self.name, figure, bar, Reached.of([reached]), kernel, recorded=self.recorded)


CASES = (
    Case("leader kill -9 → next write", kill_leader, 0.5, 1.0, recorded=OTHERS),
    Case("leader frozen → next write", freeze_leader, SESSION_S + 0.5, frozen=True),
    Case("leader stopped in order: longest gap", stop_leader, 0.1),
    Case("leader moved in order: longest gap", move_leader, 0.1),
    Case("controllers' leader kill -9: longest gap", kill_controller, 0.1),
    Case("controllers' leader kill -9 → next change", change_after_controller, 2.0),
)


async def measure(cluster: LocalCluster, cases: Sequence[Case], runs: int) -> list[Row]:
    """These cases, so often each."""
    async with Client(cluster.servers) as client:
        await client.admin.create_topic(TOPIC, 1, REPLICAS, {"flush": "disk"})
        writes, stopping = Writes(), asyncio.Event()
        writing = asyncio.create_task(write(client, writes, stopping))
        scene = Scene(cluster, client, writes)
        rows = []
        for case in cases:
            pauses = []
            for _ in range(min(runs, FROZEN_RUNS) if case.frozen else runs):
                await scene.whole()
                pauses.append(await case.fault(scene))
            rows.append(case.row(pauses, cluster.kernel))
        stopping.set()
        await writing
        return [
            *rows,
            Row(
                "writes that thawed leaders acknowledged",
                f"{scene.thawed_acknowledged} of {scene.thawed_asked}",
                "0", Reached.of([not scene.thawed_acknowledged]), cluster.kernel,
            ),
            Row(
                "writes that failed meanwhile", str(writes.failed), "0",
                Reached.of([not writes.failed]), cluster.kernel,
            ),
        ]  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.failover", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--cases", default="", help="a regular expression: those whose names it is found in")
    parser.add_argument("--runs", type=int, help=f"of each fault ({RUNS})")
    parser.add_argument("--kernel", choices=[*Kernel, "both"], default="compiled")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument(
        "--rows", action="store_true", help="print the rows as JSON, for `make bench-cluster`"
    )
    given = parser.parse_args()
    runs = given.runs or (QUICK_RUNS if given.quick else RUNS)
    cases = [case for case in CASES if re.search(given.cases, case.name)]
    rows: list[Row] = []
    for kernel in kernels(given.kernel):
        try:
            with running_cluster(kernel) as cluster:
                rows += asyncio.run(measure(cluster, cases, runs))
        except (ClusterFailed, TankError) as failure:
            raise SystemExit(f"FAILED {failure}") from None
    if given.rows:
        dump(rows)
        return
    show(f"Pauses of writes. {machine()}. {summary(rows)}", rows, markdown=given.markdown)


if __name__ == "__main__":
    main()
