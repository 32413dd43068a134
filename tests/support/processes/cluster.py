"""A cluster of real processes on this machine, by `tank cluster up`, with the steps and checks of tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes as cluster_processes
from tank_cli.cluster.processes import command_of, taken_address
from tests.support.patience import patient
from tests.support.processes.ports import free_port
from tests.support.processes.readiness import facts_of
from tests.support.waiting import until

UP_TIMEOUT_S = patient(110.0)


@dataclass(frozen=True)
class Process:
    """An entry of cluster.json."""

    role: str
    number: int
    pid: int
    addresses: dict[str, str | None]

    def kill(self) -> None:
        """kill -9; returns when it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: not _runs(self.pid), f"{self.role} {self.number} doesn't die")

    def stop(self) -> None:
        """SIGTERM; returns when it is gone."""
        os.kill(self.pid, signal.SIGTERM)
        until(lambda: not _runs(self.pid), f"{self.role} {self.number} doesn't stop", 40)

    def facts(self) -> dict[str, Any]:
        """What /readyz says; empty when nobody answers."""
        return facts_of(str(self.addresses["http"]))


class LocalCluster:
    """`tank cluster`, as a person runs it."""

    def __init__(self, data: Path, controllers: int = 3, brokers: int = 3) -> None:
        self.data = data
        self.size = ["--controllers", str(controllers), "--brokers", str(brokers)]
        self.base_port = _free_base(data, controllers, brokers)

    def tank(self, *arguments: str, fails: bool = False) -> str:
        """Runs the command; its standard output."""
        servers = ",".join(str(b.addresses["tank"]) for b in self.processes("broker"))
        controllers = ",".join(str(c.addresses["grpc"]) for c in self.processes("controller"))
        secret = self.data / "secret"
        ended = subprocess.run(
            [sys.executable, "-m", "tank_cli", *arguments],
            capture_output=True,
            text=True,
            timeout=UP_TIMEOUT_S,
            env={
                **os.environ,
                "TANK_SERVERS": servers or "127.0.0.1:1",
                "TANK_CONTROLLERS": controllers or "127.0.0.1:1",
                "TANK_SECRET_FILE": str(secret) if secret.exists() else "",
            },
            check=False,
        )
        assert (ended.returncode != 0) is fails, ended.stderr + ended.stdout
        return ended.stderr if fails else ended.stdout

    def up(self) -> None:
        """Starts what doesn't run."""
        self.tank("cluster", "up", *self.size, "--data", str(self.data), "--base-port", str(self.base_port))

    def name_brokers(self) -> None:
        """Starts the brokers anew, one after the other, as `localhost` and not as 127.0.0.1: known by a name,
        as in Kubernetes, which does not fit into TANK's redirects."""
        folder = cluster_folder.load_existing(self.data)
        for broker in self.processes("broker"):
            broker.stop()
            member = next(m for m in folder.brokers if m.number == broker.number)
            named = [*command_of(folder, member), "--advertise", f"localhost:{member.port}"]
            with patch.object(cluster_processes, "command_of", return_value=named):
                cluster_processes.start(folder, member)
            cluster_processes.await_ready(folder, lambda ready: None)

    def down(self) -> None:
        """Stops all."""
        self.tank("cluster", "down", "--data", str(self.data))

    def processes(self, role: str) -> list[Process]:
        """As cluster.json has them, of one role."""
        file = self.data / "cluster.json"
        if not file.exists():
            return []
        return [
            Process(p["role"], p["id"], p["pid"], p["addresses"])
            for p in json.loads(file.read_text())["processes"]
            if p["role"] == role
        ]

    def leader(self) -> Process:
        """The controller that leads; waits until one does."""
        found: list[Process] = []

        def look() -> bool:
            found[:] = [p for p in self.processes("controller") if p.facts().get("leads")]
            return len(found) == 1

        until(look, "no controller leads")
        return found[0]

    def look(self, *words: str) -> dict[str, Any]:
        """A command of `tank cluster` that shows something, as JSON."""
        found: dict[str, Any] = json.loads(self.tank("cluster", *words, "--output", "json"))
        return found

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """`tank cluster partitions`."""
        partitions: list[dict[str, Any]] = self.look("partitions", "--topic", topic)["partitions"]
        return partitions


@contextlib.contextmanager
def running_cluster(data: Path, controllers: int = 3, brokers: int = 3) -> Iterator[LocalCluster]:
    """A cluster that is up, and none of whose processes is left behind."""
    cluster = LocalCluster(data, controllers, brokers)
    with swept(cluster):
        cluster.up()
        yield cluster


@contextlib.contextmanager
def swept(cluster: LocalCluster) -> Iterator[None]:
    """Leaves none of its processes behind."""
    try:
        yield
    finally:
        for process in cluster.processes("broker") + cluster.processes("controller"):
            if process.pid and _is_of(cluster, process.pid):
                os.kill(process.pid, signal.SIGKILL)


def _is_of(cluster: LocalCluster, pid: int) -> bool:
    """Whether this process is one of the cluster's: numbers are given again, and another test's process may
    have that of one that was killed."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return os.fsencode(cluster.data) in command


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def _free_base(data: Path, controllers: int, brokers: int) -> int:
    """A base port that leads to free ones, just now."""
    for _ in range(200):
        base = free_port()
        members = cluster_folder.planned(data, controllers, brokers, base).members
        if not any(taken_address(member) for member in members):
            return base
    raise AssertionError("no free ports side by side")
