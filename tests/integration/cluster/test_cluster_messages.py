"""Messages through a cluster of processes whose members are killed and frozen: none lost, none twice."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.integration.cluster.cluster_writer import TOPIC, Writer, broker
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

FROZEN_S = 8
"""Longer than a broker may be silent."""


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
