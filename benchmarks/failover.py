"""Pauses of writes: after a leader was killed, frozen, stopped, moved or drained, or a leading controller
killed.

python -m benchmarks.failover [--cases REGEX] [--runs N] [--kernel pure|compiled|both] [--quick]
                                  [--markdown] [--rows]

A producer of our client writes 200 values a second to one partition of three replicas (`flush=disk`), each in
a bundle of its own. A pause is the time from the fault until the first acknowledgement of a value that was
sent after it; a gap is the longest time without any acknowledgement. Before the next fault all processes run
again, and all replicas are in sync. While a leader is frozen, produce requests wait in its sockets: when it
runs again, it must acknowledge none of them. At the end the topic is read, and must have every acknowledged
value, once and in order.
"""

import argparse
import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.harness import peers
from benchmarks.harness.display import Display
from benchmarks.harness.failover_scene import (
    REPLICAS,
    THAWED_VALUE,
    TOPIC,
    Kept,
    Scene,
    Writes,
    kept,
    stored,
    write,
)
from benchmarks.harness.local_cluster import ClusterFailed, LocalCluster, Process, running_cluster
from benchmarks.harness.peers import Peers
from benchmarks.harness.servers import Kernel, kernels
from benchmarks.harness.table import Reached, Row, dump, machine, show, spread, summary
from tank_client import Client, ClientSettings, Stored, TankError
from tank_client.model import Address
from tank_client.wire.data_operations import produce_request, read_produce, to_store
from tank_client.wire.transport import BrokerTransport, connect
from tank_protos.bundle import encode
from tank_protos.resolver import HostAddress

SESSION_S = 2.0
"""The session timeout: a broker that is silent for longer is fenced."""
FROZEN_S = 9.0
THAWED = 20
"""Requests that wait in a frozen leader's sockets."""
PATIENCE_S = 60.0
QUICK_RUNS = 3
BROKERS = 3
BROKERS_TO_DRAIN = 4
"""Draining a broker moves its replicas to brokers that don't have them yet."""


def hurt(process: Process, number: signal.Signals) -> float:
    """Sends a signal; returns the time before it."""
    since = time.monotonic()
    os.kill(process.pid, number)
    return since


async def kill_leader(scene: Scene) -> float:
    """`kill -9`."""
    since = hurt(await scene.leader(), signal.SIGKILL)
    return await scene.writes.pause_s(since)


async def itself(host: str) -> tuple[HostAddress, ...]:
    """Resolves an address to itself."""
    return ((socket.AF_INET, host),)


async def freeze_leader(scene: Scene) -> float:
    """SIGSTOP for longer than the session timeout; then the leader runs again, and finds requests that came
    meanwhile."""
    leader = await scene.leader()
    line = await connect(
        Address("127.0.0.1", leader.port), ClientSettings(), itself, ask=True,
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


async def is_acknowledged(line: BrokerTransport) -> bool:
    """Sends one more bundle; returns whether the broker acknowledges it."""
    bundle = to_store(TOPIC, 0, encode([THAWED_VALUE], timestamps=1))
    request, answer = produce_request(line.server, bundle, "bench")
    try:
        message = await line.ask(request, answer, PATIENCE_S * 1000, "produce to a frozen leader")
    except TankError:
        return False
    return isinstance(read_produce(message, bundle), Stored)


async def move_leader(scene: Scene) -> float:
    """Makes another replica the preferred leader; returns the longest gap until it has led for a second."""
    first, *others = await scene.replicas()
    order = ",".join(map(str, (*others, first)))
    since = time.monotonic()
    await asyncio.to_thread(scene.cluster.move, TOPIC, 0, order)
    await scene.await_other_leader(first, since)
    return await gap_s(scene, since)


async def drain_leader(scene: Scene) -> float:
    """Drains the broker that leads; returns the longest gap until a second after it is empty."""
    leader = await scene.leader()
    since = time.monotonic()
    try:
        await asyncio.to_thread(scene.cluster.drain, leader.number)
        await scene.await_other_leader(leader.number, since)
        return await gap_s(scene, since)
    finally:
        await asyncio.to_thread(scene.cluster.drain, leader.number, undo=True)


async def stop_leader(scene: Scene) -> float:
    """SIGTERM: the leader hands over its leaderships. Returns the longest gap until a second after its
    end."""
    leader = await scene.leader()
    since = hurt(leader, signal.SIGTERM)
    await scene.writes.pause_s(since)
    await asyncio.to_thread(leader.await_end, PATIENCE_S)
    return await gap_s(scene, since)


async def kill_controller(scene: Scene) -> float:
    """`kill -9` of the controllers' leader; returns the longest gap within three seconds."""
    since = hurt(await scene.leading_controller(), signal.SIGKILL)
    return await gap_s(scene, since, 3.0)


async def gap_s(scene: Scene, since: float, more_s: float = 1.0) -> float:
    """Waits `more_s`; returns the longest gap since `since`."""
    await asyncio.sleep(more_s)
    return scene.writes.longest_gap_s(since, time.monotonic())


async def change_after_controller(scene: Scene) -> float:
    """`kill -9` of the controllers' leader; returns the time until a topic is created."""
    since = hurt(await scene.leading_controller(), signal.SIGKILL)
    await scene.client.admin.create_topic(f"after-{since * 1000:.0f}", 1, REPLICAS)
    return time.monotonic() - since


Fault = Callable[[Scene], Awaitable[float]]


@dataclass(slots=True, frozen=True)
class Case:
    """One kind of fault, and its bar."""

    name: str
    fault: Fault
    runs: int
    median_s: float
    """The median is to be below this; without `worst_s` every pause is."""
    worst_s: float | None = None
    recorded: Peers | None = None
    brokers: int = BROKERS

    @property
    def bar(self) -> str:
        if self.worst_s is None:
            return f"< {self.median_s * 1000:,.0f} ms"
        return f"median < {self.median_s * 1000:,.0f} ms, worst < {self.worst_s * 1000:,.0f}"

    def row(self, pauses: Sequence[float], kernel: Kernel) -> Row:
        """The row of the table; without any pause it says that the case failed."""
        if not pauses:
            return Row(self.name, "failed", self.bar, Reached.NO, kernel)
        middle, worst = sorted(pauses)[len(pauses) // 2], max(pauses)
        if self.worst_s is None:
            reached = Reached.of(pause < self.median_s for pause in pauses)
        else:
            reached = Reached.of([middle < self.median_s and worst < self.worst_s])
        return Row(
            f"{self.name}, {len(pauses)} runs", f"{spread([1000 * pause for pause in pauses], 0)} ms",
            self.bar, reached, kernel, recorded=self.recorded.beside(middle) if self.recorded else "",
            values=tuple(1000 * pause for pause in pauses),
        )  # fmt: skip


CASES = (
    Case("leader kill -9 → next write", kill_leader, 20, 0.5, 1.0, peers.KILLED_S),
    Case("leader frozen → next write", freeze_leader, 3, SESSION_S + 0.5),
    Case("leader stopped in order: longest gap", stop_leader, 10, 0.1),
    Case("leader moved in order: longest gap", move_leader, 10, 0.1),
    Case("controllers' leader kill -9: longest gap", kill_controller, 10, 0.1),
    Case("controllers' leader kill -9 → next change", change_after_controller, 10, 2.0),
    Case("leader drained: longest gap", drain_leader, 5, 0.1, brokers=BROKERS_TO_DRAIN),
)


@dataclass(slots=True)
class Totals:
    """The sums over all clusters of one kernel."""

    acknowledged: int = 0
    failed: int = 0
    kept: Kept = field(default_factory=lambda: Kept(0, 0, 0))
    unread: int = 0
    """The number of clusters whose topic could not be read at the end."""
    thawed_asked: int = 0
    thawed_acknowledged: int = 0

    def rows(self, kernel: Kernel) -> list[Row]:
        """The rows of counts that must be 0."""
        of = f"of {self.acknowledged:,}"
        found = [("writes that failed meanwhile", self.failed, of, "")]
        if self.thawed_asked:
            asked = f"of {self.thawed_asked}"
            found.append(("writes that thawed leaders acknowledged", self.thawed_acknowledged, asked, ""))
        if not self.unread:
            found += [
                ("values acknowledged and lost", self.kept.lost, of, peers.LOST.beside(0)),
                ("values stored twice", self.kept.repeated, of, ""),
                ("values out of order", self.kept.out_of_order, of, peers.OUT_OF_ORDER.beside(0)),
            ]
        rows = [
            Row(name, f"{count} {out_of}", "0", Reached.of([not count]), kernel, recorded=recorded,
                values=(count,))
            for name, count, out_of, recorded in found
        ]  # fmt: skip
        if self.unread:
            rows.append(Row("values acknowledged and lost", "failed", "0", Reached.NO, kernel))
        return rows


async def measure(
    cluster: LocalCluster, cases: Sequence[Case], runs: int | None, totals: Totals, display: Display
) -> list[Row]:
    """Measures these cases, each `runs` times; a failed one gets a row that says so, and the others go on."""
    async with Client(cluster.servers) as client:
        await client.admin.create_topic(TOPIC, 1, REPLICAS, {"flush": "disk"})
        writes, stopping = Writes(), asyncio.Event()
        writing = asyncio.create_task(write(client, writes, stopping))
        scene = Scene(cluster, client, writes)
        rows = [await measured(scene, case, min(case.runs, runs or case.runs), display) for case in cases]
        stopping.set()
        await writing
        totals.acknowledged += len(writes.numbers)
        totals.failed += writes.failed
        totals.thawed_asked += scene.thawed_asked
        totals.thawed_acknowledged += scene.thawed_acknowledged
        try:
            await scene.whole()
            totals.kept += kept(writes.numbers, await stored(client))
        except (ClusterFailed, TankError) as failure:
            display.say(f"FAILED to read the topic: {failure}")
            totals.unread += 1
    return rows


async def measured(scene: Scene, case: Case, runs: int, display: Display) -> Row:
    """Measures one case."""
    display.begin(f"{case.name}, {runs} runs")
    pauses: list[float] = []
    try:
        for _ in range(runs):
            await scene.whole()
            pauses.append(await case.fault(scene))
            display.ran()
    except (ClusterFailed, TankError) as failure:
        display.say(f"FAILED {case.name}, run {len(pauses) + 1}: {failure}")
        display.ran(runs - len(pauses))
        pauses = []
    row = case.row(pauses, scene.cluster.kernel)
    display.say(f"{row.name}: {row.figure}")
    return row


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.failover", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--cases", default="", help="a regular expression: those whose names it is found in")
    most = ", ".join(f"{case.runs}" for case in CASES)
    parser.add_argument("--runs", type=int, help=f"of each fault, at most ({most})")
    parser.add_argument("--kernel", choices=[*Kernel, "both"], default="compiled")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument(
        "--rows", action="store_true", help="print the rows as JSON, for `make bench-cluster`"
    )
    given = parser.parse_args()
    runs = given.runs or (QUICK_RUNS if given.quick else None)
    cases = [case for case in CASES if re.search(given.cases, case.name)]
    names = kernels(given.kernel)
    rows: list[Row] = []
    with ExitStack() as stack:
        display = Display(len(names) * sum(min(case.runs, runs or case.runs) for case in cases), stack)
        for kernel in names:
            totals = Totals()
            for brokers in sorted({case.brokers for case in cases}):
                some = [case for case in cases if case.brokers == brokers]
                display.begin(f"starting {brokers} brokers")
                try:
                    with running_cluster(kernel, brokers=brokers) as cluster:
                        rows += asyncio.run(measure(cluster, some, runs, totals, display))
                except (ClusterFailed, TankError) as failure:
                    display.say(f"FAILED with {brokers} brokers: {failure}")
                    rows += [case.row([], kernel) for case in some]
            rows += totals.rows(kernel)
    if given.rows:
        dump(rows, HOW)
        return
    show(f"Pauses of writes. {HOW}. {machine()}. {summary(rows)}", rows, markdown=given.markdown)


HOW = "200 values a second to one partition of three replicas, flush=disk, a session of 2 s"

if __name__ == "__main__":
    main()
