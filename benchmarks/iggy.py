"""Iggy's front beside Kafka's: what a message costs that an Iggy client sends and polls, latency on three
replicas, memory with many clients, and the wait of a stock client whose partition's leader is killed.

python -m benchmarks.iggy [--rounds N] [--seconds S] [--kernel pure|compiled|both] [--cases REGEX]
                              [--quick] [--markdown] [--rows]

Loads are raw frames of clients of servers 0.7 and 0.8, from a process of their own. In turn with each, the
same messages go through the Kafka front of the same broker. IGGY_SERVER names the program of a server of
Iggy's of one of these versions: then the same frames go to it, too. Topics have `flush=replicated`: Iggy's
server, too, acknowledges what is in memory.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import iggy_frames, kafka_frames
from benchmarks.harness.closed_loops import Answered
from benchmarks.harness.command_line import Often, how_often, options, tell
from benchmarks.harness.display import Display
from benchmarks.harness.iggy_frames import IggyConnection, poll_frame, send_frame
from benchmarks.harness.load_generator import LoadFailed
from benchmarks.harness.local_cluster import ClusterFailed, LocalCluster, running_cluster
from benchmarks.harness.paired import Pair, least
from benchmarks.harness.servers import Kernel, NotListening, free_port, kernels, ours, running
from benchmarks.harness.stock_failover import stock_waits
from benchmarks.harness.table import Reached, Row, spread
from tank_client import TankError
from tank_client.sync import Client

OFTEN = Often(rounds=5, seconds=4, quick_rounds=1, quick_seconds=1)
SERVER = "IGGY_SERVER"
MESSAGES: Final = 1_000
"""Of a request."""
PAYLOAD_BYTES: Final = 100
CONNECTIONS: Final = 4
"""Each with one request at a time, as stock clients have it."""
MOST_REQUESTS: Final = 2_000
"""Of a run: 220 MB, which stay in memory."""
WARM_REQUESTS: Final = 200
SEND_US, POLL_US = 0.15, 0.1
RATE: Final = 1_000
P50_MS: Final = 0.5
CLIENTS: Final = 1_000
CLIENTS_MIB: Final = 110
KILLED_S: Final = 1.5
FAILOVER_START_S, FAILOVER_ROUND_S = 300.0, 90.0
ROOT_S: Final = 60.0
"""How long a new cluster may take until clients can log in."""
SETTLE_S: Final = 2.0
MIB = 1 << 20
KAFKA_TOPIC = "kafka"
SETTINGS = {"log.format": "kafka", "flush": "replicated"}


class IggyBench:
    """The cases, on one kernel."""

    def __init__(self, kernel: Kernel, rounds: int, seconds: float, chosen: str, display: Display) -> None:
        self.kernel, self.rounds, self.seconds, self.display = kernel, rounds, seconds, display
        self._chosen = re.compile(chosen)

    def rows(self) -> Iterator[Row]:
        """All rows of the chosen cases; a failed case gets a row that says so."""
        cases: tuple[tuple[str, Callable[[], Iterator[Row]]], ...] = (
            ("one node", self._throughput),
            ("server of Iggy's", self._beside),
            ("three replicas", self._latency),
            (f"{CLIENTS:,} clients", self._memory),
            ("leader killed", self._leader_killed),
        )
        for name, case in cases:
            if not self._chosen.search(name):
                continue
            self.display.begin(name)
            try:
                for row in case():
                    self.display.say(f"{row.name}: {row.figure}  {row.beside} {row.ratio}")
                    yield row
            except (ClusterFailed, LoadFailed, NotListening, TankError, OSError) as failure:
                self.display.say(f"FAILED {name}: {failure}")
                yield Row(name, "failed", reached=Reached.NO, kernel=self.kernel)

    def _run(self, loop: Callable[..., Answered], frame: bytes, **more: object) -> dict[str, Any]:
        """Runs a load behind a short one that isn't counted; the server's processor time a message."""
        loop(frames=[frame], seconds=self.seconds, most=WARM_REQUESTS, connections=CONNECTIONS, **more)
        done = loop(frames=[frame], seconds=self.seconds, most=MOST_REQUESTS, connections=CONNECTIONS, **more)
        messages = done.requests * MESSAGES
        return {"server_us_msg": done.server_s / messages * 1e6, "msg_s": messages / done.seconds}

    def _throughput(self) -> Iterator[Row]:
        """Sends, then polls of what was sent; and the same by Kafka's front, in turn with it."""
        sends: list[Pair] = []
        polls: list[Pair] = []
        batch = kafka_frames.batch_of(MESSAGES, PAYLOAD_BYTES)
        for number in range(self.rounds):
            with one_node(self.kernel) as (iggy, kafka, pid):
                by_iggy = partial(self._run, partial(iggy_frames.run_frames, iggy, pid))
                by_kafka = partial(self._run, partial(kafka_frames.run_frames, kafka, pid), depth=1)
                # Rotated, because the first one finds colder caches.
                runs: list[Callable[[], dict[str, Any]]] = [
                    partial(by_iggy, send_frame("some", MESSAGES, PAYLOAD_BYTES)),
                    partial(by_kafka, kafka_frames.produce_frame(KAFKA_TOPIC, 0, batch)),
                ]
                sends.append(_in_turn(runs, number))
                runs = [
                    partial(by_iggy, poll_frame("some", 0, MESSAGES)),
                    partial(by_kafka, kafka_frames.fetch_frame(KAFKA_TOPIC, 0, 0)),
                ]
                polls.append(_in_turn(runs, number))
            self.display.ran()
        sizes = f"{MESSAGES:,} × {PAYLOAD_BYTES} B a request, one node, beside Kafka's front"
        yield least(f"send {sizes}: CPU a message", self.kernel, sends, "server_us_msg", SEND_US, "µs", 3)
        yield least(f"poll {sizes}: CPU a message", self.kernel, polls, "server_us_msg", POLL_US, "µs", 3)

    def _beside(self) -> Iterator[Row]:
        """The same sends and polls, in turn with a server of Iggy's."""
        program = os.environ.get(SERVER)
        if not program:
            print(f"No server of Iggy's runs beside ours: {SERVER} names none.", file=sys.stderr)
            return
        sends: list[Pair] = []
        polls: list[Pair] = []
        for number in range(self.rounds):
            with one_node(self.kernel) as (iggy, _, pid), server_of_iggy(program) as (other, other_pid):
                runs = [
                    partial(self._run, partial(iggy_frames.run_frames, address, of))
                    for address, of in ((iggy, pid), (other, other_pid))
                ]
                frame = send_frame("some", MESSAGES, PAYLOAD_BYTES)
                sends.append(_in_turn([partial(run, frame) for run in runs], number))
                frame = poll_frame("some", 0, MESSAGES)
                polls.append(_in_turn([partial(run, frame) for run in runs], number))
        sizes = f"{MESSAGES:,} × {PAYLOAD_BYTES} B a request, one node, beside a server of Iggy's"
        yield least(f"send {sizes}: CPU a message", self.kernel, sends, "server_us_msg", None, "µs", 3)
        yield least(f"poll {sizes}: CPU a message", self.kernel, polls, "server_us_msg", None, "µs", 3)

    def _latency(self) -> Iterator[Row]:
        """Single messages at a steady rate, sent to the partition's leader and to another broker."""
        near: list[dict[str, Any]] = []
        far: list[dict[str, Any]] = []
        with three_nodes(self.kernel) as cluster:
            leader, other = _leader_and_other(cluster)
            frame = send_frame("some", 1, PAYLOAD_BYTES)
            for _ in range(self.rounds):
                for address, found in ((leader, near), (other, far)):
                    iggy_frames.run_paced(address, frame, rate=RATE, seconds=self.seconds / 4)
                    times = iggy_frames.run_paced(address, frame, rate=RATE, seconds=self.seconds)
                    found.append({"p50_ms": statistics.median(times), "p99_ms": _p99(times)})
                self.display.ran()
        what = f"{RATE:,} single messages of {PAYLOAD_BYTES} B a second, three replicas"
        for where, found, bar in (("to the leader", near, P50_MS), ("to another broker", far, None)):
            pairs: list[Pair] = [(each, None) for each in found]
            yield least(f"{what}, {where}: p50", self.kernel, pairs, "p50_ms", bar, "ms", 2)
            yield least(f"{what}, {where}: p99", self.kernel, pairs, "p99_ms", None, "ms", 2)

    def _memory(self) -> Iterator[Row]:
        """The memory of a broker to which many clients are connected, each of which has sent and polled."""
        with ExitStack() as stack:
            iggy, _, pid = stack.enter_context(one_node(self.kernel))
            frames = send_frame("some", 1, PAYLOAD_BYTES), poll_frame("some", 0, 10)
            for _ in range(CLIENTS):
                connection = IggyConnection(iggy)
                stack.callback(connection.close)
                connection.login()
                for frame in frames:
                    connection.ask(frame)
            time.sleep(SETTLE_S)
            mib = _resident_mib(pid)
        yield Row(
            f"memory of a broker with {CLIENTS:,} clients that have sent and polled", f"{mib:.0f} MiB",
            f"< {CLIENTS_MIB} MiB", Reached.of([mib < CLIENTS_MIB]), self.kernel, values=(mib,),
        )  # fmt: skip

    def _leader_killed(self) -> Iterator[Row]:
        """The wait of the stock Python client, by the command that the tests have for it."""
        timeout_s = FAILOVER_START_S + self.rounds * FAILOVER_ROUND_S
        for found in stock_waits("tests.iggy_clients.failover", self.kernel, self.rounds, timeout_s):
            times = tuple(found["acknowledged"])
            yield Row(
                f"leader killed, {found['client']}: until a send is acknowledged", f"{spread(times, 2)} s",
                f"≤ {KILLED_S:g} s", Reached.of(value <= KILLED_S for value in times), self.kernel,
                values=times,
            )  # fmt: skip


def _in_turn(runs: list[Callable[[], dict[str, Any]]], number: int) -> Pair:
    """Runs both, in an order that changes each time."""
    if number % 2:
        later = runs[1]()
        return runs[0](), later
    return runs[0](), runs[1]()


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[-1]


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LoadFailed(f"the system tells no memory of process {pid}")


def _prepared(address: str, replicas: int) -> None:
    """Makes the topic as soon as clients can log in. LoadFailed."""
    until = time.monotonic() + ROOT_S
    while True:
        try:
            connection = IggyConnection(address)
            connection.login()
            break
        except (LoadFailed, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
    connection.create("some", replicas)
    connection.close()


@contextmanager
def one_node(kernel: Kernel) -> Iterator[tuple[str, str, int]]:
    """Yields a broker's addresses for Iggy's clients and for Kafka's, with a topic for each, and its process.
    NotListening, LoadFailed."""
    iggy, kafka = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with running(ours(kernel), "--iggy", iggy, "--kafka", kafka, "--flush", "replicated") as broker:
        with Client(f"127.0.0.1:{broker.port}") as client:
            client.admin.create_topic(KAFKA_TOPIC, 1, 1, SETTINGS)
        _prepared(iggy, 1)
        yield iggy, kafka, broker.pid


@contextmanager
def three_nodes(kernel: Kernel) -> Iterator[LocalCluster]:
    """Yields three brokers and three controllers of ours, with the topic. ClusterFailed, LoadFailed."""
    with running_cluster(kernel, variables={"TANK_FLUSH": "replicated"}, options=["--iggy"]) as cluster:
        assert cluster.brokers[0].iggy is not None
        _prepared(cluster.brokers[0].iggy, 3)
        yield cluster


def _leader_and_other(cluster: LocalCluster) -> tuple[str, str]:
    """The addresses of the partition's leader, and of another broker, for Iggy's clients."""
    with Client(cluster.servers) as client:
        leader = cluster.leader(client, f"{iggy_frames.STREAM}.some")
    (other, *_) = [broker for broker in cluster.brokers if broker.number != leader.number]
    assert leader.iggy is not None
    assert other.iggy is not None
    return leader.iggy, other.iggy


@contextmanager
def server_of_iggy(program: str) -> Iterator[tuple[str, int]]:
    """Yields the address and the process of a server of Iggy's, with the topic. LoadFailed."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="tank-bench-iggy-") as folder:
        settings = {
            "IGGY_TCP_ADDRESS": address, "IGGY_TCP_ENABLED": "true", "IGGY_HTTP_ENABLED": "false",
            "IGGY_QUIC_ENABLED": "false", "IGGY_WEBSOCKET_ENABLED": "false", "IGGY_SYSTEM_PATH": folder,
            "IGGY_ROOT_USERNAME": iggy_frames.USER, "IGGY_ROOT_PASSWORD": iggy_frames.USER,
        }  # fmt: skip
        server = subprocess.Popen(
            [program], cwd=folder, env=os.environ | settings, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _prepared(address, 1)
            yield address, server.pid
        finally:
            server.kill()
            server.wait()


def how(rounds: int, seconds: float) -> str:
    """The description of the measurement."""
    return (
        f"raw frames of era B3, {CONNECTIONS} connections of one request, 1 partition, at most {seconds:g} s "
        f"a run, {rounds} rounds, in turn with what is beside"
    )


def main() -> None:
    """The command line."""
    parser = options("iggy", __doc__, OFTEN, "the most of each run", "bench-iggy")
    parser.add_argument("--cases", default="", help="only cases whose name has this regular expression")
    given = parser.parse_args()
    rounds, seconds = how_often(given, OFTEN)
    rows: list[Row] = []
    for kernel in kernels(given.kernel):
        with ExitStack() as stack:
            bench = IggyBench(kernel, rounds, seconds, given.cases, Display(2 * rounds, stack))
            rows += bench.rows()
    tell(given, "Iggy's clients", how(rounds, seconds), rows)


if __name__ == "__main__":
    main()
