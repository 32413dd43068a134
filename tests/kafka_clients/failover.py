"""`python -m tests.kafka_clients.failover`: how long a stock producer waits when its leader is killed.

Three brokers, a topic of Kafka's format with one partition on all of them, and a producer with its library's
own settings that sends a record every 10 ms. The leader is killed with `kill -9`. Told are the times from
then until brokers name another leader, and until the first record that was sent afterwards is acknowledged.
The broker is started again before the next round.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.kafka_clients.__main__ import FOLDER, installed
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.processes.killed_leader import AFTER_S, Waits, kill_leader, show
from tests.support.waiting import until

PRODUCERS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("librdkafka", ()),
    ("franz-go", ()),
    ("franz-go", ("100ms",)),
)
"""Libraries, and what their programs are told more: franz-go's MetadataMinAge, which is 5 s."""
TOPIC: Final = "steady"
BEFORE_S = 12.0
"""The producer's time before the kill. franz-go asks for metadata when it starts and 5 s later, and never
twice in 5 s, whatever happens: only a producer that has run for 10 s can ask when its leader dies."""


def waits(cluster: LocalCluster, command: list[str], before_s: float) -> Waits:
    """Kills the leader under a producer that has run for `before_s`. Raises RuntimeError when the producer
    does not go on."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as producer:
        time.sleep(before_s)
        kill = kill_leader(cluster, TOPIC, cluster.partitions(TOPIC)[0]["leader"], producer)
    return kill.waits([acknowledged for sent, acknowledged in kill.told if sent >= kill.killed])


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=float, default=BEFORE_S, help="seconds until the kill")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the libraries are installed")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each producer")
    chosen = parser.parse_args()
    names = {name for name, _ in PRODUCERS}
    libraries = {each.name: each for each in installed(chosen.folder, sorted(names))}
    with tempfile.TemporaryDirectory(prefix="tank-kafka-") as made, running_cluster(Path(made)) as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "1", "--format", "kafka")
        servers = ",".join(str(broker.addresses["kafka"]) for broker in cluster.processes("broker"))
        for name, more in PRODUCERS:
            if name not in libraries:
                continue
            program = libraries[name].command(chosen.folder)
            command = [*program, "steady", servers, TOPIC, str(chosen.before + AFTER_S), *more]
            found = []
            for _ in range(chosen.rounds):
                found.append(waits(cluster, command, chosen.before))
                cluster.up()
                until(lambda: len(cluster.partitions(TOPIC)[0]["in_sync"]) == 3, "a replica is not in sync")
            show("producer", " ".join([name, libraries[name].version, *more]), found, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
