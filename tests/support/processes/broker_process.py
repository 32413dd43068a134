"""A real broker as a process of its own: started, killed, stopped; for tests with real files and sockets."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.patience import patient
from tests.support.processes.ports import free_port

START_TIMEOUT_S = patient(30.0)


class BrokerProcess:
    """`tank serve` on loopback over a data folder. Its ports stay the same over restarts.

    `kill` is `kill -9`; `stop` is SIGTERM and gives the exit code. Its output goes to `log`.
    """

    def __init__(self, data: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.data = data
        self.arguments = arguments
        self.environment = environment or {}
        self.port = free_port()
        self.kafka_port = free_port()
        self.http_port = free_port()
        self.log = data.parent / f"{data.name}.output"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> Self:
        """Starts the process; with `wait`, returns when it says that it is ready."""
        command = [
            sys.executable, "-m", "tank_cli.main", "serve",
            "--data", str(self.data), "--listen", self.address, "--kafka", f"127.0.0.1:{self.kafka_port}",
            "--http", f"127.0.0.1:{self.http_port}",
            *self.arguments,
        ]  # fmt: skip
        with open(self.log, "ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environment},
            )
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise AssertionError(
                    f"the broker ended with {self._process.returncode}:\n{self.output()[-3000:]}"
                )
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(
                    f"http://127.0.0.1:{self.http_port}/readyz", timeout=patient(1)
                ) as answer,
            ):
                if answer.status == 200:
                    return
            time.sleep(0.02)
        raise AssertionError(f"the broker is not ready after {START_TIMEOUT_S} s:\n{self.output()[-3000:]}")

    def kill(self) -> None:
        """kill -9, and waits until the process is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self, timeout_s: float = 30.0) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None, "the broker was not started"
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(patient(timeout_s))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"the broker did not stop in {timeout_s} s:\n{self.output()[-3000:]}"
            ) from None
        self._process = None
        return code

    def restart(self) -> None:
        """An orderly stop, then a start."""
        assert self.stop() == 0
        self.start()

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def metrics(self) -> str:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.http_port}/metrics", timeout=patient(5)
        ) as answer:
            return str(answer.read().decode())

    def held_bytes(self) -> float:
        """What it holds of its clients: half frames, and answers that are not sent."""
        (found,) = re.findall(r"^tank_held_bytes (\S+)$", self.metrics(), re.MULTILINE)
        return float(found)

    def _http(self, path: str) -> str:
        return f"http://127.0.0.1:{self.http_port}{path}"

    def resident_bytes(self) -> int:
        """Memory of the process that is in RAM now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


@contextlib.contextmanager
def running_broker(folder: Path, *arguments: str) -> Iterator[BrokerProcess]:
    """A broker over an empty data folder below `folder`, killed at the end."""
    with BrokerProcess(folder / "data", *arguments) as broker:
        yield broker
