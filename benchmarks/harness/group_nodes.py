"""Ours and Kafka for `benchmarks.groups`: nodes that can be killed and started again; and the program with
members of groups by franz-go, `benchmarks/group_members`, which is built into `out/bench`.
"""

import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from benchmarks.harness import franz
from benchmarks.harness.load_generator import BUILT, LoadFailed
from benchmarks.harness.local_cluster import LocalCluster, Process, running_cluster
from benchmarks.harness.servers import Kernel

SOURCES = Path(__file__).parents[1] / "group_members"
PROGRAM = BUILT / "group_members"
RUN_TIMEOUT_S = 240.0
"""The longest run of the program: it gives up by itself after a minute without what it waits for."""
MIB = 1 << 20


def build_members() -> None:
    """Builds the program. Raises SystemExit: says what is missing."""
    if shutil.which("go") is None:
        raise SystemExit("The members of groups are a program in Go, and there is no go: install it.")
    BUILT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-o", str(PROGRAM), "."], cwd=SOURCES, check=True)


@dataclass(slots=True)
class Nodes:
    """A system that speaks Kafka's protocol, whose nodes can be killed."""

    name: str
    addresses: tuple[str, ...]
    """host:port of each node."""
    pids: Callable[[], Mapping[int, Sequence[int]]]
    """Returns the processes of each node that run now, the broker's first."""
    start_again: Callable[[int], None]
    """Starts a node that was killed. Raises ClusterFailed, LoadFailed."""
    named: int = field(default=0)

    def fresh(self, what: str) -> str:
        """Returns a name that was not used before."""
        self.named += 1
        return f"{what}-{self.named}"

    def kill(self, node: int) -> None:
        """Kills a node's broker."""
        os.kill(self.pids()[node][0], signal.SIGKILL)

    def resident_mib(self) -> float:
        """The resident memory of the largest broker."""
        return max(_resident_bytes(processes[0]) for processes in self.pids().values()) / MIB

    def topic(self, partitions: int) -> str:
        """Creates a topic on all nodes. Returns its name. LoadFailed."""
        topic = self.fresh("topic")
        self.run("create", topic=topic, partitions=partitions, replicas=len(self.addresses))
        return topic

    def run(self, mode: str, **options: object) -> dict[str, Any]:
        """Runs the program to its end. Returns what it tells. LoadFailed."""
        with self.begun(mode, **options) as members:
            return members.told()

    @contextmanager
    def begun(self, mode: str, **options: object) -> Iterator["Members"]:
        """Yields the running program. LoadFailed."""
        pids = [str(pid) for processes in self.pids().values() for pid in processes]
        command = [
            *[str(PROGRAM), "-mode", mode, "-servers", ",".join(self.addresses), "-pids", ",".join(pids)],
            *(part for name, value in options.items() for part in (f"-{name}", str(value))),
        ]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,  # the scheduler shares processors out by session
        ) as process:  # fmt: skip
            try:
                yield Members(process, command)
            finally:
                process.kill()


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise LoadFailed(f"the system tells no memory of process {pid}")


@dataclass(slots=True, frozen=True)
class Members:
    """The program, while it runs."""

    process: subprocess.Popen[str]
    command: Sequence[str]

    def told(self) -> dict[str, Any]:
        """The next line of what it has seen. LoadFailed: it ended without one, or takes too long."""
        output = _stream(self.process.stdout)
        if not select.select([output], [], [], RUN_TIMEOUT_S)[0]:
            raise LoadFailed(f"{' '.join(self.command)}\nsays nothing for {RUN_TIMEOUT_S:.0f} s")
        line = output.readline()
        if not line:
            raise LoadFailed(f"{' '.join(self.command)}\n{_stream(self.process.stderr).read().strip()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def tell(self, word: str) -> None:
        """Lets it go on."""
        to = _stream(self.process.stdin)
        to.write(f"{word}\n")
        to.flush()


def _stream(found: IO[str] | None) -> IO[str]:
    assert found is not None
    return found


@contextmanager
def our_nodes(kernel: Kernel, nodes: int, flush: str) -> Iterator[Nodes]:
    """Yields brokers of ours and as many controllers. ClusterFailed."""
    variables = {"TANK_FLUSH": flush}
    with running_cluster(kernel, brokers=nodes, controllers=nodes, variables=variables) as cluster:
        addresses = tuple(broker.kafka for broker in cluster.brokers if broker.kafka)
        yield Nodes("ours", addresses, lambda: _pids_of(cluster), lambda _: cluster.up())


def _pids_of(cluster: LocalCluster) -> dict[int, list[int]]:
    controllers: list[Process] = cluster.processes("controller")
    return {
        broker.number: [broker.pid, controller.pid]
        for broker, controller in zip(cluster.brokers, controllers, strict=True)
    }


@contextmanager
def kafka_nodes(nodes: int) -> Iterator[Nodes]:
    """Yields Kafka. LoadFailed."""
    with franz.kafka(nodes) as system:
        yield Nodes("kafka", system.addresses, lambda: franz.kafka_pids(nodes), franz.start_kafka_node)
