"""Starts the brokers to measure, each on a free port with an empty data folder."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from benchmarks.harness.load_generator import CEILING

START_TIMEOUT_S = 20.0


class NotListening(Exception):
    """A broker did not start; the message has its output."""


class Kernel(StrEnum):
    """Whether a process uses the compiled kernel or plain Python: the value of TANK_KERNEL."""

    COMPILED = "compiled"
    PURE = "pure"


@dataclass(frozen=True, slots=True)
class Server:
    """A broker's command; `{port}` and `{dir}` are filled in."""

    name: str
    command: str
    kernel: Kernel | None = None
    """None for a broker without our kernel: the one in C, or one given by --server."""


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that listens."""

    port: int
    pid: int

    def resident_bytes(self) -> int:
        """Memory of the process that is in RAM now."""
        return self._status("VmRSS")

    def most_resident_bytes(self) -> int:
        """The greatest resident memory at any time."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
        raise ValueError(f"the system tells no {name} of process {self.pid}")


def ceiling() -> Server:
    """The broker in C, which does as little as a broker can. It keeps about 128 MiB of each file, like our
    small segments."""
    return Server("C", f"{shlex.quote(str(CEILING))} --keep 128 -p {{port}} -d {{dir}}")


def ours(kernel: Kernel) -> Server:
    """`tank serve` of this interpreter."""
    command = (
        f"{shlex.quote(sys.executable)} -m tank_cli.main serve --listen 127.0.0.1:{{port}}"
        " --http 127.0.0.1:0 --data {dir} --log-level error"
    )
    return Server(f"ours, {kernel}", command, kernel)


def kernels(wanted: str = "both") -> list[Kernel]:
    """The wanted kernels that exist: the compiled one may not have been built.

    Raises:
        SystemExit: only the compiled one is wanted, and it doesn't exist.
    """
    names = list(Kernel) if wanted == "both" else [Kernel(wanted)]
    if Kernel.COMPILED in names and not _is_compiled():
        if wanted == Kernel.COMPILED:
            raise SystemExit("The compiled kernel is not built, or stale: run `make kernel`, then try again.")
        print(
            "The compiled kernel is not built, or stale (`make kernel` does it): plain Python alone.",
            file=sys.stderr,
        )
        names.remove(Kernel.COMPILED)
    return names


def _is_compiled() -> bool:
    asked = subprocess.run(
        [sys.executable, "-c", "from tank_node.version import kernel_name; print(kernel_name())"],
        env={**os.environ, "TANK_KERNEL": "compiled"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.returncode == 0 and asked.stdout.strip() == Kernel.COMPILED


def environment(kernel: Kernel | None) -> dict[str, str]:
    """The environment of a process that shall use this kernel."""
    return {**os.environ, "TANK_KERNEL": kernel} if kernel else dict(os.environ)


@contextmanager
def running(server: Server, *more: str, folder: str | None = None) -> Iterator[Running]:
    """Yields the server as a process with an empty folder; kills it, and removes the folder, at the end.

    Args:
        more: further arguments of its command.
        folder: where its data folder is made (the system's temporary folder).

    Raises:
        NotListening: the process ended, or took too long to start.
    """
    place = Path(tempfile.mkdtemp(prefix="tank-bench-", dir=folder))
    output = place / "output"
    port = free_port()
    (place / "data").mkdir()
    command = [*shlex.split(server.command.format(port=port, dir=shlex.quote(str(place / "data")))), *more]
    with open(output, "w") as to:
        broker = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=to, stderr=to, env=environment(server.kernel)
        )
    try:
        _wait_for(port, broker, output)
        yield Running(port, broker.pid)
    finally:
        broker.kill()
        broker.wait()
        shutil.rmtree(place, ignore_errors=True)


def free_port() -> int:
    """A port of loopback on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, broker: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and broker.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise NotListening(f"A broker does not listen. It said:\n{output.read_text(errors='replace')[-3000:]}")
