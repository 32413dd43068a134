"""Metadata in a cluster of processes: how soon a new topic is usable, what partitions cost idle, commits.

    python -m benchmarks.cluster_metadata [--kernel pure|compiled|both] [--quick] [--markdown] [--rows]

Three controllers, three brokers, topics of three replicas. A topic is usable when every broker names the
leaders of all its partitions, and a value has been acknowledged in each of them (`flush=disk`). Commits are
counted at the controllers: 64 streams, as brokers have them, propose one command after the other, and each is
on the disks of a majority before it is answered.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

import grpc.aio

from benchmarks.local_cluster import ClusterFailed, LocalCluster, Process, running_cluster
from benchmarks.servers import Kernel, kernels
from benchmarks.table import Reached, Row, dump, machine, show, spread, summary
from tank_client import Client, ProducerSettings, TankError
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import BrokersStub

REPLICAS = 3
PARTITIONS = 100
TOPICS, QUICK_TOPICS = 10, 3
"""How many are made, one after the other."""
MANY_TOPICS, MANY_PARTITIONS = 10, 1_000
IDLE_S, QUICK_IDLE_S = 10.0, 4.0
SETTLE_S = 5.0
STREAMS = 64
COMMITS_S, QUICK_COMMITS_S = 5.0, 2.0
ROUNDS, QUICK_ROUNDS = 3, 1
FIRST_STREAM = 1_000
"""The broker id of the first stream that proposes: no real broker has it."""
PATIENCE_S = 120.0
PACE_S = 0.002


class Bench:
    """One cluster, and clients of each of its brokers."""

    def __init__(self, cluster: LocalCluster, client: Client, each: list[Client], *, quick: bool) -> None:
        self.cluster, self.client, self.each, self.quick = cluster, client, each, quick

    async def rows(self) -> list[Row]:
        """All measurements; that comes last which leaves registrations of brokers behind that are none."""
        topics, idle = await self._usable(), await self._idle()
        commits = [await self._commits(number) for number in range(QUICK_ROUNDS if self.quick else ROUNDS)]
        return [topics, *idle, _commits_row(commits, self.cluster.kernel)]

    # --- a new topic ---

    async def _usable(self) -> Row:
        taken_ms = []
        async with self.client.producer(ProducerSettings(linger_ms=0)) as producer:
            for number in range(QUICK_TOPICS if self.quick else TOPICS):
                topic = f"usable-{number}"
                began = time.monotonic()
                await self.client.admin.create_topic(topic, PARTITIONS, REPLICAS, {"flush": "disk"})
                named = asyncio.gather(*(_named(client, topic, PARTITIONS) for client in self.each))
                sent = [await producer.send(topic, b"x", partition=at) for at in range(PARTITIONS)]
                await asyncio.gather(named, *sent)
                taken_ms.append((time.monotonic() - began) * 1000)
                await self.client.admin.delete_topic(topic)
                await asyncio.sleep(1.0)
        return Row(
            f"topic of {PARTITIONS} partitions → usable on every broker", f"{spread(taken_ms, 0)} ms",
            "< 300 ms", Reached.of(ms < 300 for ms in taken_ms), self.cluster.kernel,
        )  # fmt: skip

    # --- commits ---

    async def _commits(self, number: int) -> float:
        """A second, of all streams together."""
        leader = await asyncio.to_thread(_leading, self.cluster)
        channel = grpc.aio.insecure_channel(leader.address)
        async with channel:
            streams = [Proposer(channel, FIRST_STREAM + number * STREAMS + at) for at in range(STREAMS)]
            await asyncio.gather(*(stream.register() for stream in streams))
            ending = asyncio.Event()
            working = [asyncio.create_task(stream.propose(ending)) for stream in streams]
            await asyncio.sleep(0.5)
            before, began = sum(stream.commits for stream in streams), time.monotonic()
            await asyncio.sleep(QUICK_COMMITS_S if self.quick else COMMITS_S)
            after, ended = sum(stream.commits for stream in streams), time.monotonic()
            ending.set()
            await asyncio.gather(*working)
        return (after - before) / (ended - began)

    # --- many partitions ---

    async def _idle(self) -> list[Row]:
        topics = [f"many-{number}" for number in range(1 if self.quick else MANY_TOPICS)]
        for topic in topics:
            await self.client.admin.create_topic(topic, MANY_PARTITIONS, REPLICAS)
            await asyncio.gather(*(_named(client, topic, MANY_PARTITIONS) for client in self.each))
        partitions = MANY_PARTITIONS * len(topics)
        await asyncio.sleep(SETTLE_S)
        seconds = QUICK_IDLE_S if self.quick else IDLE_S
        processes = self.cluster.processes()
        before = [process.cpu_s() for process in processes]
        await asyncio.sleep(seconds)
        percent = {
            process: 100 * (process.cpu_s() - cpu_s) / seconds
            for process, cpu_s in zip(processes, before, strict=True)
        }
        return [
            row
            for role, most_percent, most_mib in (("broker", 5, None), ("controller", None, 150))
            for row in self._of_role(role, partitions, percent, most_percent, most_mib)
        ]

    def _of_role(
        self,
        role: str,
        partitions: int,
        percent: dict[Process, float],
        most_percent: int | None,
        most_mib: int | None,
    ) -> Iterator[Row]:
        kernel = self.cluster.kernel
        busy = [value for process, value in percent.items() if process.role == role]
        yield Row(
            f"{partitions:,} partitions: CPU of an idle {role}", f"{spread(busy, 1)} %",
            f"< {most_percent} %" if most_percent else "",
            Reached.of([max(busy) < most_percent]) if most_percent else None, kernel,
        )  # fmt: skip
        mib = [process.resident_bytes() / (1 << 20) for process in percent if process.role == role]
        yield Row(
            f"{partitions:,} partitions: memory of a {role}", f"{spread(mib, 0)} MiB",
            f"≤ {most_mib} MiB" if most_mib else "",
            Reached.of([max(mib) <= most_mib]) if most_mib else None, kernel,
        )  # fmt: skip


class Proposer:
    """A stream to the controller that leads, as a broker has one, with one proposal under way at a time."""

    def __init__(self, channel: grpc.aio.Channel, broker_id: int) -> None:
        self.commits = 0
        self._broker_id = broker_id
        self._call = BrokersStub(channel).Session()

    async def register(self) -> None:
        """ClusterFailed: it isn't taken."""
        broker = pb.RegisterBroker(
            broker_id=self._broker_id,
            incarnation=self._broker_id.to_bytes(16, "big"),
            disk_uuid=self._broker_id.to_bytes(16, "big"),
            tail_sure=True,
            endpoints=[pb.Endpoint(name="tank", host="127.0.0.1", port=self._broker_id)],
            replicates=True,
        )
        await self._call.write(pb.BrokerUp(register=pb.BrokerRegister(broker=broker)))
        await self._answer("registered")

    async def propose(self, ending: asyncio.Event) -> None:
        """One command after the other, until told to end."""
        while not ending.is_set():
            command = pb.Command(now_ms=int(time.time() * 1000), init_producer=pb.InitProducer())
            proposal = pb.BrokerProposal(request_id=self.commits + 1, command=command)
            await self._call.write(pb.BrokerUp(proposal=proposal))
            answer = await self._answer("outcome")
            if answer.outcome.error:
                raise ClusterFailed(f"a command was refused: {answer.outcome.message}")
            self.commits += 1
        await self._call.done_writing()

    async def _answer(self, kind: str) -> pb.BrokerDown:
        while (message := await self._call.read()) is not grpc.aio.EOF:
            if message.WhichOneof("message") == kind:
                found: pb.BrokerDown = message
                return found
        raise ClusterFailed("the controllers' leader ended a stream")


def _commits_row(commits_s: list[float], kernel: Kernel) -> Row:
    return Row(
        f"controllers' commits of {STREAMS} streams, fsync", f"{spread(commits_s, 0)} /s", "≥ 2,000 /s",
        Reached.of(value >= 2_000 for value in commits_s), kernel,
    )  # fmt: skip


def _leading(cluster: LocalCluster) -> Process:
    """ClusterFailed: no controller leads."""
    for controller in cluster.processes("controller"):
        if cluster.leads(controller):
            return controller
    raise ClusterFailed("no controller leads")


async def _named(client: Client, topic: str, partitions: int) -> None:
    """Returns when the client's broker names the leaders of so many partitions. ClusterFailed."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(TankError):
            (described,) = await client.admin.describe_topics([topic])
            if sum(partition.leader is not None for partition in described.partitions) == partitions:
                return
        await asyncio.sleep(PACE_S)
    raise ClusterFailed(f"a broker doesn't know the leaders of {topic}")


async def measure(cluster: LocalCluster, *, quick: bool) -> list[Row]:
    """All rows of one kernel."""
    each = [Client(broker.address) for broker in cluster.brokers]
    try:
        async with Client(cluster.servers) as client:
            return await Bench(cluster, client, each, quick=quick).rows()
    finally:
        for one in each:
            await one.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster_metadata", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--kernel", choices=[*Kernel, "both"], default="compiled")
    parser.add_argument("--quick", action="store_true", help="few topics, 1,000 partitions, short runs")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument(
        "--rows", action="store_true", help="print the rows as JSON, for `make bench-cluster`"
    )
    given = parser.parse_args()
    rows: list[Row] = []
    for kernel in kernels(given.kernel):
        try:
            with running_cluster(kernel) as cluster:
                rows += asyncio.run(measure(cluster, quick=given.quick))
        except (ClusterFailed, TankError, grpc.aio.AioRpcError) as failure:
            raise SystemExit(f"FAILED {failure}") from None
    if given.rows:
        dump(rows)
        return
    show(f"Metadata of a cluster. {machine()}. {summary(rows)}", rows, markdown=given.markdown)


if __name__ == "__main__":
    main()
