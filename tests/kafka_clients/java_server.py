"""Servers in Java that stand on Kafka: processes with an HTTP API on a port of their own."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster
from tests.support.processes.ports import free_port


class JavaServer:
    """One process. It is killed at the end of its context."""

    def __init__(self, output: Path) -> None:
        """Args: output: what it says is added to this file."""
        self.port = free_port()
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Starts it. environment: None: this process's."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def asks(self, path: str, body: object = None, *, method: str = "PUT") -> Any:
        """Its answer to GET, or, with a body, to the method. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}",
            data,
            {"Content-Type": "application/json"},
            method="GET" if data is None else method,
        )
        with urllib.request.urlopen(request, timeout=patient(60)) as answer:
            return json.load(answer)

    def check(self) -> None:
        """Raises RuntimeError when it has ended."""
        if self._process is not None and self._process.poll() is not None:
            said = [line for line in self._output.read_text().splitlines() if not line.startswith("\tat ")]
            raise RuntimeError(f"a server has ended: {' '.join(said)[-400:]}")


def until(servers: Sequence[JavaServer], true: Callable[[], bool], wait_s: float) -> None:
    """Waits for this. Raises RuntimeError when a server ends; TimeoutError, which says what it last heard."""
    deadline = time.monotonic() + wait_s
    heard = ""
    while True:
        try:
            if true():
                return
        except (OSError, ValueError) as error:  # a server starts, or waits for others
            heard = str(error)
        for server in servers:
            server.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing came in {wait_s:.0f} s; {heard}")
        time.sleep(0.2)


def await_replicas(cluster: LocalCluster, wait_s: float) -> None:
    """Waits until all replicas of all partitions are in sync."""

    def is_whole() -> bool:
        found = cluster.look("partitions")["partitions"]
        return all(len(each["in_sync"]) == len(each["replicas"]) for each in found)

    until([], is_whole, wait_s)
