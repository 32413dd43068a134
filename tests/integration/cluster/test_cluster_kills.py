"""`kill -9` of any one process of a cluster: the others serve on, and nothing is lost."""

import abc
import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tank_client.sync import Client
from tests.support.nodes.raw_follower import RawFollower
from tests.support.processes.cluster import LocalCluster, Process, running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

OURS, RAW = "ours", "raw"
PARTITIONS = 3
"""So that each broker leads one."""
PORTION = 50
PATIENCE_S = 60


class Load(threading.Thread):
    """Numbers into a topic, one after the other and all the time, until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._enough = threading.Event()
        self.acknowledged = 0
        """So many numbers from 0 on were."""

    def run(self) -> None:
        while not self._enough.is_set():
            self.acknowledged = self.write(self.acknowledged)
        self.close()

    @abc.abstractmethod
    def write(self, begin: int) -> int:
        """Some numbers from `begin` on; returns behind the last, when all are acknowledged."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends its connections."""

    def go_on(self) -> None:
        """Until a portion more is acknowledged that was sent from now on."""
        goal = self.acknowledged + 2 * PORTION
        until(lambda: self.acknowledged >= goal or not self.is_alive(), "nothing is acknowledged", PATIENCE_S)
        assert self.is_alive(), "it ended with an error, which stands above"

    def end(self) -> None:
        """Returns when all is acknowledged."""
        self._enough.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


class OurLoad(Load):
    """By our client, idempotent."""

    def __init__(self, servers: list[str]) -> None:
        super().__init__()
        self._client = Client(servers)
        self._producer = self._client.producer()

    def write(self, begin: int) -> int:
        sent = [self._producer.send(OURS, b"%d" % number) for number in range(begin, begin + PORTION)]
        self._producer.flush()
        for future in sent:
            future.result()
        return begin + PORTION

    def close(self) -> None:
        self._producer.close()
        self._client.close()


class RawLoad(Load):
    """By TANK's own messages. What a lost answer left unknown is sent again, before anything else."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        self._writer = RawFollower(ports, RAW)
        self._acks = itertools.cycle([0, 1, 255])

    def write(self, begin: int) -> int:
        self._writer.produce_until_acknowledged(b"%d" % begin, next(self._acks))
        return begin + 1

    def close(self) -> None:
        self._writer.close()


def everybody(cluster: LocalCluster) -> list[tuple[str, int]]:
    return [(role, p.number) for role in ("controller", "broker") for p in cluster.processes(role)]


def is_whole(cluster: LocalCluster) -> bool:
    """Whether all replicas are in sync, and each broker leads again what it led before it died."""
    found = [row for topic in (OURS, RAW) for row in cluster.partitions(topic)]
    return all(len(row["in_sync"]) == 3 and row["leader"] == row["replicas"][0] for row in found)


def hurt_each_in_turn(cluster: LocalCluster, hurt: Callable[[Process], None], loads: list[Load]) -> None:
    """While one is away its work is done by the others; the next one has its turn when all is whole again."""
    for role, number in everybody(cluster):
        hurt(next(p for p in cluster.processes(role) if p.number == number))
        for load in loads:
            load.go_on()
        cluster.up()
        until(lambda: is_whole(cluster), f"it is not whole again after {role} {number}", PATIENCE_S)


@pytest.mark.long
def test_any_one_process_may_be_killed_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", OURS, "--partitions", str(PARTITIONS))
        cluster.tank("topic", "create", RAW)
        assert {row["leader"] for row in cluster.partitions(OURS)} == {1, 2, 3}
        servers = [str(p.addresses["tank"]) for p in cluster.processes("broker")]
        ports = [int(server.rpartition(":")[2]) for server in servers]
        loads = [OurLoad(servers), RawLoad(ports)]
        for load in loads:
            load.start()
        hurt_each_in_turn(cluster, Process.kill, loads)
        for load in loads:
            load.end()
        with Client(servers) as client, client.consumer([OURS, RAW], stop_at_end=True) as consumer:
            found: dict[str, list[int]] = {OURS: [], RAW: []}
            for batch in consumer:
                found[batch.topic] += [int(value or 0) for value in batch.values]
        shown = json.loads(cluster.tank("topic", "list", "--output", "json"))["topics"]
        assert {topic["name"]: topic["messages"] for topic in shown} == {t: len(found[t]) for t in found}
        ours, raw = (load.acknowledged for load in loads)
        assert sorted(found[OURS]) == list(range(ours)), "each once"
        assert [number for number, _ in itertools.groupby(found[RAW])] == list(range(raw)), "each, in order"
        cluster.down()
