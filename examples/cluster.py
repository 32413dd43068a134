"""A cluster for the example: three controllers and three brokers, by `tank cluster up`, over a folder that is
thrown away."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

MEMBERS: Final = 3
"""Of controllers and of brokers: any one of each may die."""
_PORTS: Final = range(15_000, 32_000, 200)
"""Where its ports may begin: below those that the system gives to connections."""
_CONTROLLERS_FROM: Final = 100
"""So far above the brokers' are the controllers'."""


class ClusterError(Exception):
    """The cluster did not start; the message has its last words."""


class Cluster:
    """Runs between `with` and its end. `servers`: the brokers' addresses, as a client is given them."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "cluster"
        self._broker_pids: dict[int, int] = {}
        self.servers = ""

    def __enter__(self) -> Cluster:
        try:
            self._tank("up", "--data", str(self._data), "--base-port", str(_free_ports()))
        except BaseException:
            self._stop()  # also where Ctrl-C came while they started
            raise
        processes = json.loads((self._data / "cluster.json").read_text())["processes"]
        brokers = [process for process in processes if process["role"] == "broker"]
        self._broker_pids = {int(broker["id"]): int(broker["pid"]) for broker in brokers}
        self.servers = ",".join(str(broker["addresses"]["tank"]) for broker in brokers)
        return self

    def kill(self, broker_id: int) -> int:
        """`kill -9` of a broker; the number of the process that is no more."""
        pid = self._broker_pids.pop(broker_id)
        os.kill(pid, signal.SIGKILL)
        return pid

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        with suppress(ClusterError):  # there may be nothing to stop
            self._tank("down", "--data", str(self._data))

    def _tank(self, *words: str) -> None:
        # A session of its own: Ctrl-C in the terminal is for the example, which then stops the cluster.
        command = [sys.executable, "-m", "tank_cli", "cluster", *words]
        ended = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False)
        if ended.returncode:
            raise ClusterError(ended.stderr.strip()[-2000:])


def _free_ports() -> int:
    """Where the ports that `tank cluster up` takes are free."""
    bases = list(_PORTS)
    random.shuffle(bases)
    for base in bases:
        starts = (base, base + _CONTROLLERS_FROM)
        if all(_is_free(start + number) for start in starts for number in range(2 * MEMBERS)):
            return base
    raise ClusterError(f"no {4 * MEMBERS} ports are free between {_PORTS.start} and {_PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
