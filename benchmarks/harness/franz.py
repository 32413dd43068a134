"""Loads by franz-go, a Kafka client in Go: the generator, and Kafka itself to set beside ours, of
`../shared/yardstick`, the folder with other systems beside the repository.

The generator is built into `out/bench`. Kafka runs if the folder's `setup` was run; without it the figures
stand alone.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.load_generator import BUILT, ROOT, LoadFailed

YARDSTICK = Path(os.environ.get("YARDSTICK") or ROOT.parent / "shared" / "yardstick")
"""The folder, or a copy of it."""
SCRATCH = Path(os.environ.get("YARD") or Path(tempfile.gettempdir()) / "yard")
"""Where its scripts keep downloads, data and the ids of processes, as they say."""
PROGRAM = BUILT / "franz"
KAFKA_PORT = int(os.environ.get("YARDSTICK_KAFKA_PORT") or 9092)
"""The port at which its `kafka-up` has Kafka listen on 127.0.0.1 and the next addresses."""
RUN_TIMEOUT_S = 180.0
UP_TIMEOUT_S = 120.0


def why_absent() -> str | None:
    """What is missing for these loads; None: nothing."""
    if not (YARDSTICK / "load" / "go.mod").exists():
        return "there is no ../shared/yardstick beside the repository (YARDSTICK names another place)"
    if shutil.which("go") is None and not PROGRAM.exists():
        return "the generator is in Go, and there is no go"
    return None


def build_franz() -> None:
    """Builds the generator. Raises SystemExit: says what is missing."""
    if why := why_absent():
        raise SystemExit(f"The loads of Kafka's clients need the generator of other systems: {why}.")
    BUILT.mkdir(parents=True, exist_ok=True)
    if shutil.which("go") is not None:
        subprocess.run(["go", "build", "-o", str(PROGRAM), "."], cwd=YARDSTICK / "load", check=True)


def has_kafka() -> bool:
    """Whether Kafka was set up beside us."""
    return (SCRATCH / "kafka-libs").is_dir() and shutil.which("java") is not None


@dataclass(frozen=True, slots=True)
class System:
    """A system that speaks Kafka's protocol, ours or Kafka itself, on one node or three."""

    name: str
    addresses: tuple[str, ...]
    """host:port of each node."""
    pids: Mapping[int, Sequence[int]]
    """The processes of each node, whose processor time is counted."""

    def run(self, mode: str, *options: object) -> dict[str, Any]:
        """Runs one load. Returns what the generator has found, by its names. LoadFailed."""
        with tempfile.TemporaryDirectory(prefix="tank-bench-pids-") as folder:
            for node, processes in self.pids.items():
                for place, pid in enumerate(processes):
                    Path(folder, f"{self.name}.{node}.{place}.pid").write_text(f"{pid}\n")
            command = [
                *[str(PROGRAM), "-sys", self.name, "-nodes", str(len(self.addresses)), "-run", folder],
                *["-addrs", ",".join(self.addresses), "-mode", mode, *map(str, options)],
            ]
            try:
                ended = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    timeout=RUN_TIMEOUT_S,
                    check=False,
                    start_new_session=True,  # the scheduler shares processors out by session
                )
            except subprocess.TimeoutExpired:
                raise LoadFailed(f"{' '.join(command)}\nhas not ended in {RUN_TIMEOUT_S:.0f} s") from None
        if ended.returncode:
            raise LoadFailed(f"{' '.join(command)}\n{ended.stderr.strip()}")
        lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        if found.get("unacked"):
            raise LoadFailed(f"{' '.join(command)}\n{found['unacked']} messages were not acknowledged")
        return found


@contextmanager
def kafka(nodes: int) -> Iterator[System]:
    """Yields Kafka on this many nodes. Raises LoadFailed if it doesn't start."""
    addresses = _kafka_addresses(nodes)
    (SCRATCH / "bin").mkdir(parents=True, exist_ok=True)
    if not (SCRATCH / "bin" / "load").exists():
        (SCRATCH / "bin" / "load").symlink_to(PROGRAM)
    try:
        _script("kafka-up", str(nodes), nodes=nodes)
        yield System("kafka", addresses, kafka_pids(nodes))
    finally:
        _script("kafka-down", nodes=nodes)


def kafka_pids(nodes: int) -> dict[int, list[int]]:
    """Returns the processes of Kafka's nodes, as its scripts noted them."""
    return {node: [int((SCRATCH / "run" / f"kafka.{node}.pid").read_text())] for node in range(1, nodes + 1)}


def start_kafka_node(node: int) -> None:
    """Starts a node again that was killed. LoadFailed."""
    _script("kafka-node", str(node), nodes=node)


def _kafka_addresses(nodes: int) -> tuple[str, ...]:
    return tuple(f"127.0.0.{node}:{KAFKA_PORT}" for node in range(1, nodes + 1))


def _script(name: str, *options: str, nodes: int) -> None:
    environment = {
        **os.environ, "YARD": str(SCRATCH), "ADDRS": ",".join(_kafka_addresses(nodes)), "LOAD": str(PROGRAM),
        "WEIGHT": "0",
    }  # fmt: skip
    try:
        subprocess.run(
            [str(YARDSTICK / name), *options],
            env=environment, check=True, timeout=UP_TIMEOUT_S, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
        raise LoadFailed(f"Kafka's {name}: {failure}") from None
