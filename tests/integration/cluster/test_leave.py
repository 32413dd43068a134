"""`tank-node leave` against a cluster of processes: one broker after the other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def leave(cluster: LocalCluster, broker_id: int, within_ms: int) -> tuple[int, str]:
    """The exit code, and what it said."""
    controllers = ",".join(str(each.addresses["grpc"]) for each in cluster.processes("controller"))
    environment = {
        **os.environ,
        "TANK_CONTROLLERS": controllers,
        "TANK_SECRET_FILE": str(cluster.data / "secret"),
        "TANK_BROKER_ID": f"tank-broker-{broker_id - 1}",
    }
    command = [sys.executable, "-m", "tank_node", "leave", "--within-ms", str(within_ms)]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=patient(60), check=False
    )
    return ended.returncode, ended.stderr


def test_one_may_be_stopped_and_the_next_waits_until_that_one_is_back_in_sync(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", "t", "--partitions", "6", "--replication-factor", "3")
        code, said = leave(cluster, 3, 30_000)
        assert code == 0, said
        assert "has enough replicas in sync without it. It may be stopped." in said
        third = next(each for each in cluster.processes("broker") if each.number == 3)
        third.kill()
        code, said = leave(cluster, 2, 3_000)
        assert code == 1, said
        assert "the time is up after 3 s. Without broker 2, t/0 would have 1 replicas in sync" in said
        assert "waits for broker 3" in said
        cluster.up()
        code, said = leave(cluster, 2, 60_000)
        assert code == 0, said
        cluster.down()
        code, said = leave(cluster, 2, 1_000)
        assert (code, "no controller" in said or "time is up" in said) == (1, True)
