"""A cluster for the example: three controllers and three brokers, by `tank cluster up`, over a folder that is
thrown away."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from tank_cli.cluster.folder import planned
from tank_cli.cluster.processes import taken_address

_PORTS: Final = range(15_000, 32_000, 200)
"""Where its ports may begin: below those that the system gives to connections."""


class ClusterError(Exception):
    """The cluster did not start; the message has its last words."""


class Cluster:
    """Runs between `with` and its end. `servers`: the brokers' addresses, as a client is given them; `kafka`
    and `iggy`: those for Kafka's and for Iggy's clients."""

    def __init__(self, folder: Path, *, iggy: bool = False) -> None:
        self._data = folder / "cluster"
        self._broker_pids: dict[int, int] = {}
        self._options = ["--iggy"] if iggy else []
        self.servers = self.kafka = self.iggy = ""

    def __enter__(self) -> Cluster:
        try:
            base_port = str(_free_ports(self._data))
            self._tank("up", "--data", str(self._data), "--base-port", base_port, *self._options)
        except BaseException:
            self._stop()  # also where Ctrl-C came while they started
            raise
        processes = json.loads((self._data / "cluster.json").read_text())["processes"]
        brokers = [process for process in processes if process["role"] == "broker"]
        self._broker_pids = {int(broker["id"]): int(broker["pid"]) for broker in brokers}
        self.servers, self.kafka, self.iggy = (
            ",".join(str(broker["addresses"].get(protocol, "")) for broker in brokers)
            for protocol in ("tank", "kafka", "iggy")
        )
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


def _free_ports(data: Path) -> int:
    """Where the ports that `tank cluster up` takes are free, just now."""
    bases = list(_PORTS)
    random.shuffle(bases)
    for base in bases:
        folder = planned(data, None, None, base)
        folder.serve_iggy(serves=True)
        if not any(taken_address(member) for member in folder.members):
            return base
    raise ClusterError(f"no ports for six processes are free between {_PORTS.start} and {_PORTS.stop}")
