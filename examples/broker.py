"""A broker for the example: `tank serve` as a process of its own, over a folder that is thrown away."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

STOP_S = 15.0


class Broker:
    """Runs between `with` and its end. `servers` is its address, on a free port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.servers = ""

    def __enter__(self) -> Broker:
        log = self._folder / "broker.log"
        with open(log, "wb") as output:
            # A session of its own: Ctrl-C in the terminal is for the example, which then stops the broker.
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "tank_cli", "serve", "--output", "json",
                    "--data", str(self._folder / "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                ],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, start_new_session=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the broker did not start:\n{log.read_text(errors='replace')[-2000:]}")
        self.servers = str(json.loads(line)["listen"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
