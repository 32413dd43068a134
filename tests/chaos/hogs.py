"""Processes that take all the processor that they get: a machine that is busy with other work."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from tests.chaos.members import tied_to_us

ENDS_S = 7200
"""So long at most, should the program that started them be gone without a word."""
PROGRAM = f"""
import time
until = time.monotonic() + {ENDS_S}
while time.monotonic() < until:
    for _ in range(100_000):
        pass
"""


@contextlib.contextmanager
def hogs(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many run within the block."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        command = [*tied_to_us(), sys.executable, "-c", PROGRAM]
        running.extend(subprocess.Popen(command) for _ in range(count))
        yield running
    finally:
        for each in running:
            each.kill()
            each.wait()
