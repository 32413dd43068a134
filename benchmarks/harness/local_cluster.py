"""A cluster of processes for a benchmark: `tank cluster up` in a folder of its own, which is removed at the
end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.servers import Kernel, environment
from tank_cli.cluster.folder import planned
from tank_cli.cluster.processes import taken_address
from tank_client.sync import Client

UP_TIMEOUT_S = 120.0
_PORTS = range(12_000, 31_000, 250)
"""The base ports to try, below the ports of outgoing connections."""


class ClusterFailed(Exception):
    """`tank cluster` ended with an error; the message has its output."""


@dataclass(frozen=True, slots=True)
class Process:
    """One entry of cluster.json."""

    role: str
    number: int
    pid: int
    address: str
    """host:port of TANK, or of gRPC."""
    http: str
    kafka: str | None = None
    """host:port of a broker for Kafka clients."""
    iggy: str | None = None
    """host:port of a broker for Iggy clients."""

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def resident_bytes(self) -> int:
        """The process's memory that is in RAM now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        raise ClusterFailed(f"the system tells no memory of process {self.pid}")

    def await_end(self, patience_s: float) -> None:
        """Returns when the process is gone. ClusterFailed."""
        deadline = time.monotonic() + patience_s
        while Path(f"/proc/{self.pid}").exists():
            if time.monotonic() > deadline:
                raise ClusterFailed(f"{self.role} {self.number} doesn't end")
            time.sleep(0.02)

    def counted(self, sample: str) -> float:
        """The sum of the samples of /metrics whose lines begin with `sample`. ClusterFailed: no answer."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except OSError as error:
            raise ClusterFailed(f"{self.role} {self.number} tells no metrics: {error}") from None
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(sample))

    def cpu_s(self) -> float:
        """The processor time since the process's start, of all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class LocalCluster:
    """Controllers and brokers as processes; `running_cluster` makes it."""

    data: Path
    brokers_wanted: int
    controllers_wanted: int
    base_port: int
    kernel: Kernel
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables of its processes."""
    options: Sequence[str] = ()
    """Further options of `tank cluster up`."""

    def up(self) -> None:
        """Starts the processes that don't run; returns when all are ready. ClusterFailed."""
        self._tank(
            *["up", "--controllers", str(self.controllers_wanted), "--brokers", str(self.brokers_wanted)],
            *["--data", str(self.data), "--base-port", str(self.base_port), *self.options],
        )

    def move(self, topic: str, partition: int, to: str) -> None:
        """Places a partition's replicas, "2,3,1", the preferred leader first. ClusterFailed."""
        self._tank("move", topic, str(partition), "--to", to, "--data", str(self.data))

    def drain(self, broker: int, *, undo: bool = False) -> None:
        """Drains a broker, or undoes that. ClusterFailed."""
        self._tank("drain", str(broker), *(["--undo"] if undo else []), "--data", str(self.data))

    def _tank(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tank_cli", "cluster", *arguments]
        try:
            ended = subprocess.run(
                command,
                env={**environment(self.kernel), **self.variables},
                capture_output=True,
                text=True,
                timeout=UP_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ClusterFailed(
                f"{' '.join(command[1:])}\nhas not ended after {UP_TIMEOUT_S:.0f} s"
            ) from None
        if ended.returncode:
            raise ClusterFailed(f"{' '.join(command[1:])}\n{ended.stderr}")

    def processes(self, role: str = "") -> list[Process]:
        """The processes of a role, or all."""
        file = self.data / "cluster.json"
        if not file.exists():
            return []
        found = [
            Process(
                p["role"],
                p["id"],
                p["pid"],
                at["tank"] or at["grpc"],
                at["http"],
                at["kafka"],
                at.get("iggy"),
            )
            for p in json.loads(file.read_text())["processes"]
            for at in [p["addresses"]]
        ]
        return [process for process in found if role in ("", process.role)]

    @property
    def brokers(self) -> list[Process]:
        return self.processes("broker")

    @property
    def servers(self) -> str:
        """The brokers' addresses, for clients."""
        return ",".join(broker.address for broker in self.brokers)

    def leads(self, controller: Process) -> bool:
        """Whether this controller says that it leads."""
        try:
            with urllib.request.urlopen(f"http://{controller.http}/readyz", timeout=2) as answer:
                return bool(json.load(answer).get("leads"))
        except (OSError, ValueError):
            return False

    def leading_controller(self) -> Process:
        """The controller that leads. ClusterFailed: none does."""
        for controller in self.processes("controller"):
            if self.leads(controller):
                return controller
        raise ClusterFailed("no controller leads")

    def leader(self, client: Client, topic: str, partition: int = 0) -> Process:
        """The broker that leads. ClusterFailed: none does."""
        (described,) = client.admin.describe_topics([topic])
        number = described.partitions[partition].leader
        for broker in self.brokers:
            if broker.number == number:
                return broker
        raise ClusterFailed(f"no broker leads {topic}/{partition}")


@contextmanager
def running_cluster(
    kernel: Kernel,
    *,
    brokers: int = 3,
    controllers: int = 3,
    folder: str | None = None,
    variables: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> Iterator[LocalCluster]:
    """Yields a running cluster, which is killed and removed at the end, also when this process gets SIGTERM.

    Args:
        variables: environment variables for all its processes, of those that `tank cluster up` passes on.
        options: of `tank cluster up`.

    Raises:
        ClusterFailed: it doesn't start.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    place = Path(tempfile.mkdtemp(prefix="tank-bench-", dir=folder))
    data = place / "cluster"
    base_port = _free_base(data, controllers, brokers)
    cluster = LocalCluster(data, brokers, controllers, base_port, kernel, variables or {}, options)
    try:
        cluster.up()
        yield cluster
    finally:
        for process in cluster.processes():
            if process.pid:
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        shutil.rmtree(place, ignore_errors=True)


def _free_base(data: Path, controllers: int, brokers: int) -> int:
    """A base port whose ports are all free now."""
    for base in _PORTS:
        members = planned(data, controllers, brokers, base).members
        if not any(taken_address(member) for member in members):
            return base
    raise ClusterFailed("no free ports on loopback")
