"""The processes of a cluster on this machine: started detached, found again by their numbers, stopped."""

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tank_cli.cluster.folder import BROKER, CONTROLLER, ClusterFolder, ClusterMember, stopped
from tank_cli.shell.exit_codes import CliError
from tank_cli.shell.figures import seconds_text

READY_PATIENCE_S = 60.0
STOP_PATIENCE_S = 30.0
LOG_LINES = 15
"""How many lines of a process' log are shown when it fails."""
PASSED_ON = frozenset(
    {
        "TANK_CLOCK_SKEW_MAX_MS", "TANK_FLUSH", "TANK_FORWARDING", "TANK_KAFKA_AUTO_CREATE",
        "TANK_KAFKA_DEFAULT_PARTITIONS", "TANK_KERNEL", "TANK_LOG_FORMAT", "TANK_LOG_LEVEL",
        "TANK_MAX_CONNECTIONS", "TANK_READY_WAIT_MS", "TANK_SESSION_TIMEOUT_MS", "TANK_STOP_GRACE_MS",
    }
)  # fmt: skip
"""Variables that may be the same for all processes of a cluster."""
_OF_ONE_PROCESS = (
    "ADVERTISE", "API_TOKEN_FILE", "BROKER_ID", "CLUSTER", "CLUSTER_ID", "CONFIG", "HTTP", "ID", "IGGY",
    "KAFKA", "KAFKA_ADVERTISE", "KAFKA_OUTSIDE_ADVERTISE", "KAFKA_OUTSIDE_LISTEN", "LISTEN",
    "OUTSIDE_ADVERTISE", "OUTSIDE_LISTEN", "RACK",
)  # fmt: skip
"""Variables that are for a single process: set in the shell, they must not reach all processes."""
_POLL_S = 0.05
_BEGINNING_TRIES = 20
"""A second until the command line of a process that was just started can be read."""


def command_of(folder: ClusterFolder, member: ClusterMember) -> list[str]:
    """How a process is started."""
    python = [sys.executable, "-P", "-m"]
    data = ["--data", str(folder.data_of(member)), "--http", member.http]
    secret = ["--secret-file", str(folder.secret)] if folder.secret.exists() else []
    token = ["--api-token-file", str(folder.api_token)]
    if member.role == CONTROLLER:
        cluster = ",".join(f"{one.number}={one.address}" for one in folder.controllers)
        return [
            *[*python, "tank_controller", "--id", str(member.number), "--cluster", cluster],
            *[*data, *secret, *token],
        ]
    controllers = ",".join(one.address for one in folder.controllers)
    kafka = ["--kafka", member.kafka] if member.kafka else []
    iggy = ["--iggy", member.iggy] if member.iggy else []
    forwarding = ["--forwarding", folder.forwarding] if folder.forwarding else []
    return [
        *[*python, "tank_node", "--controllers", controllers, "--broker-id", str(member.number)],
        *["--listen", member.address, *kafka, *iggy, *data, *secret, *token, *forwarding],
    ]


def kept_back(environment: Mapping[str, str]) -> list[str]:
    """The shell's variables that are not passed on to the processes although they would read them, sorted:
    see `PASSED_ON`.
    """
    known = {f"TANK_{each}" for each in _OF_ONE_PROCESS}
    return sorted(known & environment.keys())


def taken_address(member: ClusterMember) -> str:
    """The process' host:port on which another process listens already; empty when all are free."""
    for address in member.all_addresses:
        host, _, port = address.rpartition(":")
        with socket.socket() as listener:
            # Listens as the process will: remains of ended connections don't count.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, int(port)))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return address
    return ""


def start(folder: ClusterFolder, member: ClusterMember) -> ClusterMember:
    """Starts a process that outlives this one and shares no stream with it. Notes its process id."""
    log = folder.log_of(member)
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("TANK_") or key in PASSED_ON
    }
    environment["PYTHONFAULTHANDLER"] = "1"  # a crash in C code writes its traceback to the log
    with open(log, "ab") as output:
        process = subprocess.Popen(
            command_of(folder, member),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment,
        )
    process.returncode = 0  # the process outlives this one: Python must not warn that it was not waited for
    started = replace(member, pid=process.pid)
    folder.put(started)
    return started


def is_alive(folder: ClusterFolder, member: ClusterMember) -> bool:
    """Whether its process runs; a process id that another process has by now doesn't count."""
    if member.pid is None:
        return False
    for _ in range(_BEGINNING_TRIES):
        try:
            command = Path(f"/proc/{member.pid}/cmdline").read_bytes()
            state = Path(f"/proc/{member.pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            return False
        if state == b"Z":
            return False
        if command:
            return os.fsencode(folder.data_of(member)) in command.split(b"\0")
        time.sleep(_POLL_S)
    return False


def readiness(member: ClusterMember) -> tuple[bool, str]:
    """Returns (whether it is ready, its cluster's id or the reason why it is not)."""
    try:
        with urllib.request.urlopen(f"http://{member.http}/readyz", timeout=2) as answer:
            return True, str(json.load(answer).get("cluster_id", ""))
    except urllib.error.HTTPError as error:
        with contextlib.suppress(ValueError):
            return False, "; ".join(json.load(error)["problems"])
        return False, f"it answers {error.code}"
    except (OSError, ValueError):
        return False, "it doesn't answer yet"


def await_ready(folder: ClusterFolder, tell: Callable[[ClusterMember], None]) -> None:
    """Waits until all processes are ready, and notes the cluster's id. Raises CliError when one ends, or it
    takes too long.
    """
    deadline = time.monotonic() + READY_PATIENCE_S
    missing = list(folder.members)
    while missing:
        lacking = ""
        for member in list(missing):
            # First looks whether the process lives: if another process had its port, that one would answer.
            if not is_alive(folder, member):
                raise CliError(f"{member.name} ended.{last_words(folder, member)}")
            ready, said = readiness(member)
            if ready:
                if not folder.cluster_id:
                    folder.cluster_id = said
                    folder.store()
                missing.remove(member)
                tell(member)
            else:
                lacking = f"{member.name}: {said}"
        if missing and time.monotonic() > deadline:
            raise CliError(f"Not ready after {seconds_text(READY_PATIENCE_S)}: {lacking}.")
        if missing:
            time.sleep(_POLL_S)


def stop_one(folder: ClusterFolder, member: ClusterMember) -> None:
    """Ends a process, if it runs: in order, or by force when it takes too long."""
    if is_alive(folder, member):
        _signal(member, signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE_S
    while is_alive(folder, member):
        if time.monotonic() >= deadline:
            _signal(member, signal.SIGKILL)
        time.sleep(_POLL_S)


def set_aside(folder: ClusterFolder, member: ClusterMember, ending: str) -> None:
    """Renames a process' folder; replaces a folder that was set aside under this name before."""
    kept = folder.data_of(member)
    aside = kept.with_name(kept.name + ending)
    shutil.rmtree(aside, ignore_errors=True)
    kept.rename(aside)


def stop_all(folder: ClusterFolder, tell: Callable[[ClusterMember, bool], None]) -> None:
    """Stops the brokers first, all at once: they ask the controllers before they stop. `tell` gets whether
    the process had to be killed.
    """
    for role in (BROKER, CONTROLLER):
        running = [m for m in folder.members if m.role == role and is_alive(folder, m)]
        for member in running:
            _signal(member, signal.SIGTERM)
        deadline = time.monotonic() + STOP_PATIENCE_S
        while running and time.monotonic() < deadline:
            for member in [m for m in running if not is_alive(folder, m)]:
                running.remove(member)
                tell(member, False)
            time.sleep(_POLL_S)
        for member in running:
            _signal(member, signal.SIGKILL)
            tell(member, True)
    for member in list(folder.members):
        folder.put(stopped(member))


def _signal(member: ClusterMember, number: signal.Signals) -> None:
    assert member.pid is not None
    with contextlib.suppress(ProcessLookupError):
        os.kill(member.pid, number)


def last_lines(folder: ClusterFolder, member: ClusterMember, count: int) -> list[str]:
    """The last lines of the process' log; none when it was never started."""
    try:
        return folder.log_of(member).read_text(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


def last_words(folder: ClusterFolder, member: ClusterMember) -> str:
    """The last lines of the process' log, for an error message."""
    lines = last_lines(folder, member, LOG_LINES)
    return " Its last words:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
