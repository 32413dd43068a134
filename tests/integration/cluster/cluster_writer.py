"""A writer to a cluster of processes."""

import subprocess
import sys
import threading
import time

from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, Process
from tests.support.waiting import until

TOPIC = "t"


class Writer(threading.Thread):
    """Numbers, one a line, into `tank produce`, until it is told to stop."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(daemon=True)
        servers = ",".join(str(b.addresses["tank"]) for b in cluster.processes("broker"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tank_cli", "--servers", servers, "produce", TOPIC],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.written = 0
        self._enough = threading.Event()

    def run(self) -> None:
        assert self.process.stdin is not None
        while not self._enough.is_set():
            for _ in range(50):
                self.process.stdin.write(f"{self.written}\n")
                self.written += 1
            self.process.stdin.flush()
            time.sleep(0.01)

    def go_on(self, messages: int) -> None:
        """Until so many more are on their way."""
        goal = self.written + messages
        until(lambda: self.written >= goal, "the writer is stuck", 60)

    def end(self) -> None:
        """Ends the input; returns when everything is acknowledged."""
        self._enough.set()
        self.join(patient(60))
        _, said = self.process.communicate(timeout=patient(90))
        assert self.process.returncode == 0, said


def broker(cluster: LocalCluster, number: int) -> Process:
    return next(p for p in cluster.processes("broker") if p.number == number)
