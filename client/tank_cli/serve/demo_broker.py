"""The broker of `tank demo`: a process of its own, in a folder of its own, killed and started again."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tank_cli.shell.exit_codes import CliError
from tank_cli.shell.figures import seconds_text
from tank_client.model import Address
from tank_client.wire.sockets import open_socket

START_PATIENCE_S = 20.0
STOP_PATIENCE_S = 10.0
LOG_LINES = 15  # lines of the broker's log, shown when it fails


class DemoBroker:
    """`tank serve` on loopback. The port is chosen once, so that clients find the broker again after a
    kill.
    """

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.port = free_port()
        self._log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """The broker's address, for `--servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the started process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        """Starts the process and waits until it accepts connections; returns the seconds that this took."""
        began = time.perf_counter()
        command = [
            sys.executable,
            *["-m", "tank_cli", "serve"],
            *["--data", str(self.data), "--listen", self.servers, "--http", "127.0.0.1:0"],
        ]
        with open(self._log, "ab") as output:
            # A session of its own: Ctrl-C in the terminal is for the demo, which then stops the broker.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        while time.perf_counter() - began < START_PATIENCE_S:
            if self._process.poll() is not None:
                raise CliError(
                    f"The demo's broker ended with code {self._process.returncode}.{self._last_words()}"
                )
            try:
                open_socket(Address("127.0.0.1", self.port), timeout_s=1).close()
            except OSError:
                time.sleep(0.01)
            else:
                return time.perf_counter() - began
        raise CliError(
            f"The demo's broker took no connection in {seconds_text(START_PATIENCE_S)}.{self._last_words()}"
        )

    def kill(self) -> None:
        """kill -9: the process has no chance to write anything any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> tuple[int, float]:
        """Stops the broker with SIGTERM; returns the exit code and the seconds until the process had
        ended.
        """
        assert self._process is not None
        began = time.perf_counter()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise CliError(f"The demo's broker did not stop in {seconds_text(STOP_PATIENCE_S)}.") from None
        return code, time.perf_counter() - began

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return " Its last words:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""


def free_port() -> int:
    """Returns a port of loopback that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port
