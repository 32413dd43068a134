"""Kafka Connect: two workers in distributed mode, a file's lines into a topic, and from there into another
file; over the death of brokers and of a worker."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tank_client.sync import Client
from tests.kafka_clients.java_server import JavaServer, await_replicas, until
from tests.kafka_clients.libraries import Jar, install_jars
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster

VERSION: Final = "4.1.2"
JARS: Final[tuple[Jar, ...]] = (
    ("org.apache.kafka", "connect-runtime", VERSION),
    ("org.apache.kafka", "connect-file", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
GROUP: Final = "connect-workers"
TOPIC: Final = "connect-lines"
LINES: Final = 500
"""How many lines come at a time."""
STEPS: Final = 5
START_S: Final = patient(180.0)
"""The longest that two workers may take to start on a busy machine: some 10 s of a processor's time each."""
WAIT_S: Final = patient(120.0)
"""The longest that lines may take, over a death: sessions of 10 s, and what Connect waits after errors."""


def install(folder: Path) -> None:
    """Installs Connect into a folder. Raises NotInstalledError."""
    install_jars(folder / "connect", JARS, alone=False)


class Worker(JavaServer):
    """A worker process."""

    def __init__(self, folder: Path, work: Path, number: int, servers: str) -> None:
        """Args: folder: where the libraries are installed. work: for its settings and its output."""
        super().__init__(work / f"worker-{number}.output")
        self._properties = work / f"worker-{number}.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings(servers)))
        jars = f"{folder / 'connect/libs'}/*"
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", quiet, "-cp", jars, main]

    def _settings(self, servers: str) -> Iterator[tuple[str, object]]:
        yield from {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "listeners": f"HTTP://127.0.0.1:{self.port}",
            "rest.advertised.host.name": "127.0.0.1",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": 1000,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 1000,
            "scheduled.rebalance.max.delay.ms": 1000,
            "offset.storage.partitions": 4,
        }.items()
        for kind in ("offset", "config", "status"):
            yield f"{kind}.storage.topic", f"connect-{kind}"
            yield f"{kind}.storage.replication.factor", 3

    def __enter__(self) -> Self:
        self.start([*self._command, str(self._properties)])
        return self


@dataclass(slots=True)
class ConnectTests:
    """The steps, in their order. Brokers that are killed are started again."""

    folder: Path
    """Where Connect is installed."""
    work: Path
    """For files of the steps: empty."""
    servers: str
    tank_servers: str
    cluster: LocalCluster

    def steps(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """What each is about, and what it does: it returns what is wrong. Raises RuntimeError."""
        self.work.mkdir(parents=True, exist_ok=True)
        source, sink = self.work / "source", self.work / "sink"
        source.touch()
        lines = 0
        with ExitStack() as stack, Client(self.tank_servers) as client:
            workers: list[Worker] = []

            def start() -> str:
                client.admin.create_topic(TOPIC, 1, settings={"log.format": "kafka"})
                made = [Worker(self.folder, self.work, number, self.servers) for number in range(2)]
                workers.extend(map(stack.enter_context, made))
                until(workers, lambda: all(each.asks("connectors") == [] for each in workers), START_S)
                return ""

            def copies() -> str:
                nonlocal lines
                lines = _append(source, lines)
                common = {"tasks.max": "1"}
                reads = {"connector.class": "FileStreamSource", "file": str(source), "topic": TOPIC}
                writes = {"connector.class": "FileStreamSink", "file": str(sink), "topics": TOPIC}
                for name, config in (("source", reads), ("sink", writes)):
                    put = f"connectors/{name}/config"
                    until(workers, lambda: bool(workers[0].asks(put, config | common)), WAIT_S)  # noqa: B023
                return self._arrives(workers, sink, lines)

            def shares() -> str:
                def are_two() -> bool:
                    placed = {_place(workers[0], name) for name in ("source", "sink")}
                    return None not in placed and len(placed) == 2

                until(workers, are_two, WAIT_S)
                return ""

            def over_brokers() -> str:
                nonlocal lines
                for broker in self.cluster.processes("broker"):
                    lines = _append(source, lines)
                    broker.kill()
                    lines = _append(source, lines)
                    problem = self._arrives(workers, sink, lines)
                    self.cluster.up()
                    if problem:
                        return f"broker {broker.number} was killed: {problem}"
                    await_replicas(self.cluster, WAIT_S)
                return ""

            def over_a_worker() -> str:
                nonlocal lines
                _kill_the_reader(workers)
                lines = _append(source, lines)
                return self._arrives(workers, sink, lines)

            yield "two workers start", start
            yield "a file's lines go through a topic into another file", copies
            yield "each of the workers has a task", shares
            yield "each broker is killed once: all lines arrive", over_brokers
            yield "the worker that reads is killed: all lines arrive", over_a_worker

    def _arrives(self, workers: list[Worker], sink: Path, lines: int) -> str:
        """Waits for all lines; they come at least once, and first in their order."""

        def found() -> list[str]:
            return list(dict.fromkeys(sink.read_text().splitlines())) if sink.exists() else []

        wanted = [_line(number) for number in range(lines)]
        with suppress(TimeoutError):
            until(workers, lambda: len(found()) >= lines, WAIT_S)
        if (came := found()) != wanted:
            missing = [each for each in wanted if each not in set(came)]
            return f"{len(came)} lines of {lines} came, without {missing[:3]}" + (
                "" if missing else ", in another order"
            )
        return ""


def _kill_the_reader(workers: list[Worker]) -> None:
    """Kills the worker that has the source's task, and takes it out."""
    place = _place(workers[0], "source")
    (victim,) = [each for each in workers if place == f"127.0.0.1:{each.port}"]
    workers.remove(victim)
    victim.kill()


def _line(number: int) -> str:
    return f"line {number}"


def _append(file: Path, first: int) -> int:
    """Adds lines to a file; returns how many there are then."""
    with file.open("a") as lines:
        lines.writelines(f"{_line(first + number)}\n" for number in range(LINES))
    return first + LINES


def _place(worker: Worker, connector: str) -> str | None:
    """The worker that has the connector's task, as the workers call it; None: none, or it doesn't run."""
    tasks = worker.asks(f"connectors/{connector}/status")["tasks"]
    return next((str(task["worker_id"]) for task in tasks if task["state"] == "RUNNING"), None)
