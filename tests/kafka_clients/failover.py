"""`python -m tests.kafka_clients.failover`: how long a stock producer waits when its leader is killed.

Three brokers, a topic of Kafka's format with one partition on all of them, and a producer with its library's
own settings that sends a record every 10 ms. The leader is killed with `kill -9`; told is the time from then
to the acknowledgement of the first record that was sent afterwards. The broker is started again before the
next round.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.kafka_clients.__main__ import FOLDER, installed
from tests.kafka_clients.libraries import StockLibrary
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

LIBRARIES: Final = ("librdkafka", "franz-go")
TOPIC: Final = "steady"
BEFORE_S, AFTER_S = 5.0, 10.0
"""The producer's time before the kill, and after it: more than an election takes by far."""
END_S: Final = 60.0


def waited_s(cluster: LocalCluster, library: StockLibrary, folder: Path) -> float:
    """Kills the leader under a producer; the time to the next acknowledged write. Raises RuntimeError."""
    servers = ",".join(str(broker.addresses["kafka"]) for broker in cluster.processes("broker"))
    command = [*library.command(folder), "steady", servers, TOPIC, str(BEFORE_S + AFTER_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as producer:
        time.sleep(BEFORE_S)
        leader = cluster.partitions(TOPIC)[0]["leader"]
        (victim,) = [broker for broker in cluster.processes("broker") if broker.number == leader]
        killed = time.time()
        victim.kill()
        told: list[tuple[float, float]] = [
            json.loads(line) for line in producer.communicate(timeout=END_S)[0].splitlines()
        ]
    if not any(sent < killed for sent, _ in told):
        raise RuntimeError("nothing was acknowledged before the kill")
    after = [acknowledged for sent, acknowledged in told if sent >= killed]
    if not after:
        raise RuntimeError(f"nothing was acknowledged in the {AFTER_S:.0f} s after the kill")
    return min(after) - killed


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the libraries are installed")
    chosen = parser.parse_args()
    libraries = installed(chosen.folder, list(LIBRARIES))
    with tempfile.TemporaryDirectory(prefix="tank-kafka-") as made, running_cluster(Path(made)) as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "1", "--format", "kafka")
        for library in libraries:
            waits = []
            for _ in range(chosen.rounds):
                waits.append(waited_s(cluster, library, chosen.folder))
                cluster.up()
                until(lambda: len(cluster.partitions(TOPIC)[0]["isr"]) == 3, "a replica is not in sync")
            each = ", ".join(f"{wait:.2f}" for wait in waits)
            print(f"{library.name}: median {statistics.median(waits):.2f} s ({each})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
