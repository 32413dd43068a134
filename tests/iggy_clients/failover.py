"""`python -m tests.iggy_clients.failover`: how long the stock Python client waits when the leader of its
partition is killed.

Three brokers, a topic of one partition on all of them, and a client with its library's own settings that
sends a message every 10 ms to a broker that does not lead. The leader is killed with `kill -9`. Told are the
times from then until brokers name another leader, and until a message is acknowledged, which may have been
under way at the kill. The broker is started again before the next round.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.iggy_clients.package import PACKAGE, interpreter
from tests.iggy_clients.stock_client import PROGRAMS
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, swept
from tests.support.processes.killed_leader import AFTER_S, END_S, Waits, kill_leader, show
from tests.support.waiting import until

STREAM, TOPIC = "steady", "sends"
STORED: Final = f"{STREAM}.{TOPIC}"
"""The topic's name in the cluster."""
BEFORE_S: Final = 3.0
"""The client's time before the kill."""


def _started(python: str, address: str, seconds: float) -> "subprocess.Popen[str]":
    command = [python, str(PROGRAMS / "steady.py"), address, STREAM, TOPIC, str(seconds)]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(command, env=clean, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def waits(cluster: LocalCluster, python: str, before_s: float) -> Waits:
    """Kills the leader under a client that has run for `before_s`. Raises RuntimeError when the client does
    not go on."""
    leader = cluster.partitions(STORED)[0]["leader"]
    others = [broker for broker in cluster.processes("broker") if broker.number != leader]
    with _started(python, str(others[0].addresses["iggy"]), before_s + AFTER_S) as sender:
        time.sleep(before_s)
        kill = kill_leader(cluster, STORED, leader, sender)
    # A message that was under way at the kill counts, too, if its answer comes afterwards.
    return kill.waits([acknowledged for _, acknowledged in kill.told if acknowledged >= kill.killed])


def _in_sync(cluster: LocalCluster) -> bool:
    return len(cluster.partitions(STORED)[0]["in_sync"]) == 3


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.iggy_clients.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=float, default=BEFORE_S, help="seconds until the kill")
    parser.add_argument("--json", action="store_true", help="print a line of JSON")
    chosen = parser.parse_args()
    python = interpreter()
    if python is None:
        print(f"left out: {PACKAGE}, which can't be installed", flush=True)
        return 0
    with tempfile.TemporaryDirectory(prefix="tank-iggy-") as made:
        cluster = LocalCluster(Path(made) / "cluster")
        cluster.size.append("--iggy")
        with swept(cluster):
            cluster.up()
            _make_topic(cluster, python)
            found = []
            for _ in range(chosen.rounds):
                found.append(waits(cluster, python, chosen.before))
                cluster.up()
                until(lambda: _in_sync(cluster), "a replica is not in sync")
    show("client", PACKAGE, found, as_json=chosen.json)
    return 0


def _make_topic(cluster: LocalCluster, python: str) -> None:
    """Has the client make the topic, as soon as it can log in."""
    address = str(cluster.processes("broker")[0].addresses["iggy"])

    def is_made() -> bool:
        with _started(python, address, 0.5) as sender:
            return bool(sender.communicate(timeout=patient(END_S))[0])

    until(is_made, "the client can't send")
    until(lambda: _in_sync(cluster), "a replica is not in sync")


if __name__ == "__main__":
    sys.exit(main())
