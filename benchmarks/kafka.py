"""Kafka's front beside Kafka: what a message costs that a Kafka client produces and consumes, in turn with
Kafka itself where it was set up; small requests, conversions, memory with many clients, and the waits of
producers whose leader is killed.

python -m benchmarks.kafka [--rounds N] [--seconds S] [--kernel pure|compiled|both] [--cases REGEX]
                               [--quick] [--markdown] [--rows]

The client is franz-go, by the generator of `../shared/yardstick`; without that folder the cases that need it
are left out, and stderr says so. Topics have `log.format=kafka`, as those that Kafka clients create, and
`flush=replicated`: Kafka, too, acknowledges what is in the replicas' memory. Processor time is that of all
brokers and controllers.
"""

import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.bundle import best_seconds
from benchmarks.harness.command_line import Often, how_often, options, tell
from benchmarks.harness.display import Display
from benchmarks.harness.franz import System, build_franz, has_kafka, kafka, why_absent
from benchmarks.harness.kafka_frames import batch_of, fetch_frame, produce_frame, run_frames
from benchmarks.harness.load_generator import LoadFailed
from benchmarks.harness.local_cluster import ClusterFailed, running_cluster
from benchmarks.harness.paired import Pair, Turns, least
from benchmarks.harness.peers import KILLED_S
from benchmarks.harness.servers import Kernel, NotListening, Running, free_port, kernels, ours, running
from benchmarks.harness.stock_failover import stock_waits
from benchmarks.harness.table import Reached, Row, spread
from tank_client import TankError
from tank_client.sync import Client
from tank_protos import kernel as loaded_kernel
from tank_protos.kafka import record_batch, transcode

OFTEN = Often(rounds=5, seconds=5, quick_rounds=1, quick_seconds=2)
REPLICAS = 3
MESSAGES = {100: 2_000_000, 1024: 400_000}
"""The most messages of one run, by their bytes: some 400 MB, which stay in memory."""
LATENCIES = {1_000: (0.5, 2.0), 10_000: (1.0, 6.0)}
"""The bars of p50 and p99 in milliseconds, by messages a second."""
CLIENTS = 200
CLIENTS_MIB = 110
CONVERTED_NS = 60.0
CONVERTED_RECORDS = 500
SETTINGS = {"log.format": "kafka", "flush": "replicated"}
"""Of the topics of raw requests."""
SETTLE_S = 2.0
KILLED_BAR_S = 1.0
FAILOVER_START_S, FAILOVER_ROUND_S = 900.0, 150.0
"""The longest that the libraries' installation may take; and a round of three producers, each with 22 s and a
start of the killed broker."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Throughput:
    """One pipelined producer, then one consumer that reads all of it from the beginning; and the bars."""

    nodes: int
    value_bytes: int
    produce_us: float
    consume_us: float

    @property
    def name(self) -> str:
        where = "one node" if self.nodes == 1 else "three replicas, all acknowledge"
        return f"{self.value_bytes} B, {where}"


THROUGHPUT = (
    Throughput(1, 100, 0.15, 0.06),
    Throughput(1, 1024, 1.5, 0.4),
    Throughput(3, 100, 0.5, 0.06),
    Throughput(3, 1024, 5.0, 0.4),
)


@dataclass(slots=True)
class Systems(Turns[System]):
    """Ours and, where it was set up, Kafka, on the same number of nodes."""

    memory: Callable[[], float] = field(default=float)
    """Returns the resident memory of our largest broker now, in MiB."""


class Bench:
    """The cases, on one kernel."""

    def __init__(self, kernel: Kernel, rounds: int, seconds: float, chosen: str, display: Display) -> None:
        self.kernel, self.rounds, self.seconds, self.display = kernel, rounds, seconds, display
        self._chosen = re.compile(chosen)
        self._topics = 0
        self.busy: list[float] = []
        """The processors that others took in each run."""

    def rows(self) -> Iterator[Row]:
        """All rows of the chosen cases; a failed case gets a row that says so."""
        why = why_absent()
        if why is not None:
            print(f"Loads by franz-go are left out: {why}.", file=sys.stderr)
        elif not has_kafka():
            print(
                "Kafka is not set up: our figures stand alone (../shared/yardstick/setup).", file=sys.stderr
            )
        for nodes in () if why else (1, REPLICAS):
            cases = [
                (case.name, partial(self._throughput, case)) for case in THROUGHPUT if case.nodes == nodes
            ]
            if nodes == REPLICAS:
                cases += [(_paced(rate), partial(self._latency, rate)) for rate in LATENCIES]
            cases = [(name, case) for name, case in cases if self._chosen.search(name)]
            if cases:
                yield from self._on_nodes(nodes, cases)
        for name, alone in (
            ("small requests", self._small_requests),
            (f"{CLIENTS} clients", self._memory),
            ("leader killed", self._leader_killed),
            ("conversion", self._conversion),
        ):
            if self._chosen.search(name):
                yield from self._safely(name, alone)

    def _safely(self, name: str, case: Callable[[], Iterator[Row]]) -> Iterator[Row]:
        self.display.begin(name)
        try:
            for row in case():
                self.display.say(f"{row.name}: {row.figure}  {row.beside} {row.ratio}")
                yield row
        except (ClusterFailed, LoadFailed, NotListening, TankError) as failure:
            self.display.say(f"FAILED {name}: {failure}")
            yield Row(name, "failed", reached=Reached.NO, kernel=self.kernel)

    def _on_nodes(
        self, nodes: int, cases: Sequence[tuple[str, Callable[[Systems], Iterator[Row]]]]
    ) -> Iterator[Row]:
        with ExitStack() as stack:
            try:
                start = one_node if nodes == 1 else three_nodes
                both = stack.enter_context(start(self.kernel))
                if has_kafka():
                    both.other = stack.enter_context(kafka(nodes))
                    self._warm(both.other)
                self._warm(both.ours)
            except (ClusterFailed, LoadFailed, NotListening) as failure:
                self.display.say(f"FAILED {failure}")
                yield Row(f"{nodes} nodes", "failed", reached=Reached.NO, kernel=self.kernel)
                return
            for name, case in cases:
                yield from self._safely(name, partial(case, both))
            mib = both.memory()
            yield Row(
                f"memory of a broker after these runs, {nodes} nodes", f"{mib:.0f} MiB",
                f"< {CLIENTS_MIB} MiB", Reached.of([mib < CLIENTS_MIB]), self.kernel, values=(mib,),
            )  # fmt: skip

    def _warm(self, system: System) -> None:
        """A run that isn't counted: the compiler of Java's machine, connections, page cache."""
        topic = self._topic(system)
        system.run("tput", "-topic", topic, "-n", 400_000, "-secs", self.seconds)
        system.run("consume", "-topic", topic, "-n", 300_000)
        system.run("lat", "-topic", topic, "-rate", 5_000, "-secs", self.seconds)
        system.run("delete", "-topic", topic)

    def _topic(self, system: System) -> str:
        self._topics += 1
        topic = f"bench-{self._topics}"
        system.run("create", "-topic", topic)
        return topic

    def _run(self, system: System, mode: str, *options: object) -> dict[str, Any]:
        found = system.run(mode, *options)
        self.busy.append(found.get("other_cpus", 0.0))
        return found

    def _throughput(self, case: Throughput, both: Systems) -> Iterator[Row]:
        produced: list[Pair] = []
        consumed: list[Pair] = []

        def run(system: System) -> tuple[dict[str, Any], dict[str, Any]]:
            topic = self._topic(system)
            of_topic = ("-topic", topic, "-size", case.value_bytes)
            at_most = MESSAGES[case.value_bytes]
            made = self._run(system, "tput", *of_topic, "-n", at_most, "-secs", self.seconds)
            read = self._run(system, "consume", *of_topic, "-n", made["n"])
            if read["n"] != made["n"]:
                raise LoadFailed(f"{system.name}: {made['n']} messages went in, {read['n']} came out")
            system.run("delete", "-topic", topic)
            return made, read

        for _ in range(self.rounds):
            mine, theirs = both.each(run)
            produced.append((mine[0], theirs and theirs[0]))
            consumed.append((mine[1], theirs and theirs[1]))
            self.display.ran()
        yield self._least(f"produce {case.name}: CPU a message", produced, "server_us_msg", case.produce_us)
        yield self._rate(f"produce {case.name}: messages a second", produced)
        yield self._least(f"consume {case.name}: CPU a message", consumed, "server_us_msg", case.consume_us)
        yield self._rate(f"consume {case.name}: messages a second", consumed)

    def _latency(self, rate: int, both: Systems) -> Iterator[Row]:
        def run(system: System) -> dict[str, Any]:
            topic = self._topic(system)
            options = ("-topic", topic, "-rate", rate, "-linger", "0s", "-secs", self.seconds)
            found = self._run(system, "lat", *options)
            system.run("delete", "-topic", topic)
            return found

        pairs = []
        for _ in range(self.rounds):
            pairs.append(both.each(run))
            self.display.ran()
        for which, bar in zip(("p50", "p99"), LATENCIES[rate], strict=True):
            yield self._least(f"{_paced(rate)}: {which}", pairs, f"{which}_ms", bar, "ms", 2)
        yield self._least(f"{_paced(rate)}: CPU a message", pairs, "server_us_msg", None, "µs", 1)

    def _least(
        self, name: str, pairs: list[Pair], figure: str, most: float | None,
        unit: str = "µs", digits: int = 3,
    ) -> Row:  # fmt: skip
        """A row of a figure that may be at most its bar."""
        return least(name, self.kernel, pairs, figure, most, unit, digits)

    def _rate(self, name: str, pairs: list[Pair]) -> Row:
        """A row of messages a second, whose bar is Kafka's rate in the same round."""
        mine = [one["msg_s"] / 1e6 for one, _ in pairs]
        theirs = [other["msg_s"] / 1e6 for _, other in pairs if other]
        ratios = [own / other for own, other in zip(mine, theirs, strict=False) if other]
        return Row(
            name, f"{spread(mine, 2)} M/s", "≥ 1 × Kafka" if ratios else "",
            Reached.of(ratio >= 1 for ratio in ratios) if ratios else None, self.kernel,
            f"{spread(theirs, 2)} M/s" if theirs else "", f"{spread(ratios, 2)} ×" if ratios else "",
            values=tuple(mine),
        )  # fmt: skip

    # --- without franz-go ---------------------------------------------------------------------------

    def _small_requests(self) -> Iterator[Row]:
        """Requests with one batch of few records, each in the place of one that a client sent alone; and
        those that fetch such a batch."""
        for name, records, connections, depth, fetches in (
            ("1 record of 100 B, 64 connections of 1 request", 1, 64, 1, False),
            ("1 record of 100 B, 8 connections of 5 requests", 1, 8, 5, False),
            ("160 records of 100 B, 8 connections of 5 requests", 160, 8, 5, False),
            ("1 record of 100 B fetched, 64 connections of 1 request", 1, 64, 1, True),
            ("1 record of 100 B fetched, 1 connection of 1 request", 1, 1, 1, True),
        ):
            found = []
            for _ in range(self.rounds):
                with one_node(self.kernel, "small") as both:
                    frame = produce_frame("small", 0, batch_of(records, 100))
                    (pid,) = both.ours.pids[1]
                    load = {"connections": connections, "depth": depth}
                    run_frames(both.ours.addresses[0], pid, [frame], **load, seconds=0.5)
                    if fetches:
                        frame = fetch_frame("small", 0, 0)
                        run_frames(both.ours.addresses[0], pid, [frame], **load, seconds=0.5)
                    done = run_frames(both.ours.addresses[0], pid, [frame], **load, seconds=self.seconds)
                found.append(done.server_s / done.requests * 1e6)
            yield Row(
                f"small requests, {name}: CPU a request", f"{spread(found, 1)} µs", kernel=self.kernel,
                values=tuple(found),
            )  # fmt: skip

    def _memory(self) -> Iterator[Row]:
        """The memory of a broker to which many clients write large requests, eight partitions."""
        with one_node(self.kernel, "many", partitions=8) as both:
            (pid,) = both.ours.pids[1]
            batch = batch_of(5_000, 100)
            frames = [produce_frame("many", number, batch) for number in range(8)]
            run_frames(
                both.ours.addresses[0], pid, frames, connections=CLIENTS, depth=1, seconds=self.seconds
            )
            time.sleep(SETTLE_S)
            mib, most_mib = both.memory(), Running(0, pid).most_resident_bytes() / MIB
        yield Row(
            f"memory of a broker under {CLIENTS} clients with requests of 540 KB, at most",
            f"{most_mib:.0f} MiB",
            kernel=self.kernel,
            values=(most_mib,),
        )
        yield Row(
            f"memory of a broker after {CLIENTS} clients with requests of 540 KB", f"{mib:.0f} MiB",
            f"< {CLIENTS_MIB} MiB", Reached.of([mib < CLIENTS_MIB]), self.kernel, values=(mib,),
        )  # fmt: skip

    def _leader_killed(self) -> Iterator[Row]:
        """The waits of stock producers whose leader is killed, by the command that the tests have for it."""
        timeout_s = FAILOVER_START_S + self.rounds * FAILOVER_ROUND_S
        for found in stock_waits("tests.kafka_clients.failover", self.kernel, self.rounds, timeout_s):
            producer, times = found["producer"], tuple(found["acknowledged"])
            yield Row(
                f"leader killed, {producer}: until a record is acknowledged",
                f"{spread(times, 2)} s",
                f"≤ {KILLED_BAR_S:g} s",
                Reached.of(value <= KILLED_BAR_S for value in times),
                self.kernel,
                recorded=_recorded(producer),
                values=times,
            )

    def _conversion(self) -> Iterator[Row]:
        """Both directions, in this process, if it has the kernel."""
        if self.kernel != loaded_kernel.NAME:
            return
        batch = batch_of(CONVERTED_RECORDS, 100)
        header = record_batch.check(memoryview(batch))
        to_tank = partial(
            transcode.produced_to_tank, batch, header, append_ms=1, compacted=False, lenient=False
        )
        bundle = to_tank().data
        to_kafka = partial(transcode.produced_to_kafka, bundle, compacted=False)
        for name, action in (("record batch to bundle", to_tank), ("bundle to record batch", to_kafka)):
            ns = best_seconds(action, min(self.seconds, 1)) / CONVERTED_RECORDS * 1e9
            barred = self.kernel is Kernel.COMPILED
            yield Row(
                f"conversion, {name}, {CONVERTED_RECORDS} × 100 B: CPU a message", f"{ns:.1f} ns",
                f"≤ {CONVERTED_NS:g} ns" if barred else "",
                Reached.of([ns <= CONVERTED_NS]) if barred else None, self.kernel, values=(ns,),
            )  # fmt: skip


def _recorded(producer: str) -> str:
    """Returns Kafka's own figure, which there is of franz-go alone: at its defaults, and tuned."""
    if not producer.startswith("franz-go"):
        return ""
    figure = "Kafka, session 2 s" if producer.endswith("ms") else "Kafka"
    return f"{figure} {KILLED_S.figures[figure]:g} s"


def _paced(rate: int) -> str:
    return f"{rate:,} single messages of 100 B a second, three replicas"


@contextmanager
def one_node(kernel: Kernel, topic: str = "", partitions: int = 1) -> Iterator[Systems]:
    """Yields a single broker of ours, with a topic if one is named. NotListening."""
    address = f"127.0.0.1:{free_port()}"
    with running(ours(kernel), "--kafka", address, "--flush", "replicated") as broker:
        if topic:
            with Client(f"127.0.0.1:{broker.port}") as client:
                client.admin.create_topic(topic, partitions, 1, SETTINGS)
        system = System("ours", (address,), {1: [broker.pid]})
        yield Systems(system, memory=lambda: broker.resident_bytes() / MIB)


@contextmanager
def three_nodes(kernel: Kernel) -> Iterator[Systems]:
    """Yields three brokers and three controllers of ours. ClusterFailed."""
    with running_cluster(kernel, variables={"TANK_FLUSH": "replicated"}) as cluster:
        brokers, controllers = cluster.brokers, cluster.processes("controller")
        pids = {
            broker.number: [broker.pid, controller.pid]
            for broker, controller in zip(brokers, controllers, strict=True)
        }
        addresses = tuple(broker.kafka for broker in brokers if broker.kafka)
        system = System("ours", addresses, pids)
        yield Systems(system, memory=lambda: max(broker.resident_bytes() for broker in brokers) / MIB)


def how(busy: Sequence[float], rounds: int, seconds: float) -> str:
    """The description of the measurement, with the processors that other processes took meanwhile."""
    told = (
        f"franz-go, 1 partition, at most {seconds:g} s a run, {rounds} rounds, in turn with Kafka where "
        "there is a figure beside"
    )
    if busy:
        told += f"; others took {statistics.median(busy):.2f} processors, at most {max(busy):.2f}"
    return told


def main() -> None:
    """The command line."""
    parser = options("kafka", __doc__, OFTEN, "the most of each run", "bench-kafka")
    parser.add_argument("--cases", default="", help="only cases whose name has this regular expression")
    given = parser.parse_args()
    rounds, seconds = how_often(given, OFTEN)
    if why_absent() is None:
        build_franz()
    rows: list[Row] = []
    busy: list[float] = []
    for kernel in kernels(given.kernel):
        with ExitStack() as stack:
            display = Display(rounds * (len(THROUGHPUT) + len(LATENCIES)), stack)
            bench = Bench(kernel, rounds, seconds, given.cases, display)
            rows += bench.rows()
            busy += bench.busy
    tell(given, "Kafka's clients", how(busy, rounds, seconds), rows)


if __name__ == "__main__":
    main()
