"""Messages through a cluster of processes whose members are killed and frozen: none lost, none twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.cluster import LocalCluster, Process, running_cluster
from tests.support.patience import patient
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

TOPIC = "t"
FROZEN_S = 8
"""Longer than a broker may be silent."""


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


def all_in_sync(cluster: LocalCluster) -> bool:
    return all(len(p["in_sync"]) == 3 for p in cluster.partitions(TOPIC))


@pytest.mark.long
def test_none_is_lost_and_none_is_there_twice(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "3", "--replication-factor", "3")
        writer = Writer(cluster)
        writer.start()
        writer.go_on(2000)
        broker(cluster, 2).kill()
        writer.go_on(2000)
        cluster.up()
        until(lambda: all_in_sync(cluster), "the broker that was killed is not in sync again", 60)
        cluster.leader().kill()
        writer.go_on(2000)
        cluster.up()
        frozen = broker(cluster, 1)
        os.kill(frozen.pid, signal.SIGSTOP)
        time.sleep(FROZEN_S)
        os.kill(frozen.pid, signal.SIGCONT)
        writer.go_on(2000)
        writer.end()
        until(lambda: all_in_sync(cluster), "the broker that was frozen is not in sync again", 60)
        read = cluster.tank("consume", TOPIC, "--from", "first").split()
        assert sorted(map(int, read)) == list(range(writer.written))
        cluster.down()
