"""`make kafka`: stock clients of Kafka's protocol against one broker of ours, and against three.

Every producer writes with every codec, and every consumer reads everything: the records must be those that
were sent, in their order, at the offsets that the producer was told. kcat, where it is installed, lists the
topics and their offsets. Exit code 1 when a step failed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kafka_clients.libraries import LIBRARIES, NotInstalledError, StockLibrary
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

ROOT: Final = Path(__file__).parents[2]
TOPIC: Final = "matrix"
TOPICS: Final = (TOPIC, f"{TOPIC}-kcat")
FOLDER: Final = ROOT / "out" / "kafka_clients"


class Run:
    """The steps of one run against brokers."""

    def __init__(self, servers: str, folder: Path, libraries: list[StockLibrary], brokers: int) -> None:
        self.servers = servers
        self.folder = folder
        self.libraries = libraries
        self.brokers = brokers
        self.steps: list[Step] = []
        self.sent: list[Record] = []
        """All records of the topic, in their order."""

    def step(self, name: str, work: Callable[[], str]) -> None:
        """Runs a step, which returns what is wrong (empty: nothing) or raises; prints its outcome."""
        began = time.monotonic()
        try:
            problem = work()
        except (RuntimeError, OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
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
        self.step("kcat -P", lambda: self._kcat("-P", "-t", TOPICS[1], "-p", "0", typed="one\ntwo\n") and "")
        self.step(
            "kcat -C",
            lambda: _missing(self._kcat("-C", "-t", TOPICS[1], "-p", "0", "-e", "-q"), "one\ntwo"),
        )

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
def one_broker(folder: Path) -> Iterator[str]:
    """A broker alone, which creates topics that clients ask for; yields its address for Kafka's clients."""
    with BrokerProcess(folder / "one") as broker:
        yield f"127.0.0.1:{broker.kafka_port}"


@contextmanager
def three_brokers(folder: Path) -> Iterator[str]:
    """A cluster of three, which creates no topics by itself; yields their addresses for Kafka's clients."""
    with running_cluster(folder / "three") as cluster:
        for topic in TOPICS:
            cluster.tank("topic", "create", topic, "--partitions", "1", "--format", "kafka")
        yield ",".join(str(broker.addresses["kafka"]) for broker in cluster.processes("broker"))


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


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients", description=__doc__)
    parser.add_argument("--brokers", choices=("1", "3", "both"), default="both")
    parser.add_argument("--library", action="append", default=[], help="this one alone; may be repeated")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the libraries are installed")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    libraries = installed(chosen.folder, [name.lower() for name in chosen.library])
    print(
        f"libraries: {', '.join(f'{each.name} {each.version}' for each in libraries) or 'none'}", flush=True
    )
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tank-kafka-") as made:
        for count, brokers in ((1, one_broker), (3, three_brokers)):
            if chosen.brokers in ("both", str(count)):
                print(f"against {count} broker{'s' if count > 1 else ''}:", flush=True)
                with brokers(Path(made)) as servers:
                    run = Run(servers, chosen.folder, libraries, count)
                    run.matrix()
                    run.kcat()
                failed += sum(bool(step.problem) for step in run.steps)
                print(f"{len(run.steps)} steps, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
