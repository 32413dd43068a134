"""A broker whose folder is put back to an earlier state of itself, while all others are away."""

import shutil
import time
from pathlib import Path

import pytest

from tests.integration.cluster.cluster_writer import TOPIC, broker
from tests.integration.cluster.commands_seen import seen, start
from tests.support.processes.cluster import running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

OTHERS = (3, 1)
"""They stop before broker 2, and are away when it comes back."""


def test_it_does_not_lead_without_what_was_acknowledged_since(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "1", "--replication-factor", "3")
        cluster.tank("produce", TOPIC, "-m", "one", "-m", "two", "-m", "three")
        folder = cluster.data / "broker-2"
        broker(cluster, 2).stop()
        shutil.copytree(folder, tmp_path / "earlier")
        start(cluster, 2)
        until(lambda: cluster.partitions(TOPIC)[0]["in_sync"] == [1, 2, 3], "it does not come in sync", 60)
        cluster.tank("produce", TOPIC, "-m", "four", "-m", "five")
        for number in (*OTHERS, 2):
            broker(cluster, number).stop()
        shutil.rmtree(folder)
        (tmp_path / "earlier").rename(folder)
        start(cluster, 2)
        time.sleep(1)  # an election would be the next thing to happen
        waiting = cluster.partitions(TOPIC)[0]
        assert not waiting["leader"], "it leads, and lacks two messages"
        cluster.up()
        until(lambda: bool(cluster.look("status")["healthy"]), "the cluster is not whole", 60)
        assert cluster.tank("consume", TOPIC, "--from", "first").split() == [
            "one", "two", "three", "four", "five",
        ]  # fmt: skip
        assert not seen(cluster, 2)["fenced"]
