"""The probes beside the repository, in `../shared/probes`, where there are any: each walks through all that a
stock client can do, and prints a line for each step. Every step must go well but those that need groups or
transactions, which are named here."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka_clients.libraries import python_of

PROBES: Final = Path(__file__).parents[3] / "shared" / "probes"
PROBE_TIMEOUT_S: Final = 240
"""The longest that a probe may take: librdkafka waits 8 to 15 s in each step that needs a group."""
_CUT: Final = re.compile(r"\[:(160|200)\]")
"""Where the probes in Python cut what they print of an answer; whole answers are looked into here."""
_LINE: Final = re.compile(r"^(OK|FAIL|PASS)\s+(\S.*)$")
_PART: Final = re.compile(r"'(\w+)': (?:'([^']*)'|\"([^\"]*)\")")
"""A part of an answer to `admin`: the call, and `ok` or an error."""


class Outcome(NamedTuple):
    """What a probe said of a step."""

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
    not_yet: frozenset[str] = frozenset()
    """Steps that need groups or transactions."""
    never: frozenset[str] = frozenset()
    """Steps that end in the library itself, whatever a broker answers."""

    def run(self, folder: Path, server: str, *more: str) -> list[Outcome]:
        """Runs it against a broker; the outcomes of its steps. Raises RuntimeError when some are missing."""
        return outcomes([*self.command(folder, PROBES / self.file), server, *more], self.steps)


def outcomes(command: list[str], steps: int) -> list[Outcome]:
    """Runs a program that prints a line for each of its steps. Raises RuntimeError when some are missing."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {PROBE_TIMEOUT_S} s") from None
    found = list(_outcomes(ended.stdout))
    if len(found) < steps:
        said = (ended.stderr or ended.stdout).strip()[-300:]
        raise RuntimeError(f"{len(found)} of {steps} steps: {said}")
    return found


def _outcomes(printed: str) -> Iterator[Outcome]:
    for line in printed.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        said = match[2]
        if match[1] == "PASS":
            yield Outcome(said.split(" -> ")[0], "")
        elif match[1] == "FAIL":
            yield Outcome(said.split(" ")[0], said[:200])
        elif said.startswith("admin {"):
            for name, good, bad in _PART.findall(said):
                yield Outcome(f"admin.{name}", "" if (good or bad) == "ok" else good or bad)
        else:
            yield Outcome(said.split(" ")[0], "")


def _uncut(folder: Path, probe: Path) -> list[str]:
    copy = folder / probe.name
    copy.write_text(_CUT.sub("[:100_000]", probe.read_text()))
    return [str(python_of(folder)), str(copy)]


def _in_node(folder: Path, probe: Path) -> list[str]:
    return ["node", str(shutil.copy(probe, folder / "node"))]


ALL: Final = (
    Probe("v0probe.py", "", 22, lambda _, probe: [sys.executable, str(probe)]),
    Probe(
        "ck.py",
        "librdkafka",
        29,
        _uncut,
        frozenset(
            {"txn", "group_classic", "group_consumer848", "list_consumer_groups", "describe_consumer_groups"}
            | {"list_cg_offsets", "alter_cg_offsets", "delete_cgs"}
        ),
        # confluent-kafka 2.16.1 on Python 3.11: "more argument specifiers than keyword list entries".
        frozenset({"elect_leaders"}),
    ),
    Probe(
        "kp.py",
        "kafka-python",
        20,
        _uncut,
        frozenset(
            {"txn", "group", "admin.list_groups", "admin.describe_groups", "admin.group_offsets"}
            | {"admin.delete_groups"}
        ),
    ),
    Probe(
        "aio.py",
        "aiokafka",
        19,
        _uncut,
        frozenset(
            {"txn", "group", "group_rc", "admin.list_groups", "admin.describe_groups", "admin.offsets"}
            | {"admin.delete_groups"}
        ),
    ),
    Probe(
        "kjs.js",
        "kafkajs",
        23,
        _in_node,
        frozenset({"txn", "group", "listGroups", "describeGroups", "fetchOffsets", "setOffsets"})
        | {"deleteGroups"},
    ),
)
"""All probes."""
