"""What three replicas cost: processor time of all servers a message, messages a second, latency, memory.

python -m benchmarks.replicated [--rounds N] [--seconds S] [--kernel pure|compiled|both] [--quick]
                                    [--markdown] [--rows]

Three controllers and three brokers with topics of three replicas, where all in-sync replicas acknowledge each
write, run in turn with a single broker (`tank serve`, one replica) under the same load. The load generator
connects to the leader; a run after which a replica is out of sync has failed. `peers` has the figures of
other systems.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.harness import peers
from benchmarks.harness.command_line import Often, how_often, options, tell
from benchmarks.harness.display import Display
from benchmarks.harness.load_generator import Load, LoadFailed, build, run_load
from benchmarks.harness.local_cluster import ClusterFailed, LocalCluster, Process, running_cluster
from benchmarks.harness.peers import Peers
from benchmarks.harness.servers import NotListening, Running, kernels, ours, running
from benchmarks.harness.table import Reached, Row, spread
from tank_client import TankError
from tank_client.sync import Client

OFTEN = Often(rounds=5, seconds=3.0, quick_rounds=2, quick_seconds=1.0)
WARM_UP_S = 0.5
MOST_WRITTEN_MIB = 1024
SETTLE_S = 3.0
REPLICAS = 3
SEGMENTS = {"log.segment.bytes": "67108864", "retention.segments.count": "2"}
"""Small and few segments, so that long runs don't fill the disk."""
TIMES_KAFKA = 3
BUSY = 0.1
"""How many processors other processes may take in a run before the title says so."""


@dataclass(slots=True, frozen=True)
class Throughput:
    """A closed loop, and its bars: microseconds of all servers a message, times the single broker's."""

    name: str
    load: str
    value_bytes: int
    most_us: float
    most_times: float | None
    least_messages_s: float


@dataclass(slots=True, frozen=True)
class Latency:
    """An open loop, and its bars in milliseconds; none beside `flush=disk`."""

    rate: int
    flush: str
    p50_ms: float | None = None
    p99_ms: float | None = None


THROUGHPUT = (
    Throughput(
        "100 B in bundles of 100", "produce -c 8 -d 64 -s 100 -m 100", 100, 0.3, 3.5,
        TIMES_KAFKA * 1e6 * peers.RATES[100].figures["Kafka"],
    ),
    Throughput(
        "1 KB in bundles of 10", "produce -c 8 -d 64 -s 1024 -m 10", 1024, 4.0, None,
        1e6 * peers.RATES[1024].figures["RabbitMQ"],
    ),
)  # fmt: skip
LATENCIES = (
    Latency(1_000, "replicated", 0.4, 1.8),
    Latency(10_000, "replicated", 0.7, 5.0),
    Latency(1_000, "disk"),
    Latency(10_000, "disk"),
)


class Bench:
    """One cluster, a single broker beside it, and a client that makes topics."""

    def __init__(
        self, cluster: LocalCluster, client: Client, single: Running, rounds: int, seconds: float,
        display: Display,
    ) -> None:  # fmt: skip
        self.cluster, self.client, self.single, self.display = cluster, client, single, display
        self.rounds, self.seconds = rounds, seconds
        self.loads: list[Load] = []
        """All loads that ran on the cluster."""
        self._topics = 0

    def rows(self) -> Iterator[Row]:
        """All measurements; a failed one gets a row that says so, and the others go on."""
        yield from self._memory("idle", 80, 60, peers.IDLE_MIB)
        for throughput in THROUGHPUT:
            try:
                yield from self.of_throughput(throughput)
            except (ClusterFailed, LoadFailed, TankError) as failure:
                yield self._failed(f"produce {throughput.name}", failure)
        for latency in LATENCIES:
            try:
                yield from self._latency(latency)
            except (ClusterFailed, LoadFailed, TankError) as failure:
                yield self._failed(f"{latency.rate:,} a second, flush={latency.flush}", failure)
        yield from self._memory("after the runs", 300, 150, peers.AFTER_MIB)

    def _failed(self, name: str, failure: Exception) -> Row:
        self.display.say(f"FAILED {name}: {failure}")
        return Row(name, "failed", reached=Reached.NO, kernel=self.cluster.kernel)

    def _on_cluster(self, load: str, flush: str) -> tuple[Load, float]:
        """Runs a load on a new topic. Returns its figures, with the processor time of all brokers and
        controllers (other systems' nodes do the work of both), and the controllers' share of that time.

        Raises:
            LoadFailed: a replica fell out of sync, so that messages were not stored three times.
        """
        self._topics += 1
        topic = f"run-{self._topics}"
        self.client.admin.create_topic(topic, 1, REPLICAS, {"flush": flush, **SEGMENTS})
        with self.client.producer() as producer:
            producer.send(topic, b"x").result()  # then the topic's leader knows it, too
        leader = self.cluster.leader(self.client, topic)
        brokers, controllers = self.cluster.brokers, self.cluster.processes("controller")
        pids = ",".join(str(server.pid) for server in (*brokers, *controllers))
        left = leader.counted(LEFT)
        try:
            before = _cpu_s(brokers), _cpu_s(controllers)
            found = run_load(f"{load} -t {topic} {self._times()}", leader.port, pids)
            brokers_s, controllers_s = _cpu_s(brokers) - before[0], _cpu_s(controllers) - before[1]
            (described,) = self.client.admin.describe_topics([topic])
            if len(described.partitions[0].in_sync) < REPLICAS or leader.counted(LEFT) > left:
                raise LoadFailed(f"a replica of {topic} fell out of sync under {load}")
        finally:
            self.client.admin.delete_topic(topic)
        self.loads.append(found)
        self.display.ran()
        # The system counts in hundredths of a second: a short run may have taken none.
        return found, controllers_s / max(brokers_s + controllers_s, 0.01)

    def _on_single(self, load: str) -> Load:
        chosen = {"flush": "replicated", **SEGMENTS}
        settings = "\n".join(f"{name}={value}" for name, value in chosen.items())
        self._topics += 1
        load = f"{load} -C -t run-{self._topics} {self._times()}"
        found = run_load(load, self.single.port, self.single.pid, "--config", settings + "\n")
        self.display.ran()
        return found

    def _times(self) -> str:
        return f"-w {WARM_UP_S} -T {self.seconds} -L {MOST_WRITTEN_MIB}"

    def of_throughput(self, case: Throughput) -> Iterator[Row]:
        """Measures one case of throughput, and yields its rows."""
        self.display.begin(f"produce {case.name}")
        pairs, shares = [], []
        for number in range(self.rounds):
            single = self._on_single(case.load) if number % 2 else None
            replicated, share = self._on_cluster(case.load, "replicated")
            shares.append(share)
            pairs.append((replicated, single or self._on_single(case.load)))
        bundle = pairs[0][0].messages_s / pairs[0][0].requests_s
        us = [replicated.server_us / bundle for replicated, _ in pairs]
        controllers_us = [share * whole for share, whole in zip(shares, us, strict=True)]
        single_us = [single.server_us / bundle for _, single in pairs]
        times = [a / b for a, b in zip(us, single_us, strict=True)]
        rates = [replicated.messages_s / 1e6 for replicated, _ in pairs]
        beside = peers.TIMES_ONE_NODE.get(case.value_bytes)
        yield self._row(
            f"produce {case.name}: CPU of all servers a message", us, 3, "µs", case.most_us,
            peers.CPU_US[case.value_bytes],
        )  # fmt: skip
        yield self._row(f"produce {case.name}: of these the controllers", controllers_us, 3, "µs")
        yield Row(
            f"produce {case.name}: beside one broker, one replica", f"{spread(us, 3)} µs",
            f"≤ {case.most_times:g} ×" if case.most_times else "",
            Reached.of(value <= case.most_times for value in times) if case.most_times else None,
            self.cluster.kernel, f"{spread(single_us, 3)} µs", f"{spread(times, 2)} ×",
            beside.beside(statistics.median(times)) if beside else "", tuple(times),
        )  # fmt: skip
        least = case.least_messages_s / 1e6
        yield Row(
            f"produce {case.name}: messages a second", f"{spread(rates, 2)} M/s", f"≥ {least:.2f} M/s",
            Reached.of(rate >= least for rate in rates), self.cluster.kernel,
            f"{spread([single.messages_s / 1e6 for _, single in pairs], 2)} M/s",
            recorded=peers.RATES[case.value_bytes].beside(statistics.median(rates)), values=tuple(rates),
        )  # fmt: skip

    def _latency(self, case: Latency) -> Iterator[Row]:
        name = f"{case.rate:,} a second of 100 B, flush={case.flush}"
        self.display.begin(name)
        load = f"paced -r {case.rate} -s 100"
        found = [self._on_cluster(load, case.flush)[0] for _ in range(self.rounds)]
        for which, bar, values, others in (
            ("p50", case.p50_ms, [load.p50_us / 1000 for load in found], peers.LATENCY_P50),
            ("p99", case.p99_ms, [load.p99_us / 1000 for load in found], peers.LATENCY_P99),
        ):
            beside = others[case.rate] if bar else None
            yield self._row(f"{name}: {which}", values, 2, "ms", bar, beside)

    def _row(
        self, name: str, values: Sequence[float], digits: int, unit: str, most: float | None = None,
        others: Peers | None = None,
    ) -> Row:  # fmt: skip
        """A row whose bar, if any, is an upper limit."""
        row = Row(
            name, f"{spread(values, digits)} {unit}", f"≤ {most:g} {unit}" if most else "",
            Reached.of(value <= most for value in values) if most else None, self.cluster.kernel,
            recorded=others.beside(statistics.median(values)) if others else "", values=tuple(values),
        )  # fmt: skip
        self.display.say(f"{row.name}: {row.figure}")
        return row

    def _memory(self, when: str, broker_mib: int, controller_mib: int, others: Peers) -> Iterator[Row]:
        time.sleep(SETTLE_S)
        medians = []
        for role, most in (("broker", broker_mib), ("controller", controller_mib)):
            mib = [process.resident_bytes() / (1 << 20) for process in self.cluster.processes(role)]
            medians.append(statistics.median(mib))
            yield self._row(f"memory of a {role}, {when}", mib, 0, "MiB", most)
        yield self._row(
            f"memory of a broker and a controller, {when}", [sum(medians)], 0, "MiB", None, others
        )


LEFT = 'tank_in_sync_changes_total{change="left"}'


def _cpu_s(processes: Sequence[Process]) -> float:
    return sum(process.cpu_s() for process in processes)


def how(loads: Sequence[Load], rounds: int, seconds: float) -> str:
    """The description of the measurement, with the processors that other processes took meanwhile."""
    told = (
        f"{rounds} rounds of {seconds:g} s in turn with a single broker, 8 connections of 64 requests each; "
        "the others, at another time, with one pipelined producer"
    )
    for who, taken in (
        ("other processes than servers and generator", [load.other_cpu for load in loads]),
        ("the hypervisor", [load.stolen_cpu for load in loads]),
    ):
        if often := sum(share > BUSY for share in taken):
            told += (
                f"; {who} took up to {max(taken):.2f} processors, over {BUSY} in {often} of {len(taken)} runs"
            )
    return told


def main() -> None:
    """The command line."""
    parser = options("replicated", __doc__, OFTEN, "measured in each run", "bench-cluster")
    given = parser.parse_args()
    rounds, seconds = how_often(given, OFTEN)
    build()
    names = kernels(given.kernel)
    rows: list[Row] = []
    loads: list[Load] = []
    runs = rounds * (2 * len(THROUGHPUT) + len(LATENCIES))
    try:
        for kernel in names:
            with ExitStack() as stack:
                display = Display(runs, stack)
                display.begin("starting three controllers, three brokers, and one alone")
                cluster = stack.enter_context(running_cluster(kernel))
                client = stack.enter_context(Client(cluster.servers))
                single = stack.enter_context(running(ours(kernel)))
                bench = Bench(cluster, client, single, rounds, seconds, display)
                rows += bench.rows()
                loads += bench.loads
    except (ClusterFailed, NotListening, TankError) as failure:
        raise SystemExit(f"FAILED {failure}") from None
    tell(given, "Three replicas", how(loads, rounds, seconds), rows)


if __name__ == "__main__":
    main()
