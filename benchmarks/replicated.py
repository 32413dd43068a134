"""What three replicas cost: processor time of all brokers a message, messages a second, latency, memory.

    python -m benchmarks.replicated [--rounds N] [--seconds S] [--kernel pure|compiled|both] [--quick]
                                    [--markdown] [--rows]

Three controllers and three brokers, topics of three replicas, every write acknowledged by all in sync, beside
a single broker (`tank serve`, one replica) under the same load in turn. The load generator speaks to the
leader. Of others the figures were recorded on such a machine, each with its own generator.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.load_generator import Load, LoadFailed, build, run_load
from benchmarks.local_cluster import ClusterFailed, LocalCluster, running_cluster
from benchmarks.servers import Kernel, NotListening, Running, kernels, ours, running
from benchmarks.table import Reached, Row, dump, machine, show, spread, summary
from tank_client import TankError
from tank_client.sync import Client

ROUNDS, SECONDS = 5, 3.0
QUICK_ROUNDS, QUICK_SECONDS = 2, 1.0
WARM_UP_S = 0.5
MOST_WRITTEN_MIB = 1024
SETTLE_S = 3.0
REPLICAS = 3
SEGMENTS = {"log.segment.bytes": "67108864", "retention.segments.count": "2"}
"""So that long runs don't fill the disk."""
KAFKA_MESSAGES_S = 407_000


@dataclass(slots=True, frozen=True)
class Throughput:
    """A closed loop, and its bars: microseconds of all brokers a message, times the single broker's."""

    name: str
    load: str
    most_us: float
    most_times: float | None
    least_messages_s: float | None
    recorded: str


@dataclass(slots=True, frozen=True)
class Latency:
    """An open loop, and its bars in milliseconds; none beside `flush=disk`."""

    rate: int
    flush: str
    p50_ms: float | None
    p99_ms: float | None
    recorded: str = ""


THROUGHPUT = (
    Throughput(
        "100 B in bundles of 100", "produce -c 8 -d 64 -s 100 -m 100", 0.3, 3.5, 3 * KAFKA_MESSAGES_S,
        "Kafka 3.2 µs, 0.41 M/s; RabbitMQ 5.4; NATS 11",
    ),
    Throughput(
        "1 KB in bundles of 10", "produce -c 8 -d 64 -s 1024 -m 10", 4.0, None, None,
        "RabbitMQ 15 µs, Kafka 22, NATS 24",
    ),
)  # fmt: skip
LATENCIES = (
    Latency(1_000, "replicated", 0.4, 1.8, "NATS 0.46 / 1.8, Kafka 0.54 / 13"),
    Latency(10_000, "replicated", 0.7, 5.0, "NATS 0.77 / 5.9, Kafka 2.6 / 38"),
    Latency(1_000, "disk", None, None),
    Latency(10_000, "disk", None, None),
)


class Bench:
    """One cluster, a single broker beside it, and a client that makes topics."""

    def __init__(
        self, cluster: LocalCluster, client: Client, single: Running, given: argparse.Namespace
    ) -> None:
        self.cluster, self.client, self.single = cluster, client, single
        self.rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
        self.seconds = given.seconds or (QUICK_SECONDS if given.quick else SECONDS)
        self._topics = 0

    def rows(self) -> Iterator[Row]:
        """All measurements."""
        yield from self._memory("idle", 80, 60)
        for throughput in THROUGHPUT:
            yield from self._throughput(throughput)
        for latency in LATENCIES:
            yield from self._latency(latency)
        yield from self._memory("after the runs", 300, 150)

    def _on_cluster(self, load: str, flush: str) -> Load:
        """One run on a topic of its own, led by whom the controllers chose; the processor time is that of all
        brokers."""
        self._topics += 1
        topic = f"run-{self._topics}"
        self.client.admin.create_topic(topic, 1, REPLICAS, {"flush": flush, **SEGMENTS})
        with self.client.producer() as producer:
            producer.send(topic, b"x").result()  # now its leader knows of it, too
        leader = self.cluster.leader(self.client, topic)
        pids = ",".join(str(broker.pid) for broker in self.cluster.brokers)
        try:
            return run_load(f"{load} -t {topic} {self._times()}", leader.port, pids)
        finally:
            self.client.admin.delete_topic(topic)

    def _on_single(self, load: str) -> Load:
        chosen = {"flush": "replicated", **SEGMENTS}
        settings = "\n".join(f"{name}={value}" for name, value in chosen.items())
        self._topics += 1
        load = f"{load} -C -t run-{self._topics} {self._times()}"
        return run_load(load, self.single.port, self.single.pid, "--config", settings + "\n")

    def _times(self) -> str:
        return f"-w {WARM_UP_S} -T {self.seconds} -L {MOST_WRITTEN_MIB}"

    def _throughput(self, case: Throughput) -> Iterator[Row]:
        pairs = []
        for number in range(self.rounds):
            if number % 2:
                single = self._on_single(case.load)
                pairs.append((self._on_cluster(case.load, "replicated"), single))
            else:
                pairs.append((self._on_cluster(case.load, "replicated"), self._on_single(case.load)))
        bundle = pairs[0][0].messages_s / pairs[0][0].requests_s
        us = [replicated.server_us / bundle for replicated, _ in pairs]
        single_us = [single.server_us / bundle for _, single in pairs]
        kernel = self.cluster.kernel
        yield Row(
            f"produce {case.name}: CPU of all brokers a message", f"{spread(us, 3)} µs",
            f"≤ {case.most_us:g} µs",
            Reached.of(value <= case.most_us for value in us), kernel, recorded=case.recorded,
        )  # fmt: skip
        times = [a / b for a, b in zip(us, single_us, strict=True)]
        yield Row(
            f"produce {case.name}: beside one broker, one replica", f"{spread(us, 3)} µs",
            f"≤ {case.most_times:g} ×" if case.most_times else "",
            Reached.of(value <= case.most_times for value in times) if case.most_times else None,
            kernel, f"{spread(single_us, 3)} µs", f"{spread(times, 2)} ×",
        )  # fmt: skip
        rates = [replicated.messages_s / 1e6 for replicated, _ in pairs]
        least = case.least_messages_s
        yield Row(
            f"produce {case.name}: messages a second", f"{spread(rates, 2)} M/s",
            f"≥ {least / 1e6:.2f} M/s" if least else "",
            Reached.of(rate * 1e6 >= least for rate in rates) if least else None, kernel,
            f"{spread([single.messages_s / 1e6 for _, single in pairs], 2)} M/s",
        )  # fmt: skip

    def _latency(self, case: Latency) -> Iterator[Row]:
        found = [self._on_cluster(f"paced -r {case.rate} -s 100", case.flush) for _ in range(self.rounds)]
        for name, bar, values in (
            ("p50", case.p50_ms, [load.p50_us / 1000 for load in found]),
            ("p99", case.p99_ms, [load.p99_us / 1000 for load in found]),
        ):
            yield Row(
                f"{case.rate:,} a second of 100 B, flush={case.flush}: {name}", f"{spread(values, 2)} ms",
                f"≤ {bar:g} ms" if bar else "", Reached.of(value <= bar for value in values) if bar else None,
                self.cluster.kernel, recorded=case.recorded if name == "p50" else "",
            )  # fmt: skip

    def _memory(self, when: str, broker_mib: int, controller_mib: int) -> Iterator[Row]:
        time.sleep(SETTLE_S)
        for role, most in (("broker", broker_mib), ("controller", controller_mib)):
            mib = [process.resident_bytes() / (1 << 20) for process in self.cluster.processes(role)]
            yield Row(
                f"memory of a {role}, {when}", f"{spread(mib, 0)} MiB", f"≤ {most} MiB",
                Reached.of([max(mib) <= most]), self.cluster.kernel,
            )  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replicated", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, help=f"how often each load runs ({ROUNDS})")
    parser.add_argument("--seconds", type=float, help=f"measured in each run ({SECONDS:g})")
    parser.add_argument("--kernel", choices=[*Kernel, "both"], default="compiled")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds of {QUICK_SECONDS:g} s")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument(
        "--rows", action="store_true", help="print the rows as JSON, for `make bench-cluster`"
    )
    given = parser.parse_args()
    build()
    rows: list[Row] = []
    try:
        for kernel in kernels(given.kernel):
            with (
                running_cluster(kernel) as cluster,
                Client(cluster.servers) as client,
                running(ours(kernel)) as single,
            ):
                rows += Bench(cluster, client, single, given).rows()
    except (ClusterFailed, LoadFailed, NotListening, TankError) as failure:
        raise SystemExit(f"FAILED {failure}") from None
    if given.rows:
        dump(rows)
        return
    show(f"Three replicas. {machine()}. {summary(rows)}", rows, markdown=given.markdown)


if __name__ == "__main__":
    main()
