"""A bare node as a process, with limits of the test's choice: for tests of what bad clients cost."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.clients.raw_client import RawConnection
from tests.support.processes.ports import free_port
from tests.support.waiting import until


class BareProcess:
    """Runs as long as its `with` block; see `tests.support.nodes.bare_node`."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.port = free_port()
        self._output = folder / "bare.output"
        self._command = [
            *(sys.executable, "-m", "tests.support.nodes.bare_node", str(self.port), str(folder / "data")),
            *(f"{name}={value}" for name, value in limits.items()),
        ]

    def __enter__(self) -> Self:
        with open(self._output, "wb") as errors:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=errors, cwd=Path(__file__).parents[3], text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening"), line + self.errors()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """An orderly stop; without one, or with an error in its log, the test fails."""
        self._process.terminate()
        try:
            code = self._process.wait(20)
        finally:
            self._process.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if kind is None:
            assert code == 0, self.errors()
            assert "Traceback" not in self.errors(), self.errors()

    def errors(self) -> str:
        """What it logged."""
        return self._output.read_text(errors="replace")

    def connect(self, timeout_s: float = 30.0) -> RawConnection:
        return RawConnection(self.port, timeout_s)

    def counters(self) -> dict[str, Any]:
        """`refused` and `closed` by reason, and levels, as they are now."""
        self._process.send_signal(signal.SIGUSR1)
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def wait_for(self, kind: str, reason: str, count: int) -> None:
        """Until so many were refused or closed for that reason."""
        until(
            lambda: self.counters()[kind].get(reason, 0) >= count,
            f"{kind} {reason}: fewer than {count}",
            guard_s=60,
        )

    def sockets(self) -> int:
        """How many of its descriptors are sockets."""
        found = 0
        for link in Path(f"/proc/{self._process.pid}/fd").iterdir():
            try:
                found += os.readlink(link).startswith("socket:")
            except OSError:
                continue  # closed while we looked
        return found

    def resident_bytes(self) -> int:
        """Memory of the process that is in RAM now."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
