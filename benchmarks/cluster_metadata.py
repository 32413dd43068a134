"""Metadata in a cluster of processes: time until a new topic is usable, cost of idle partitions, rate of
commits.

python -m benchmarks.cluster_metadata [--kernel pure|compiled|both] [--quick] [--markdown] [--rows]

Three controllers, three brokers, topics of three replicas. A topic is usable when every broker names the
leaders of all its partitions, and a value has been acknowledged in each of them (`flush=disk`). Each of the
many partitions has been written to before the brokers idle. Commits are counted at the controllers: 64
streams, as brokers have them, propose one command after the other, and each is on the disks of a majority
before it is answered.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import grpc.aio

from benchmarks.harness.display import Display
from benchmarks.harness.local_cluster import ClusterFailed, LocalCluster, Process, running_cluster
from benchmarks.harness.servers import Kernel, kernels
from benchmarks.harness.table import Reached, Row, dump, machine, show, spread, summary
from tank_client import Client, ProducerSettings, TankError
from tank_protos import feature_levels
from tank_protos.call_proof import ChannelProofs, Prover
from tank_protos.cluster_secret import Party, PartyRole, Secrets, parse
from tank_protos.generated import control_pb2 as pb

REPLICAS = 3
PARTITIONS = 100
TOPICS, QUICK_TOPICS = 10, 3
"""How many topics are created, one after the other."""
MANY_TOPICS, MANY_PARTITIONS = 10, 1_000
IDLE_S, QUICK_IDLE_S = 10.0, 4.0
SETTLE_S = 5.0
STREAMS = 64
COMMITS_S, QUICK_COMMITS_S = 5.0, 2.0
ROUNDS, QUICK_ROUNDS = 3, 1
FIRST_STREAM = 1_000
"""The broker id of the first stream that proposes: no real broker has it."""
PATIENCE_S = 120.0
PACE_S = 0.01
"""The pause between two requests for a topic's leaders; with a shorter one, the requests would take a
processor."""
SESSION = "/tank.control.Brokers/Session"


class Bench:
    """One cluster, and clients of each of its brokers."""

    def __init__(
        self, cluster: LocalCluster, client: Client, each: list[Client], display: Display, *, quick: bool
    ) -> None:
        self.cluster, self.client, self.each, self.display = cluster, client, each, display
        self.quick = quick

    async def rows(self) -> list[Row]:
        """All measurements; a failed one gets a row that says so, and the others go on. The commits come
        last, because they leave registrations of brokers that don't exist."""
        rows: list[Row] = []
        for name, measured in (
            (f"topic of {PARTITIONS} partitions → usable on every broker", self._usable),
            (f"{MANY_PARTITIONS * self._many_topics:,} partitions, all written to", self._idle),
            (f"controllers' commits of {STREAMS} streams, fsync", self._commits),
        ):
            self.display.begin(name)
            try:
                found = await measured(name)
            except (ClusterFailed, TankError, grpc.aio.AioRpcError) as failure:
                self.display.say(f"FAILED {name}: {failure}")
                found = [Row(name, "failed", reached=Reached.NO, kernel=self.cluster.kernel)]
            for row in found:
                self.display.say(f"{row.name}: {row.figure}")
            self.display.ran()
            rows += found
        return rows

    @property
    def _many_topics(self) -> int:
        return 1 if self.quick else MANY_TOPICS

    # --- a new topic ---

    async def _usable(self, name: str) -> list[Row]:
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
                await asyncio.sleep(1.0)
        # Behind all: ext4 looks long for the inodes of new files where many were deleted within five seconds.
        for number in range(len(taken_ms)):
            await self.client.admin.delete_topic(f"usable-{number}")
        await asyncio.sleep(SETTLE_S)
        return [
            Row(
                name, f"{spread(taken_ms, 0)} ms", "< 300 ms", Reached.of(ms < 300 for ms in taken_ms),
                self.cluster.kernel, values=tuple(taken_ms),
            )
        ]  # fmt: skip

    # --- commits ---

    async def _commits(self, name: str) -> list[Row]:
        rounds = []
        for number in range(QUICK_ROUNDS if self.quick else ROUNDS):
            try:
                async with asyncio.timeout(PATIENCE_S):
                    rounds.append(await self._commits_round(number))
            except TimeoutError:
                raise ClusterFailed(f"{STREAMS} streams did not end within {PATIENCE_S:.0f} s") from None
        commits_s, leader_us, others_us, own_us = zip(*rounds, strict=True)
        kernel = self.cluster.kernel
        return [
            Row(
                name, f"{spread(commits_s, 0)} /s", "≥ 2,000 /s",
                Reached.of(value >= 2_000 for value in commits_s), kernel, values=commits_s,
            ),
            *(
                Row(f"{name}: CPU of {whose} a commit", f"{spread(us, 0)} µs", kernel=kernel, values=us)
                for whose, us in (
                    ("the leading controller", leader_us),
                    ("the others together", others_us),
                    ("the measuring process", own_us),
                )
            ),
        ]  # fmt: skip

    async def _commits_round(self, number: int) -> tuple[float, float, float, float]:
        """Commits per second of all streams, and CPU microseconds per commit of the leader, of the other
        controllers, and of this process."""
        leader = await asyncio.to_thread(self.cluster.leading_controller)
        others = [each for each in self.cluster.processes("controller") if each.pid != leader.pid]
        channel = grpc.aio.insecure_channel(leader.address)
        async with channel:
            secrets = parse((self.cluster.data / "secret").read_bytes(), "the cluster's secret")
            streams = [Proposer(FIRST_STREAM + number * STREAMS + at) for at in range(STREAMS)]
            await asyncio.gather(*(stream.register(channel, secrets) for stream in streams))
            ending = asyncio.Event()
            working = [asyncio.create_task(stream.propose(ending)) for stream in streams]
            await asyncio.sleep(0.5)

            def state() -> list[float]:
                return [
                    sum(stream.commits for stream in streams), time.monotonic(), leader.cpu_s(),
                    sum(each.cpu_s() for each in others), time.process_time(),
                ]  # fmt: skip

            before = state()
            await asyncio.sleep(QUICK_COMMITS_S if self.quick else COMMITS_S)
            commits, seconds, *cpu_s = (b - a for a, b in zip(before, state(), strict=True))
            ending.set()
            await asyncio.gather(*working)
        if not commits:
            raise ClusterFailed("nothing was committed")
        leader_us, others_us, own_us = (1e6 * each / commits for each in cpu_s)
        return commits / seconds, leader_us, others_us, own_us

    # --- many partitions ---

    async def _idle(self, name: str) -> list[Row]:
        topics = [f"many-{number}" for number in range(self._many_topics)]
        async with self.client.producer() as producer:
            for topic in topics:
                await self.client.admin.create_topic(topic, MANY_PARTITIONS, REPLICAS)
                await asyncio.gather(*(_named(client, topic, MANY_PARTITIONS) for client in self.each))
                sent = [await producer.send(topic, b"x", partition=at) for at in range(MANY_PARTITIONS)]
                await asyncio.gather(*sent)
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
            for row in self._of_role(role, name, percent, most_percent, most_mib)
        ]

    def _of_role(
        self,
        role: str,
        name: str,
        percent: dict[Process, float],
        most_percent: int | None,
        most_mib: int | None,
    ) -> Iterator[Row]:
        kernel = self.cluster.kernel
        busy = [value for process, value in percent.items() if process.role == role]
        yield Row(
            f"{name}: CPU of an idle {role}", f"{spread(busy, 1)} %",
            f"< {most_percent} %" if most_percent else "",
            Reached.of(each < most_percent for each in busy) if most_percent else None, kernel,
            values=tuple(busy),
        )  # fmt: skip
        mib = [process.resident_bytes() / (1 << 20) for process in percent if process.role == role]
        yield Row(
            f"{name}: memory of a {role}", f"{spread(mib, 0)} MiB", f"≤ {most_mib} MiB" if most_mib else "",
            Reached.of(each <= most_mib for each in mib) if most_mib else None, kernel, values=tuple(mib),
        )  # fmt: skip


class Proposer:
    """A stream to the controller that leads, like a broker's, with one proposal under way at a time. The
    proposal is encoded only once, because the measuring process shares the processors."""

    _call: grpc.aio.StreamStreamCall[bytes, bytes]

    def __init__(self, broker_id: int) -> None:
        self.commits = 0
        self._broker_id = broker_id
        command = pb.Command(now_ms=int(time.time() * 1000), init_producer=pb.InitProducer())
        proposal = pb.BrokerProposal(request_id=1, command=command)
        self._proposal = pb.BrokerUp(proposal=proposal).SerializeToString()

    async def register(self, channel: grpc.aio.Channel, secrets: Secrets) -> None:
        """Registers the stream. Raises ClusterFailed when the controller refuses it."""
        prover = Prover(lambda: secrets, lambda: Party(PartyRole.BROKER, self._broker_id), os.urandom)
        metadata = await ChannelProofs(channel, prover).metadata(SESSION)
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(SESSION)(metadata=metadata)
        self._call = call
        broker = pb.RegisterBroker(
            broker_id=self._broker_id,
            incarnation=self._broker_id.to_bytes(16, "big"),
            disk_uuid=self._broker_id.to_bytes(16, "big"),
            tail_sure=True,
            endpoints=[pb.Endpoint(name="tank", host="127.0.0.1", port=self._broker_id)],
            replicates=True,
            min_level=feature_levels.OWN.lowest,
            max_level=feature_levels.OWN.highest,
        )
        up = pb.BrokerUp(register=pb.BrokerRegister(broker=broker))
        await self._call.write(up.SerializeToString())
        await self._answer("registered")

    async def propose(self, ending: asyncio.Event) -> None:
        """One command after the other, until told to end."""
        while not ending.is_set():
            await self._call.write(self._proposal)
            answer = await self._answer("outcome")
            if answer.outcome.error:
                raise ClusterFailed(f"a command was refused: {answer.outcome.message}")
            self.commits += 1
        await self._call.done_writing()

    async def _answer(self, kind: str) -> pb.BrokerDown:
        while (message := await self._call.read()) is not grpc.aio.EOF:
            assert isinstance(message, bytes)
            found = pb.BrokerDown.FromString(message)
            if found.WhichOneof("message") == kind:
                return found
            if found.WhichOneof("message") == "refused":
                raise ClusterFailed(f"a stream was refused: {found.refused.message}")
        raise ClusterFailed("the controllers' leader ended a stream")


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


async def measure(cluster: LocalCluster, display: Display, *, quick: bool) -> list[Row]:
    """All rows of one kernel."""
    each = [Client(broker.address) for broker in cluster.brokers]
    try:
        async with Client(cluster.servers) as client:
            return await Bench(cluster, client, each, display, quick=quick).rows()
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
    names = kernels(given.kernel)
    rows: list[Row] = []
    for kernel in names:
        with ExitStack() as stack:
            display = Display(3, stack)
            try:
                cluster = stack.enter_context(running_cluster(kernel))
                rows += asyncio.run(measure(cluster, display, quick=given.quick))
            except (ClusterFailed, TankError) as failure:
                raise SystemExit(f"FAILED {failure}") from None
    if given.rows:
        dump(rows, HOW)
        return
    show(f"Metadata of a cluster: {HOW}. {machine()}. {summary(rows)}", rows, markdown=given.markdown)


HOW = "three controllers, three brokers, three replicas of each partition"

if __name__ == "__main__":
    main()
