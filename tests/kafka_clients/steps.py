"""All steps of a run against some brokers, one after the other, each with its outcome."""

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from tests.kafka_clients import connect, coordinator_kill, groups, probes, registry, spark
from tests.kafka_clients.beside.scripts import SCRIPTS
from tests.kafka_clients.beside.side_by_side import both, compared
from tests.kafka_clients.brokers import (
    BUNDLES_TOPIC,
    GROUP_TOPIC,
    KCAT_TOPIC,
    SPARK_COPY,
    SPARK_TOPIC,
    TOPIC,
    Servers,
)
from tests.kafka_clients.libraries import StockLibrary, java_command
from tests.kafka_clients.matrix import (
    STEP_TIMEOUT_S,
    Record,
    consume,
    difference,
    produce,
    producers,
    written,
)

KCAT: Final = "kcat"
KCAT_STEPS: Final = 6
GROUPS: Final = "groups"
SPARK: Final = "Spark"
ADMIN_CALLS: Final = "AdminCalls"
ADMIN_STEPS: Final = 23
ADMIN_NOT_YET: Final = frozenset({"listTransactions"})
GROUP_CALLS: Final = "GroupCalls"
GROUP_CALL_STEPS: Final = {groups.CLASSIC: 16, groups.CONSUMER: 14}
FRANZ_GO_CALLS: Final = "franz-go groups"
FRANZ_GO_CALL_STEPS: Final = 12
KILLS: Final = "kills"
MATRIX, PROBES, CALLS = "matrix", "probes", "calls"
PARTS: Final = (MATRIX, GROUPS, KCAT, PROBES, CALLS, KILLS)
"""What can be left out of the libraries' steps."""
CONNECT: Final = "Connect"
REGISTRY: Final = "Registry"
BESIDE: Final = "Kafka"
EXTRAS: Final = (SPARK, CONNECT, REGISTRY, BESIDE)
"""What can be left out like a library."""
BY_THE_BROKER: Final = "group_consumer848"
"""A step of a probe that needs brokers which assign partitions."""


class Outcome(Enum):
    """How a step ended; the value is what the screen says."""

    OK = "ok"
    FAILED = "FAILED"
    NOT_YET = "not yet"
    """It needs transactions."""
    LEFT_OUT = "left out"
    """The library itself can't."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run, and its outcome."""

    program: str
    """The library whose program it is, the probe's file, `kcat`, `Spark`, or `AdminCalls`."""
    name: str
    outcome: Outcome
    problem: str
    """What went wrong; empty unless it failed."""
    seconds: float
    codec: str = ""
    """With which a producer wrote; empty for all other steps."""
    note: str = ""
    """What was measured; empty: nothing."""


class Run:
    """The steps of one run against brokers."""

    def __init__(
        self,
        servers: Servers,
        folder: Path,
        libraries: list[StockLibrary],
        brokers: int,
        tell: Callable[[Step], None],
    ) -> None:
        """`folder`: where the libraries are installed. `brokers`: how many. `tell`: is given each step."""
        self._servers = servers
        self._folder = folder
        self._libraries = libraries
        self._brokers = brokers
        self._tell = tell
        self._sent: dict[str, list[Record]] = {TOPIC: [], BUNDLES_TOPIC: []}
        """All records of the topics of the matrix, in their order."""

    def all(self, extras: frozenset[str], parts: frozenset[str]) -> None:
        """All steps for which something is installed. Args: extras: some of EXTRAS. parts: some of PARTS."""
        if self._libraries:
            if MATRIX in parts:
                self._matrix(TOPIC)
                self._matrix(BUNDLES_TOPIC)
            if GROUPS in parts:
                self._groups()
            if KCAT in parts and has_kcat():
                self._kcat_steps()
            if PROBES in parts:
                self._all_probes()
            if CALLS in parts:
                self._admin_calls()
                self._group_calls()
        if SPARK in extras:
            self._spark_job()
        if BESIDE in extras and self._brokers == 1:
            self._beside_kafka()
        if KILLS in parts:
            self._killed_coordinators()
        if CONNECT in extras:
            self._connect()
        if REGISTRY in extras:
            self._registry()

    def _step(self, program: str, name: str, work: Callable[[], str], codec: str = "") -> None:
        """Runs a step, which returns what is wrong (empty: nothing) or raises."""
        began = time.monotonic()
        try:
            problem = work()
        except (RuntimeError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
        self._done(program, name, problem, began, codec)

    def _done(
        self, program: str, name: str, problem: str, began: float, codec: str = "", note: str = ""
    ) -> None:
        outcome = Outcome.FAILED if problem else Outcome.OK
        self._tell(Step(program, name, outcome, problem, time.monotonic() - began, codec, note))

    def _not_yet(self, program: str, name: str) -> None:
        self._tell(Step(program, name, Outcome.NOT_YET, "", 0.0))

    def _matrix(self, topic: str) -> None:
        """Each producer with each codec, then each consumer."""
        form = "bundles" if topic == BUNDLES_TOPIC else "record batches"
        sent = self._sent[topic]
        for library, codec in producers(self._libraries):
            self._step(
                library.name,
                f"produces, {codec}, {form}",
                lambda: self._produce(library, topic, codec),  # noqa: B023
                codec,
            )
        for library in self._libraries:
            if not library.no_consumer:
                self._step(
                    library.name,
                    f"consumes {len(sent)} records, {form}",
                    lambda: difference(
                        consume(library, self._folder, self._of(library), topic, len(sent)),  # noqa: B023
                        sent,
                    ),
                )

    def _of(self, library: StockLibrary) -> str:
        """The servers that a library connects to."""
        return self._servers.tank if library.speaks_tank else self._servers.kafka

    def _produce(self, library: StockLibrary, topic: str, codec: str) -> str:
        sent = self._sent[topic]
        kind = "all" if library.null_headers else "no-null-headers"
        kind = "plain" if topic == BUNDLES_TOPIC else kind
        name = f"{library.name}-{codec}"
        told = produce(library, self._folder, self._of(library), topic, codec, name, kind)
        wanted = written(name, len(sent), kind)
        if told != [record.offset for record in wanted]:
            return f"the producer was told the offsets {told[:3]}..., where {wanted[0].offset} is the first"
        sent += wanted
        return ""

    def _groups(self) -> None:
        """Members of groups: of each library, and of all in one."""
        tests = self._group_tests()
        for library in groups.able(self._libraries):
            name = f"{library.name}'s own example"
            self._step(GROUPS, name, lambda: tests.introduction(library))  # noqa: B023
            for name, work in tests.of_one_library(library):
                self._step(GROUPS, f"{library.name} {name}", work)
        agreed = groups.agreeing(self._libraries)
        if agreed:
            names = ", ".join(library.name for library in agreed)
            self._step(GROUPS, f"one of {names}", lambda: tests.of_all_libraries(agreed))
        self._groups_by_the_broker(tests)

    def _group_tests(self) -> groups.GroupTests:
        return groups.GroupTests(self._folder, self._servers.kafka, self._servers.tank, GROUP_TOPIC)

    def _groups_by_the_broker(self, tests: groups.GroupTests) -> None:
        """Members of groups whose broker assigns the partitions, and of groups that become such ones, and
        the other way round."""
        libraries, mixed = groups.assigned_by_broker(self._libraries), groups.mixed(self._libraries)
        if not self._servers.assign_partitions:
            for library in libraries:
                self._not_yet(GROUPS, f"{library.name}, by the broker")
            return
        for library in libraries:
            for name, work in tests.of_one_library(library, groups.CONSUMER):
                self._step(GROUPS, f"{library.name}, by the broker, {name}", work)
        if mixed:
            one, other = mixed
            for kinds in ((groups.CLASSIC, groups.CONSUMER), (groups.CONSUMER, groups.CLASSIC)):
                name = f"{one.name} and {other.name}, from {kinds[0]} to {kinds[1]}"
                self._step(GROUPS, name, lambda: tests.changes_its_kind(one, other, kinds))  # noqa: B023

    def _killed_coordinators(self) -> None:
        """Coordinators that are killed under members, where there are others to take over."""
        cluster = self._servers.cluster
        by_name = {library.name: library for library in self._libraries}
        for name in coordinator_kill.LIBRARIES:
            if cluster is not None and name in by_name:
                began, note = time.monotonic(), ""
                try:
                    found = coordinator_kill.killed(self._group_tests(), cluster, by_name[name])
                    problem, note = found.problem, found.note
                except (AssertionError, RuntimeError, OSError, ValueError) as error:
                    problem = str(error) or type(error).__name__
                self._done(KILLS, name, problem, began, note=note)

    def _connect(self) -> None:
        """Kafka Connect, where there are three brokers for its topics."""
        servers = self._servers
        if servers.cluster is not None:
            work = servers.cluster.data.parent / "connect"
            tests = connect.ConnectTests(self._folder, work, servers.kafka, servers.tank, servers.cluster)
            for name, step in tests.steps():
                self._step(CONNECT, name, step)

    def _registry(self) -> None:
        """A schema registry, where there are three brokers for its topics."""
        servers = self._servers
        if servers.cluster is not None:
            work = servers.cluster.data.parent / "registry"
            tests = registry.RegistryTests(self._folder, work, servers.kafka, servers.cluster)
            for name, step in tests.steps():
                self._step(REGISTRY, name, step)

    def _beside_kafka(self) -> None:
        """Real Kafka beside a broker of ours, answer by answer."""
        began = time.monotonic()
        try:
            found = dict(compared(*both(self._folder, "", lambda _: None)))
        except (AssertionError, RuntimeError, OSError) as error:
            found = {"all scripts": [str(error)]}
        for script, problems in found.items():
            self._done(BESIDE, script, "; ".join(problems), began)
            began = time.monotonic()

    def _kcat_steps(self) -> None:
        """Lists topics, looks up offsets, writes and reads with kcat."""
        kafka, end = self._servers.kafka, len(self._sent[TOPIC])
        for name, wanted, typed in (
            ("-L", [f'topic "{TOPIC}"', f"{self._brokers} brokers:"], ""),
            (f"-Q -t {TOPIC}:0:-2", ["offset 0"], ""),
            (f"-Q -t {TOPIC}:0:-1", [f"offset {end}"], ""),
            (f"-P -t {KCAT_TOPIC} -p 0", [], "one\ntwo\n"),
            (f"-C -t {KCAT_TOPIC} -p 0 -e -q", ["one\ntwo"], ""),
            (f"-X auto.offset.reset=earliest -c 2 -q -G kcat {KCAT_TOPIC}", ["one\ntwo"], ""),
        ):
            self._step(
                KCAT,
                name,
                lambda: _missing(_kcat(kafka, *name.split(), typed=typed), *wanted),  # noqa: B023
            )

    def _all_probes(self) -> None:
        """The probes beside the repository."""
        for probe in probes.chosen(self._libraries):
            server, more = self._probed(probe)
            self._outcomes(
                probe.file,
                lambda: probe.run(self._folder, server, *more),  # noqa: B023
                probe.not_yet | (frozenset() if self._servers.assign_partitions else {BY_THE_BROKER}),
                probe.never,
            )

    def _probed(self, probe: probes.Probe) -> tuple[str, list[str]]:
        """The broker that a probe speaks to, and what its command says more."""
        servers = self._servers
        if not probe.library:
            return servers.leader, [servers.probe_topic] if servers.probe_topic else []
        return servers.kafka.split(",")[0], []

    def _admin_calls(self) -> None:
        """What a user interface for Kafka asks."""
        if has_java(self._libraries):
            command = [*java_command(self._folder, ADMIN_CALLS), self._servers.kafka]
            self._outcomes(
                ADMIN_CALLS, lambda: probes.outcomes(command, ADMIN_STEPS), ADMIN_NOT_YET, frozenset()
            )

    def _group_calls(self) -> None:
        """What administrators ask of groups, by Java's client and by franz-go."""
        self._group_tests().send()  # so that members have something to read
        if has_java(self._libraries):
            for protocol, steps in GROUP_CALL_STEPS.items():
                if protocol == groups.CONSUMER and not self._servers.assign_partitions:
                    self._not_yet(GROUP_CALLS, f"of a group by the protocol {protocol}")
                    continue
                command = [
                    *java_command(self._folder, GROUP_CALLS),
                    self._servers.kafka,
                    GROUP_TOPIC,
                    protocol,
                ]
                self._outcomes(
                    GROUP_CALLS,
                    lambda: probes.outcomes(command, steps),  # noqa: B023
                    frozenset(),
                    frozenset(),
                )
        for library in self._libraries:
            if library.name == "franz-go":
                command = [*library.command(self._folder), "groups", self._servers.kafka, GROUP_TOPIC]
                self._outcomes(
                    FRANZ_GO_CALLS,
                    lambda: probes.outcomes(command, FRANZ_GO_CALL_STEPS),  # noqa: B023
                    frozenset(),
                    frozenset(),
                )

    def _spark_job(self) -> None:
        """Spark's own Kafka source and sink, and ours, on the same topic."""
        servers = self._servers
        self._outcomes(
            SPARK,
            lambda: spark.run(self._folder, servers.kafka, servers.tank, SPARK_TOPIC, SPARK_COPY),
            frozenset(),
            frozenset(),
        )

    def _outcomes(
        self,
        program: str,
        run: Callable[[], list[probes.Told]],
        not_yet: frozenset[str],
        never: frozenset[str],
    ) -> None:
        """Notes the steps of a program that prints them."""
        began = time.monotonic()
        try:
            found = run()
        except RuntimeError as error:
            found = [probes.Told("all steps", str(error))]
        # The programs don't say how long each step took.
        seconds = (time.monotonic() - began) / len(found)
        for name, problem in found:
            outcome = Outcome.OK
            if problem:
                excused = {
                    **dict.fromkeys(not_yet, Outcome.NOT_YET),
                    **dict.fromkeys(never, Outcome.LEFT_OUT),
                }
                outcome = excused.get(name, Outcome.FAILED)
            told = problem if outcome is Outcome.FAILED else ""
            self._tell(Step(program, name, outcome, told, seconds))


def has_kcat() -> bool:
    """Whether kcat is installed."""
    return shutil.which("kcat") is not None


def has_java(libraries: list[StockLibrary]) -> bool:
    """Whether Java's client is among them."""
    return any(library.name == "Java" for library in libraries)


def planned(libraries: list[StockLibrary], extras: frozenset[str], brokers: int) -> int:
    """How many steps `Run.all` has."""
    count = spark.STEPS if SPARK in extras else 0
    if brokers == 1:
        count += len(SCRIPTS) if BESIDE in extras else 0
    else:
        count += connect.STEPS if CONNECT in extras else 0
        count += registry.STEPS if REGISTRY in extras else 0
        count += sum(library.name in coordinator_kill.LIBRARIES for library in libraries)
    if libraries:
        count += 2 * len(list(producers(libraries)))
        count += 2 * sum(not library.no_consumer for library in libraries)
        count += groups.planned(libraries, with_consumer_protocol=True)
        count += KCAT_STEPS if has_kcat() else 0
        count += sum(probe.steps for probe in probes.chosen(libraries))
        count += ADMIN_STEPS + sum(GROUP_CALL_STEPS.values()) if has_java(libraries) else 0
        count += FRANZ_GO_CALL_STEPS if any(each.name == "franz-go" for each in libraries) else 0
    return count


def _kcat(servers: str, *arguments: str, typed: str = "") -> str:
    ended = subprocess.run(
        ["kcat", "-b", servers, *arguments],
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
