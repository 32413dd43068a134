"""The probes beside the repository, in `../shared/probes`, where there are any: each walks through all that a
stock client can do, and prints a line for each step. Every step must go well but those that need
transactions, which are named here."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka_clients.libraries import StockLibrary, python_of
from tests.support.patience import patient

PROBES: Final = Path(__file__).parents[3] / "shared" / "probes"
PROBE_TIMEOUT_S: Final = patient(240.0)
"""The longest that a probe may take: librdkafka waits 8 to 15 s in each step that needs a group."""
_CUT: Final = re.compile(r"\[:(160|200)\]")
"""Where the probes in Python cut what they print of an answer; whole answers are looked into here."""
_LINE: Final = re.compile(r"^(OK|FAIL|PASS)\s+(\S.*)$")
_PART: Final = re.compile(r"'(\w+)': (?:'([^']*)'|\"([^\"]*)\")")
"""A part of an answer to `admin`: the call, and `ok` or an error."""


class Told(NamedTuple):
    """What a program said of one of its steps."""

    name: str
    problem: str
    """Empty: it went well."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe, and what it can't do yet."""

    file: str
    library: str
    """Whose program it is, by the name in `libraries`; empty: it needs none."""
    steps: int
    """How many it has."""
    command: Callable[[Path, Path], list[str]]
    """Its command, for the folder of the installed libraries and the probe's own file."""
    title: str
    """How the page on compatibility calls it."""
    not_yet: frozenset[str] = frozenset()
    """Steps that need transactions."""
    never: frozenset[str] = frozenset()
    """Steps that end in the library itself, whatever a broker answers."""

    def run(self, folder: Path, server: str, *more: str) -> list[Told]:
        """Runs it against a broker; the outcomes of its steps. Raises RuntimeError when some are missing."""
        return outcomes([*self.command(folder, PROBES / self.file), server, *more], self.steps)


def outcomes(command: list[str], steps: int) -> list[Told]:
    """Runs a program that prints a line for each of its steps. Raises RuntimeError when some are missing."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {PROBE_TIMEOUT_S:.0f} s") from None
    found = list(_told(ended.stdout))
    if len(found) < steps:
        said = (ended.stderr or ended.stdout).strip()[-300:]
        raise RuntimeError(f"{len(found)} of {steps} steps: {said}")
    return found


def _told(printed: str) -> Iterator[Told]:
    for line in printed.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        said = match[2]
        if match[1] == "PASS":
            yield Told(said.split(" -> ")[0], "")
        elif match[1] == "FAIL":
            yield Told(said.split(" ")[0], said[:200])
        elif said.startswith("admin {"):
            for name, good, bad in _PART.findall(said):
                yield Told(f"admin.{name}", "" if (good or bad) == "ok" else good or bad)
        else:
            yield Told(said.split(" ")[0], "")


def _uncut(folder: Path, probe: Path) -> list[str]:
    copy = folder / probe.name
    copy.write_text(_CUT.sub("[:100_000]", probe.read_text()))
    return [str(python_of(folder)), str(copy)]


def _in_node(folder: Path, probe: Path) -> list[str]:
    return ["node", str(shutil.copy(probe, folder / "node"))]


ALL: Final = (
    Probe(
        "v0probe.py",
        "",
        22,
        lambda _, probe: [sys.executable, str(probe)],
        "by hand, the protocol's version 0, message sets of 2013",
    ),
    Probe(
        "ck.py",
        "librdkafka",
        29,
        _uncut,
        "confluent-kafka: producers, all of `AdminClient`",
        frozenset({"txn"}),
        # confluent-kafka 2.16.1 on Python 3.11: "more argument specifiers than keyword list entries".
        frozenset({"elect_leaders"}),
    ),
    Probe(
        "kp.py",
        "kafka-python",
        20,
        _uncut,
        "kafka-python: producers, consumer, all of `KafkaAdminClient`",
        frozenset({"txn"}),
    ),
    Probe(
        "aio.py",
        "aiokafka",
        19,
        _uncut,
        "aiokafka: producers, all of `AIOKafkaAdminClient`",
        frozenset({"txn"}),
    ),
    Probe(
        "kjs.js",
        "kafkajs",
        23,
        _in_node,
        "kafkajs: producers, all of `admin()`",
        frozenset({"txn"}),
    ),
)
"""All probes."""


def chosen(libraries: list[StockLibrary]) -> list[Probe]:
    """Those that these libraries can run; none without the folder beside the repository."""
    names = {library.name for library in libraries}
    return [probe for probe in ALL if not probe.library or probe.library in names] if PROBES.exists() else []
