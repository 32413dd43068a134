"""`make kafka`: stock clients of Kafka's protocol against one broker of ours, and against three.

Every producer writes with every codec, and every consumer reads everything: the records must be those that
were sent, in their order, at the offsets that the producer was told. kcat, where it is installed, lists the
topics and their offsets. The probes beside the repository walk through all that a client can do, a program
makes the calls of a user interface, and Spark's own Kafka source and sink stand beside ours. What needs
groups or transactions is listed as not yet there. Exit code 1 when another step failed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tank_client.sync import Client
from tests.kafka_clients import probes, spark
from tests.kafka_clients.libraries import LIBRARIES, NotInstalledError, StockLibrary, java_command
from tests.kafka_clients.matrix import (
    STEP_TIMEOUT_S,
    Record,
    Step,
    consume,
    difference,
    produce,
    producers,
    written,
)
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.cluster import running_cluster
from tests.support.waiting import until

ROOT: Final = Path(__file__).parents[2]
TOPIC: Final = "matrix"
KCAT_TOPIC: Final = f"{TOPIC}-kcat"
SPARK_TOPIC, SPARK_COPY = f"{TOPIC}-spark", f"{TOPIC}-spark-copy"
PROBE_TOPIC: Final = "v0"
"""Of the probe that speaks to one broker alone, and takes a second topic with a `b` behind the name."""
TRIES: Final = 12
"""The most topics that are made until one has the leader that it has to have: three brokers take turns."""
TOPICS: Final = {TOPIC: 1, KCAT_TOPIC: 1, SPARK_TOPIC: 2, SPARK_COPY: 2}
"""With their partitions."""
SPARK: Final = "spark"
ADMIN_STEPS: Final = 23
ADMIN_NOT_YET: Final = frozenset({"listConsumerGroups", "listTransactions"})
FOLDER: Final = ROOT / "out" / "kafka_clients"


@dataclass(frozen=True, slots=True)
class Servers:
    """Brokers as their clients know them."""

    kafka: str
    tank: str
    leader: str
    """The address for Kafka's clients of the one that leads the probe's topics."""
    probe_topic: str
    """The probe's topic; empty: it makes one by asking for it."""


class Run:
    """The steps of one run against brokers."""

    def __init__(self, servers: Servers, folder: Path, libraries: list[StockLibrary], brokers: int) -> None:
        self.servers = servers.kafka
        self.tank_servers = servers.tank
        self.leader = servers.leader
        self.probe_topic = servers.probe_topic
        self.folder = folder
        self.libraries = libraries
        self.brokers = brokers
        self.steps: list[Step] = []
        self.sent: list[Record] = []
        """All records of the topic, in their order."""

    def step(self, name: str, work: Callable[[], str]) -> None:
        """Runs a step, which returns what is wrong (empty: nothing) or raises."""
        began = time.monotonic()
        try:
            problem = work()
        except (RuntimeError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
        self._done(name, problem, began)

    def _done(self, name: str, problem: str, began: float) -> None:
        """Notes a step that has ended, and prints its outcome."""
        done = Step(name, problem, time.monotonic() - began)
        self.steps.append(done)
        print(f"  {'FAILED' if problem else 'ok    '} {done.seconds:5.1f} s  {name}", flush=True)
        if problem:
            print(f"         {problem}", flush=True)

    def matrix(self) -> None:
        """Each producer with each codec, then each consumer."""
        for library, codec in producers(self.libraries):
            name = f"{library.name}-{codec}"
            self.step(f"{library.name} produces, {codec}", lambda: self._produce(library, codec, name))  # noqa: B023
        for library in self.libraries:
            if library.has_consumer:
                self.step(
                    f"{library.name} consumes {len(self.sent)} records",
                    lambda: difference(
                        consume(library, self.folder, self.servers, TOPIC, len(self.sent)),  # noqa: B023
                        self.sent,
                    ),
                )

    def _produce(self, library: StockLibrary, codec: str, name: str) -> str:
        told = produce(library, self.folder, self.servers, TOPIC, codec, name)
        wanted = written(name, len(self.sent))
        if told != [record.offset for record in wanted]:
            return f"the producer was told the offsets {told[:3]}..., where {wanted[0].offset} is the first"
        self.sent += wanted
        return ""

    def kcat(self) -> None:
        """Lists topics and looks up offsets with kcat."""
        if shutil.which("kcat") is None:
            print("  left out: there is no kcat", flush=True)
            return
        self.step(
            "kcat -L", lambda: _missing(self._kcat("-L"), f'topic "{TOPIC}"', f"{self.brokers} brokers:")
        )
        self.step(
            "kcat -Q, the beginning", lambda: _missing(self._kcat("-Q", "-t", f"{TOPIC}:0:-2"), "offset 0")
        )
        self.step(
            "kcat -Q, the end",
            lambda: _missing(self._kcat("-Q", "-t", f"{TOPIC}:0:-1"), f"offset {len(self.sent)}"),
        )
        self.step("kcat -P", lambda: self._kcat("-P", "-t", KCAT_TOPIC, "-p", "0", typed="one\ntwo\n") and "")
        self.step(
            "kcat -C",
            lambda: _missing(self._kcat("-C", "-t", KCAT_TOPIC, "-p", "0", "-e", "-q"), "one\ntwo"),
        )

    def all_probes(self) -> None:
        """The probes beside the repository."""
        if not probes.PROBES.exists():
            print(f"  left out: the probes, for there is no {probes.PROBES}", flush=True)
            return
        names = {library.name for library in self.libraries}
        for probe in probes.ALL:
            if not probe.library or probe.library in names:
                server, more = self._probed(probe)
                self._outcomes(
                    probe.file,
                    lambda: probe.run(self.folder, server, *more),  # noqa: B023
                    probe.not_yet,
                    probe.never,
                )

    def _probed(self, probe: probes.Probe) -> tuple[str, list[str]]:
        """The broker that a probe speaks to, and what its command says more."""
        if not probe.library:
            return self.leader, [self.probe_topic] if self.probe_topic else []
        return self.servers.split(",")[0], []

    def admin_calls(self) -> None:
        """What a user interface for Kafka asks."""
        if any(library.name == "Java" for library in self.libraries):
            command = [*java_command(self.folder, "AdminCalls"), self.servers]
            self._outcomes(
                "a user interface's calls",
                lambda: probes.outcomes(command, ADMIN_STEPS),
                ADMIN_NOT_YET,
                frozenset(),
            )

    def spark_job(self) -> None:
        """Spark's own Kafka source and sink, and ours, on the same topic."""
        began = time.monotonic()
        try:
            found = spark.run(self.folder, self.servers, self.tank_servers, SPARK_TOPIC, SPARK_COPY)
        except RuntimeError as error:
            found = [("the job", str(error))]
        for name, problem in found:
            self._done(f"Spark {spark.VERSION}: {name}", problem, began)
            began = time.monotonic()

    def _outcomes(
        self,
        program: str,
        run: Callable[[], list[probes.Outcome]],
        not_yet: frozenset[str],
        never: frozenset[str],
    ) -> None:
        """Notes the steps of a program that prints them."""
        began = time.monotonic()
        try:
            found = run()
        except RuntimeError as error:
            found = [probes.Outcome("all steps", str(error))]
        for name, problem in found:
            if name in not_yet:
                print(f"  not yet       {program}: {name}", flush=True)
            elif name in never:
                print(f"  left out: {program}: {name}: the library itself can't", flush=True)
            else:
                self._done(f"{program}: {name}", problem, began)
            began = time.monotonic()

    def _kcat(self, *arguments: str, typed: str = "") -> str:
        ended = subprocess.run(
            ["kcat", "-b", self.servers, *arguments],
            input=typed,
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(ended.stderr.strip()[-300:])
        return ended.stdout


def _missing(printed: str, *wanted: str) -> str:
    lacking = [text for text in wanted if text not in printed]
    return f"{lacking} is not in {printed[-300:]!r}" if lacking else ""


@contextmanager
def one_broker(folder: Path) -> Iterator[Servers]:
    """A broker alone, which creates topics that clients ask for."""
    with BrokerProcess(folder / "one") as broker:
        with Client(broker.address) as client:
            _create_topics(client)
        kafka = f"127.0.0.1:{broker.kafka_port}"
        yield Servers(kafka, broker.address, kafka, "")


@contextmanager
def three_brokers(folder: Path) -> Iterator[Servers]:
    """A cluster of three, which creates no topics by itself."""
    with running_cluster(folder / "three") as cluster:
        brokers = cluster.processes("broker")
        tank = ",".join(str(broker.addresses["tank"]) for broker in brokers)
        kafka = {broker.number: str(broker.addresses["kafka"]) for broker in brokers}
        with Client(tank) as client:
            _create_topics(client)
            leader = _create_led_together(client)
        yield Servers(",".join(kafka.values()), tank, kafka[leader], PROBE_TOPIC)


def _create_topics(client: Client) -> None:
    for topic, partitions in TOPICS.items():
        client.admin.create_topic(topic, partitions, settings={"log.format": "kafka"})


def _create_led_together(client: Client) -> int:
    """Creates the probe's two topics on one leader, which it returns."""

    def created(topic: str) -> int:
        client.admin.create_topic(topic, settings={"log.format": "kafka"})
        led: list[int] = []

        def look() -> bool:
            leader = client.admin.describe_topics([topic])[0].partitions[0].leader
            led[:] = [] if leader is None else [leader]
            return bool(led)

        until(look, f"{topic} has no leader")
        return led[0]

    leader = created(PROBE_TOPIC)
    for number in range(TRIES):
        if created(f"{PROBE_TOPIC}b") == leader:
            return leader
        client.admin.delete_topic(f"{PROBE_TOPIC}b")
        created(f"filling-{number}")
    raise AssertionError(f"no topic of {TRIES} is led by broker {leader}")


def installed(folder: Path, names: list[str]) -> list[StockLibrary]:
    """Installs the libraries; returns those that could be."""
    found = []
    for library in LIBRARIES:
        if names and library.name.lower() not in names:
            continue
        try:
            library.install(folder)
        except NotInstalledError as error:
            print(f"left out: {library.name}: {error}", flush=True)
        else:
            found.append(library)
    return found


def _has_spark(folder: Path) -> bool:
    """Installs Spark; whether it could be."""
    try:
        spark.install(folder)
    except NotInstalledError as error:
        print(f"left out: Spark: {error}", flush=True)
        return False
    return True


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients", description=__doc__)
    parser.add_argument("--brokers", choices=("1", "3", "both"), default="both")
    parser.add_argument("--library", action="append", default=[], help="this one alone; may be repeated")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the libraries are installed")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    names = [name.lower() for name in chosen.library]
    libraries = installed(chosen.folder, names)
    has_spark = (not names or SPARK in names) and _has_spark(chosen.folder)
    found = [f"{each.name} {each.version}" for each in libraries]
    found += [f"Spark {spark.VERSION}"] if has_spark else []
    print(f"libraries: {', '.join(found) or 'none'}", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tank-kafka-") as made:
        for count, brokers in ((1, one_broker), (3, three_brokers)):
            if chosen.brokers in ("both", str(count)):
                print(f"against {count} broker{'s' if count > 1 else ''}:", flush=True)
                with brokers(Path(made)) as servers:
                    run = Run(servers, chosen.folder, libraries, count)
                    if libraries:
                        run.matrix()
                        run.kcat()
                        run.all_probes()
                        run.admin_calls()
                    if has_spark:
                        run.spark_job()
                failed += sum(bool(step.problem) for step in run.steps)
                print(f"{len(run.steps)} steps, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
