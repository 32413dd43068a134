"""`python -m tests.kafka_clients.failover`: how long a stock producer waits when its leader is killed.

Three brokers, a topic of Kafka's format with one partition on all of them, and a producer with its library's
own settings that sends a record every 10 ms. The leader is killed with `kill -9`. Told are the times from
then until brokers name another leader, and until the first record that was sent afterwards is acknowledged.
The broker is started again before the next round.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tank_client.sync import Client
from tests.kafka_clients.__main__ import FOLDER, installed
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

PRODUCERS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("librdkafka", ()),
    ("franz-go", ()),
    ("franz-go", ("100ms",)),
)
"""Libraries, and what their programs are told more: franz-go's MetadataMinAge, which is 5 s."""
TOPIC: Final = "steady"
BEFORE_S, AFTER_S = 12.0, 10.0
"""The producer's time before the kill, and after it: more than an election takes by far. franz-go asks for
metadata when it starts and 5 s later, and never twice in 5 s, whatever happens: only a producer that has run
for 10 s can ask when its leader dies."""
END_S: Final = 60.0
LOOK_S: Final = 0.02


class Waits(NamedTuple):
    """Seconds from the kill on."""

    elected: float
    """Until brokers name another leader."""
    acknowledged: float
    """Until a record that was sent afterwards is acknowledged."""


def waits(cluster: LocalCluster, command: list[str], before_s: float) -> Waits:
    """Kills the leader under a producer that has run for `before_s`. Raises RuntimeError when the producer
    does not go on."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as producer:
        time.sleep(before_s)
        leader = cluster.partitions(TOPIC)[0]["leader"]
        others = [broker for broker in cluster.processes("broker") if broker.number != leader]
        (victim,) = [broker for broker in cluster.processes("broker") if broker.number == leader]
        with Client(",".join(str(broker.addresses["tank"]) for broker in others)) as client:
            client.admin.describe_topics([TOPIC])
            killed = time.time()
            victim.kill()
            while client.admin.describe_topics([TOPIC])[0].partitions[0].leader in (leader, None):
                time.sleep(LOOK_S)
            elected = time.time()
        lines = producer.communicate(timeout=END_S)[0].splitlines()
    told: list[tuple[float, float]] = [json.loads(line) for line in lines]
    if not any(sent < killed for sent, _ in told):
        raise RuntimeError("nothing was acknowledged before the kill")
    after = [acknowledged for sent, acknowledged in told if sent >= killed]
    if not after:
        raise RuntimeError(f"nothing was acknowledged in the {AFTER_S:.0f} s after the kill")
    return Waits(elected - killed, min(after) - killed)


def _told(found: list[float]) -> str:
    return f"median {statistics.median(found):.2f} s ({', '.join(f'{each:.2f}' for each in found)})"


def _show(producer: str, found: list[Waits], *, as_json: bool) -> None:
    if as_json:
        times = {name: [getattr(each, name) for each in found] for name in Waits._fields}
        print(json.dumps({"producer": producer, **times}), flush=True)
    else:
        print(producer)
        print(f"  another leader after {_told([each.elected for each in found])}")
        print(f"  acknowledged after {_told([each.acknowledged for each in found])}", flush=True)


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
            _show(" ".join([name, libraries[name].version, *more]), found, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
