"""A cluster of processes on this machine: metadata and leadership survive kill -9 of any one of them."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def in_sync(cluster: LocalCluster, topic: str, brokers: set[int]) -> bool:
    """Whether these alone are in sync, and lead."""
    return all(set(p["in_sync"]) == brokers and p["leader"] in brokers for p in cluster.partitions(topic))


def test_metadata_and_leadership_survive_kills(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", "t", "--partitions", "6", "--replication-factor", "3")
        before = cluster.partitions("t")
        assert [len(p["in_sync"]) for p in before] == [3] * 6
        assert {p["leader"] for p in before} == {1, 2, 3}, "leaders are spread"

        leader = cluster.leader()
        leader.kill()
        cluster.tank("topic", "create", "u", "--partitions", "2", "--replication-factor", "2")
        assert cluster.leader().number != leader.number

        broker = next(p for p in cluster.processes("broker") if p.number == 2)
        broker.kill()
        until(lambda: in_sync(cluster, "t", {1, 3}), "the killed broker leads, or is in sync, still")
        epochs = {p["partition"]: p["leader_epoch"] for p in before}
        for partition in cluster.partitions("t"):
            moved = before[partition["partition"]]["leader"] == 2
            assert (partition["leader_epoch"] > epochs[partition["partition"]]) is moved

        cluster.up()
        assert leader.pid != next(p for p in cluster.processes("controller") if p.number == leader.number).pid
        assert all(p.facts()["ready"] for p in cluster.processes("broker"))
        cluster.down()
        assert {p.pid for p in cluster.processes("broker") + cluster.processes("controller")} == {None}

        cluster.up()
        assert [p["replicas"] for p in cluster.partitions("t")] == [p["replicas"] for p in before]
        assert len(cluster.partitions("u")) == 2
        cluster.down()


def test_a_controller_whose_disk_was_emptied_joins_again_and_founds_nothing(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", brokers=1) as cluster:
        cluster_id = cluster.leader().facts()["cluster_id"]
        leader = cluster.leader()
        emptied = next(p for p in cluster.processes("controller") if p.number != leader.number)
        emptied.kill()
        shutil.rmtree(tmp_path / "c" / f"controller-{emptied.number}")
        cluster.up()
        again = next(p for p in cluster.processes("controller") if p.number == emptied.number)
        assert again.facts()["cluster_id"] == cluster_id
        leader.kill()
        # Two are left, the emptied one among them: a majority only if it votes.
        cluster.tank("topic", "create", "t")
        cluster.up()
        cluster.down()


def test_a_broker_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=1) as cluster:
        cluster.down()
        meta = tmp_path / "c" / "broker-1" / "meta.json"
        cluster_id = json.loads(meta.read_text())["cluster_id"]
        meta.write_text(meta.read_text().replace(cluster_id, "elsewhere"))
        said = cluster.tank("cluster", "up", *cluster.size, "--data", str(cluster.data), fails=True)
        assert "broker-1 ended" in said
        assert "belongs to cluster elsewhere" in said
