"""The waits of stock clients whose leader is killed, by the commands that the tests have for them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.harness.load_generator import LoadFailed
from benchmarks.harness.servers import Kernel, environment


def stock_waits(module: str, kernel: Kernel, rounds: int, timeout_s: float) -> Iterator[dict[str, Any]]:
    """Runs a module of the tests, which kills the leader as often as there are rounds; yields what it tells
    of each client. LoadFailed."""
    command = [sys.executable, "-m", module, "--json", f"--rounds={rounds}"]
    try:
        ended = subprocess.run(
            command, env=environment(kernel), stdout=subprocess.PIPE, text=True, check=False,
            timeout=timeout_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise LoadFailed(f"{' '.join(command)} has not ended in {late.timeout:.0f} s") from None
    if ended.returncode:
        raise LoadFailed(f"{' '.join(command)} ended with {ended.returncode}")
    for line in ended.stdout.splitlines():
        if line.startswith("{"):  # others are about what could not be installed
            yield json.loads(line)
