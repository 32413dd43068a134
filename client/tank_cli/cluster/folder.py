"""`DIR/cluster.json`: which processes a cluster on this machine has, and where they are. Users and tests read
it to find the processes, and tests to kill them.
"""

import itertools
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.output import Json

LOOPBACK = "127.0.0.1"
DEFAULT_MEMBERS = 3
"""The number of controllers, and of brokers, when none is given."""
MAX_BROKERS = 50
CONTROLLERS_FROM = 2 * MAX_BROKERS
"""Controllers' ports begin so far above the base port; each process has two."""
KAFKA_FROM = 200
"""Brokers' ports for Kafka clients begin so far above the base port."""
IGGY_FROM = 250
"""Those for Iggy clients likewise."""
CONTROLLER, BROKER = "controller", "broker"


@dataclass(slots=True, frozen=True)
class ClusterMember:
    """One process of the cluster, whether it runs or not."""

    role: str
    """CONTROLLER or BROKER."""
    number: int
    """The process' number, from 1 on."""
    port: int
    """The port of a controller's gRPC, or of a broker's TANK protocol; the next port is for HTTP."""
    pid: int | None = None
    """The id of the last process that was started; None: it was stopped."""
    serves_iggy: bool = False
    """Whether a broker serves Iggy clients."""

    @property
    def name(self) -> str:
        """The name of the folder and of the log, such as `broker-1`."""
        return f"{self.role}-{self.number}"

    @property
    def address(self) -> str:
        """The host:port that the process serves."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def http(self) -> str:
        """host:port of its health and metrics."""
        return f"{LOOPBACK}:{self.port + 1}"

    @property
    def kafka(self) -> str | None:
        """host:port of a broker for Kafka clients."""
        return None if self.role == CONTROLLER else self._address_from(KAFKA_FROM)

    @property
    def iggy(self) -> str | None:
        """host:port of a broker for Iggy clients; None: it serves none."""
        return self._address_from(IGGY_FROM) if self.role == BROKER and self.serves_iggy else None

    def _address_from(self, distance: int) -> str:
        base_port = self.port - 2 * (self.number - 1)
        return f"{LOOPBACK}:{base_port + distance + self.number - 1}"

    @property
    def all_addresses(self) -> list[str]:
        """Each host:port on which the process listens."""
        return [each for each in (self.address, self.http, self.kafka, self.iggy) if each]

    def as_json(self) -> dict[str, Json]:
        """The process as it is written to cluster.json."""
        serves = "grpc" if self.role == CONTROLLER else "tank"
        addresses: dict[str, Json] = {"tank": None, "kafka": self.kafka, "http": self.http, "grpc": None}
        if self.iggy:
            addresses["iggy"] = self.iggy
        addresses[serves] = self.address
        return {"role": self.role, "id": self.number, "pid": self.pid, "addresses": addresses}


@dataclass(slots=True)
class ClusterFolder:
    """A cluster's folder on this machine."""

    path: Path
    cluster_id: str
    members: list[ClusterMember]
    forwarding: str = ""
    """The brokers' --forwarding from their next start on; empty: their own default."""

    @property
    def controllers(self) -> list[ClusterMember]:
        return [member for member in self.members if member.role == CONTROLLER]

    @property
    def brokers(self) -> list[ClusterMember]:
        return [member for member in self.members if member.role == BROKER]

    def data_of(self, member: ClusterMember) -> Path:
        """Where a process keeps its data."""
        return self.path / member.name

    @property
    def api_token(self) -> Path:
        """The secret that changes by the controllers' HTTP API take."""
        return self.path / "api-token"

    @property
    def secret(self) -> Path:
        """The cluster's secret, which its processes and `tank cluster` prove to each other."""
        return self.path / "secret"

    def log_of(self, member: ClusterMember) -> Path:
        """Where a process' own lines go."""
        return self.path / "logs" / f"{member.name}.log"

    def serve_iggy(self, *, serves: bool) -> None:
        """Has the brokers serve Iggy clients, or no more, from their next start on."""
        self.members = [
            replace(member, serves_iggy=serves) if member.role == BROKER else member
            for member in self.members
        ]

    def put(self, changed: ClusterMember) -> None:
        """Notes what became of a process, at once."""
        self.members = [changed if m.name == changed.name else m for m in self.members]
        self.store()

    def as_json(self) -> dict[str, Json]:
        """What cluster.json holds."""
        content: dict[str, Json] = {
            "cluster_id": self.cluster_id,
            "processes": [member.as_json() for member in self.members],
        }
        if self.forwarding:
            content["forwarding"] = self.forwarding
        return content

    def store(self) -> None:
        """Replaces the file."""
        new = self.path / "cluster.json.new"
        new.write_text(json.dumps(self.as_json(), indent=2) + "\n")
        os.replace(new, self.path / "cluster.json")


def make_secrets(folder: ClusterFolder) -> None:
    """The API's token and the cluster's secret, where there is none yet, for the cluster's owner alone."""
    for wanted in (folder.api_token, folder.secret):
        if wanted.exists():
            continue
        new = wanted.with_name(wanted.name + ".new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
        os.replace(new, wanted)


def load(path: Path) -> ClusterFolder | None:
    """None: there is no cluster yet. CliError when the file can't be read."""
    file = path / "cluster.json"
    try:
        content = json.loads(file.read_text())
        members = list(_members(content["processes"]))
        return ClusterFolder(path, str(content["cluster_id"]), members, str(content.get("forwarding", "")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"{file} can't be read ({error}): put it back, or choose another --data.") from error


def load_existing(path: Path) -> ClusterFolder:
    """CliError when there is no cluster."""
    folder = load(path)
    if folder is None:
        raise CliError(
            f"There is no cluster in {path}.", ExitCode.NOT_FOUND, f"tank cluster up --data {path}"
        )
    return folder


def _members(processes: list[dict[str, object]]) -> Iterator[ClusterMember]:
    for process in processes:
        addresses = process["addresses"]
        assert isinstance(addresses, dict)
        address = addresses["grpc"] or addresses["tank"]
        pid = process["pid"]
        yield ClusterMember(
            str(process["role"]),
            int(str(process["id"])),
            int(str(address).rpartition(":")[2]),
            None if pid is None else int(str(pid)),
            serves_iggy="iggy" in addresses,
        )


def planned(path: Path, controllers: int | None, brokers: int | None, base_port: int) -> ClusterFolder:
    """The cluster of this folder, grown to so many brokers; a new one where there is none. None: as many as
    it has. CliError."""
    folder = load(path)
    if folder is None:
        _refuse_lone_broker(path)
        members = [
            ClusterMember(CONTROLLER, number, base_port + CONTROLLERS_FROM + 2 * number - 2)
            for number in range(1, (controllers or DEFAULT_MEMBERS) + 1)
        ]
        folder = ClusterFolder(path, "", members)
        brokers = brokers or DEFAULT_MEMBERS
    brokers = brokers or len(folder.brokers)
    if controllers not in (None, len(folder.controllers)):
        raise CliError(
            f"The cluster in {path} has {len(folder.controllers)} controllers, and keeps that number.",
            ExitCode.USAGE,
            f"tank cluster up --controllers {len(folder.controllers)} --data {path}",
        )
    if len(folder.brokers) > brokers:
        raise CliError(
            f"The cluster in {path} has {len(folder.brokers)} brokers, and they may hold the only copies.",
            ExitCode.USAGE,
            f"tank cluster up --brokers {len(folder.brokers)} --data {path}",
        )
    first = folder.controllers[0].port - CONTROLLERS_FROM
    serves_iggy = any(member.serves_iggy for member in folder.brokers)
    taken = {member.number for member in folder.brokers}
    free = (number for number in itertools.count(1) if number not in taken)
    for number in itertools.islice(free, brokers - len(taken)):
        folder.members.append(ClusterMember(BROKER, number, first + 2 * number - 2, serves_iggy=serves_iggy))
    return folder


def _refuse_lone_broker(path: Path) -> None:
    """CliError when the folder holds the data of `tank serve`, which no broker of a cluster would read."""
    if (path / "meta.json").exists():
        raise CliError(
            f"{path} holds the data of a broker of its own (`tank serve`), which a cluster does not take "
            "over: run that broker, or choose another --data.",
            hint=f"tank serve --data {path}",
        )


def refuse_in_cluster(path: Path) -> None:
    """For `tank serve`: CliError when the folder is that of a cluster of `tank cluster up`, or of one of its
    processes."""
    cluster = next((each for each in (path, path.parent) if load(each) is not None), None)
    if cluster is None:
        return
    inside = any(path == cluster / member.name for member in load_existing(cluster).members)
    if cluster == path or inside:
        raise CliError(
            f"{path} belongs to the cluster in {cluster}: start that cluster, or choose another --data.",
            hint=f"tank cluster up --data {cluster}",
        )


def stopped(member: ClusterMember) -> ClusterMember:
    """The same without a process."""
    return replace(member, pid=None)
