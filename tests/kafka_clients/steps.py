"""All steps of a run against some brokers, one after the other, each with its outcome."""

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from tests.kafka_clients import groups, probes, spark
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


class Outcome(Enum):
    """How a step ended; the value is what the screen says."""

    OK = "ok"
    FAILED = "FAILED"
    NOT_YET = "not yet"
    """It needs transactions, or groups whose broker assigns the partitions."""
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

    def all(self, *, with_spark: bool) -> None:
        """All steps for which something is installed."""
        if self._libraries:
            self._matrix(TOPIC)
            self._matrix(BUNDLES_TOPIC)
            self._groups()
            if has_kcat():
                self._kcat_steps()
            self._all_probes()
            self._admin_calls()
        if with_spark:
            self._spark_job()

    def _step(self, program: str, name: str, work: Callable[[], str], codec: str = "") -> None:
        """Runs a step, which returns what is wrong (empty: nothing) or raises."""
        began = time.monotonic()
        try:
            problem = work()
        except (RuntimeError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
        self._done(program, name, problem, began, codec)

    def _done(self, program: str, name: str, problem: str, began: float, codec: str = "") -> None:
        outcome = Outcome.FAILED if problem else Outcome.OK
        self._tell(Step(program, name, outcome, problem, time.monotonic() - began, codec))

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
        tests = groups.GroupTests(self._folder, self._servers.kafka, self._servers.tank, GROUP_TOPIC)
        for library in groups.able(self._libraries):
            for name, work in tests.of_one_library(library):
                self._step(GROUPS, f"{library.name} {name}", work)
        agreed = groups.agreeing(self._libraries)
        if agreed:
            names = ", ".join(library.name for library in agreed)
            self._step(GROUPS, f"one of {names}", lambda: tests.of_all_libraries(agreed))

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
                probe.not_yet,
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


def planned(libraries: list[StockLibrary], *, with_spark: bool) -> int:
    """How many steps `Run.all` has."""
    count = spark.STEPS if with_spark else 0
    if libraries:
        count += 2 * len(list(producers(libraries)))
        count += 2 * sum(not library.no_consumer for library in libraries)
        count += groups.planned(libraries)
        count += KCAT_STEPS if has_kcat() else 0
        count += sum(probe.steps for probe in probes.chosen(libraries))
        count += ADMIN_STEPS if has_java(libraries) else 0
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
