"""The processes of a run: started, hurt and looked at."""

import contextlib
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.network import Network
from tests.support.processes.ports import free_port
from tests.support.processes.readiness import facts_of, samples_of

CONTROLLER, BROKER = "controller", "broker"
STOP_S = 40.0
READY_S = 60.0
DISK_BYTES, MINUTE_BYTES = 256 << 20, 8 << 20
"""Of a disk that can be filled; and more for each minute of a run: what is written stays, some 5 MB of it."""


class StuckError(Exception):
    """Something that must come within bounded time did not."""


def tied_to_us() -> list[str]:
    """What a command line begins with, for a process that is killed when we are: a run that was killed leaves
    none behind. Nothing where util-linux's `setpriv` is missing."""
    return list(_TIE) if _can_tie() else []


_TIE = ("setpriv", "--pdeathsig", "KILL")


@functools.cache
def _can_tie() -> bool:
    return (
        bool(shutil.which(_TIE[0]))
        and not subprocess.run([*_TIE, "true"], capture_output=True, check=False).returncode
    )


def until(true: Callable[[], bool], what: str, patience_s: float, every_s: float = 0.05) -> None:
    """StuckError when it doesn't come true."""
    deadline = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > deadline:
            raise StuckError(f"{what}, for {patience_s:.0f} s")
        time.sleep(every_s)


def stop_together(members: "list[Member]") -> None:
    """SIGTERM to all at the same moment; returns when they are gone. StuckError."""
    for member in members:
        member.ask_to_stop()
    for member in members:
        member.await_end()


@dataclass(slots=True)
class Member:
    """A controller or a broker, whether it runs or not."""

    role: str
    number: int
    host: int
    address: str
    http: str
    data: Path
    log: Path
    command: list[str]
    kafka: str = ""
    """Its address for Kafka's clients, where it was given one."""
    iggy: str = ""
    """The same for Iggy's."""
    environment: dict[str, str] = field(default_factory=dict)
    """What its process has in its environment beside ours."""
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    small_disk: Path | None = None
    """Its data lies here, on a small file system of its own."""

    @property
    def name(self) -> str:
        return f"{self.role} {self.number}"

    def start(self) -> None:
        """It must not run."""
        assert self.process is None
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TANK_") or k == "TANK_KERNEL"}
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**environment, **self.environment},
            )

    def kill(self) -> None:
        """kill -9; returns when it is gone."""
        self._send(signal.SIGKILL)
        self.await_end()

    def stop(self) -> None:
        """SIGTERM: in order. StuckError when it goes on."""
        self.ask_to_stop()
        self.await_end()

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.thaw()
        self.process.send_signal(number)

    def await_end(self) -> None:
        """Returns when it is gone. StuckError when it goes on."""
        assert self.process is not None
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise StuckError(f"{self.name} doesn't stop") from None
        self.process = None

    def freeze(self) -> None:
        """SIGSTOP: it is silent, and its connections stay."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """SIGCONT, when it is frozen."""
        if self.frozen and self.process is not None:
            self.process.send_signal(signal.SIGCONT)
        self.frozen = False

    @property
    def runs(self) -> bool:
        """Whether its process is there. One that ended by itself counts as gone."""
        return self.process is not None and self.process.poll() is None

    def facts(self) -> dict[str, Any]:
        """What /readyz says; empty when nobody answers."""
        return facts_of(self.http)

    def is_ready(self) -> bool:
        """Whether /readyz says so."""
        return bool(self.facts().get("ready"))

    def await_ready(self) -> None:
        """StuckError when it takes too long, or ended."""
        until(lambda: self.is_ready() or not self.runs, f"{self.name} is not ready", READY_S)
        if not self.runs:
            raise StuckError(f"{self.name} ended by itself")

    def empty_disk(self) -> None:
        """All its data is gone. It must not run."""
        assert self.process is None
        for path in self.data.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def tear_tail(self, chance: random.Random) -> int:
        """Leaves at the end of some newest segments what an interrupted write leaves: a piece of a batch, and
        perhaps a piece of its record. Nothing that was acknowledged is touched. Returns how many. It must not
        run."""
        assert self.process is None
        torn = 0
        for folder in self.partition_folders():
            newest = max(folder.glob("*.index"))
            if not newest.with_suffix(".log").exists() or chance.random() < 0.5:
                continue
            with open(newest.with_suffix(".log"), "ab") as log:
                log.write(chance.randbytes(chance.randrange(1, 5_000)))
            if chance.random() < 0.5:
                with open(newest, "ab") as index:
                    index.write(chance.randbytes(chance.randrange(1, 64)))
            torn += 1
        return torn

    def lose_indexes(self, chance: random.Random) -> int:
        """Deletes the newest index of about half of its partitions. Returns how many. It must not run."""
        assert self.process is None
        newest = [max(folder.glob("*.index")) for folder in self.partition_folders()]
        lost = [index for index in newest if chance.random() < 0.5] or newest[:1]
        for index in lost:
            index.unlink()
        return len(lost)

    def partition_folders(self) -> list[Path]:
        """Where it has logs of partitions."""
        return sorted({index.parent for index in self.data.glob("topics/*/*/*.index")})

    def met_full_disk(self) -> float:
        """How often a broker's requests met an error of its disk, or whether a controller's is full. 0 when
        it says nothing."""
        name = "tank_storage_errors_total" if self.role == BROKER else "tank_controller_storage_full"
        try:
            return samples_of(self.http).get(name, 0.0)
        except OSError:
            return 0.0

    def fences(self) -> Counter[str]:
        """How often a controller's process fenced a broker, by reason. Empty when it says nothing."""
        name = "tank_controller_fences_total"
        try:
            found = samples_of(self.http)
        except OSError:
            return Counter()
        reasons = {"silent", "stayed_away", "stream_broke"}
        return Counter({each: int(found.get(f'{name}{{reason="{each}"}}', 0)) for each in reasons})

    def fill_disk(self) -> None:
        """Takes what is left of its small disk."""
        assert self.small_disk is not None
        with open(self.small_disk / "filling", "wb", buffering=0) as filling:
            with contextlib.suppress(OSError):
                while True:
                    filling.write(bytes(1 << 20))
            with contextlib.suppress(OSError):
                while True:
                    filling.write(bytes(512))

    def free_disk(self) -> None:
        """Gives it back."""
        assert self.small_disk is not None
        (self.small_disk / "filling").unlink(missing_ok=True)

    def bugs(self) -> list[str]:
        """Lines of its log that speak of a bug of ours, and exceptions that nobody expected."""
        with open(self.log, errors="replace") as lines:
            return [line.strip() for line in lines if "bug of ours" in line or line.startswith("Traceback ")]

    def last_words(self, lines: int = 12) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass(slots=True)
class Members:
    """All processes of a run."""

    folder: Path
    network: Network
    controllers: list[Member] = field(default_factory=list)
    brokers: list[Member] = field(default_factory=list)
    mounts: list[Path] = field(default_factory=list)

    @property
    def secret(self) -> Path:
        """The file with what the processes, and who asks their controllers, prove to know."""
        return self.folder / "secret"

    @property
    def iggy_root(self) -> Path:
        """The file with the root user of Iggy's clients."""
        return self.folder / "iggy-root"

    def plan(
        self,
        controllers: int,
        brokers: int,
        *,
        fillable: bool = True,
        secret: bool = True,
        kafka: bool = False,
        iggy: bool = False,
        minutes: float = 0,
        session_timeout_ms: int | None = None,
    ) -> None:
        """Folders and command lines; nothing runs yet.

        `secret`: the processes have one. `fillable`: the disks of the last controller and the last broker can
        be filled, where file systems can be mounted. `kafka`, `iggy`: the brokers are told where to serve
        clients of these protocols. `minutes`: how long a run takes. `session_timeout_ms`: None for the
        controllers' own."""
        network = self.network
        (self.folder / "logs").mkdir(parents=True)
        at = {n: f"{network.address(n)}:{free_port()}" for n in range(1, controllers + 1)}
        cluster = ",".join(f"{n}={address}" for n, address in at.items())
        python = [*tied_to_us(), sys.executable, "-P", "-m"]
        for number, address in at.items():
            member = self._member(CONTROLLER, number, number, address)
            member.command += [*python, "tank_controller", "--id", str(number), "--cluster", cluster]
            if session_timeout_ms is not None:
                member.command += ["--session-timeout-ms", str(session_timeout_ms)]
            self.controllers.append(member)
        for number in range(1, brokers + 1):
            host = controllers + number
            member = self._member(BROKER, number, host, f"{network.address(host)}:{free_port()}")
            member.command += [*python, "tank_node", "--broker-id", str(number), "--listen", member.address]
            member.command += ["--controllers", ",".join(at.values())]
            if kafka:
                member.kafka = f"{network.address(host)}:{free_port()}"
                member.command += ["--kafka", member.kafka]
            if iggy:
                member.iggy = f"{network.address(host)}:{free_port()}"
                member.command += ["--iggy", member.iggy]
                member.environment["IGGY_ROOT_PASSWORD_FILE"] = str(self.iggy_root)
            self.brokers.append(member)
        if fillable:
            for member in (self.controllers[-1], self.brokers[-1]):
                self._give_small_disk(member, DISK_BYTES + int(minutes * MINUTE_BYTES))
        self.secret.write_text("chaos-" * 8)
        self.iggy_root.write_text(f"iggy:{'chaos-' * 4}")
        for member in self.all:
            member.command += ["--data", str(member.data), "--http", member.http]
            if secret:
                member.command += ["--secret-file", str(self.secret)]

    def _member(self, role: str, number: int, host: int, address: str) -> Member:
        name = f"{role}-{number}"
        http = f"{self.network.address(host)}:{free_port()}"
        data, log = self.folder / name, self.folder / "logs" / f"{name}.log"
        data.mkdir()
        return Member(role, number, host, address, http, data, log, self.network.inside(host))

    def _give_small_disk(self, member: Member, size_bytes: int) -> None:
        disk = member.data.parent / f"{member.data.name}-disk"
        disk.mkdir()
        options = f"size={size_bytes}"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], capture_output=True, check=False
        )
        if mounted.returncode == 0:
            self.mounts.append(disk)
            member.small_disk = disk
            member.data = disk / "data"
            member.data.mkdir()

    @property
    def all(self) -> list[Member]:
        """Controllers first."""
        return [*self.controllers, *self.brokers]

    @property
    def servers(self) -> str:
        """For clients."""
        return ",".join(member.address for member in self.brokers)

    @property
    def kafka_servers(self) -> str:
        """For Kafka's clients; empty where there are to be none."""
        return ",".join(member.kafka for member in self.brokers if member.kafka)

    @property
    def iggy_servers(self) -> str:
        """For Iggy's clients; empty where there are to be none."""
        return ",".join(member.iggy for member in self.brokers if member.iggy)

    def leader(self) -> Member:
        """The controller that leads. StuckError when none does for long."""
        found: list[Member] = []

        def look() -> bool:
            found[:] = [m for m in self.controllers if m.runs and not m.frozen and m.facts().get("leads")]
            return len(found) == 1

        until(look, "no controller leads", READY_S)
        return found[0]

    def start_all(self) -> None:
        """Those that don't run; returns when all are ready."""
        for member in self.all:
            if member.process is None:
                member.start()
        for member in self.all:
            member.await_ready()

    def ended_by_themselves(self) -> list[Member]:
        """Those whose process ended without being told to."""
        return [
            member for member in self.all if member.process is not None and member.process.poll() is not None
        ]

    def close(self, *, keep: bool) -> None:
        """Ends what runs, and gives the disks back; what lies on them is kept beside them when it is
        wanted."""
        for member in self.all:
            if member.process is not None:
                member.thaw()
                member.process.kill()
                member.process.wait()
                member.process = None
        while self.mounts:
            disk = self.mounts.pop()
            if keep:
                (disk / "filling").unlink(missing_ok=True)
                shutil.copytree(disk, disk.with_name(f"{disk.name}-kept"))
            subprocess.run(["umount", str(disk)], check=False, capture_output=True)
