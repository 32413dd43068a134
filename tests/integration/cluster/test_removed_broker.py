"""A broker that was removed from its cluster stays away, and begins anew where as many are asked for."""

from pathlib import Path

import pytest

from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def known(cluster: LocalCluster) -> list[int]:
    return [each["broker_id"] for each in cluster.look("brokers")["brokers"]]


def remove(cluster: LocalCluster, number: int) -> None:
    cluster.tank("cluster", "drain", str(number), "--wait")
    next(each for each in cluster.processes("broker") if each.number == number).stop()

    def fenced() -> bool:
        return any(each["fenced"] for each in cluster.look("brokers")["brokers"])

    until(fenced, "it is not fenced")
    cluster.tank("cluster", "remove", str(number))


def test_a_removed_broker_stays_away_until_as_many_are_asked_for(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1) as cluster:
        cluster.size = []
        remove(cluster, 2)
        cluster.up()
        assert known(cluster) == [1, 3]
        assert [each.number for each in cluster.processes("broker")] == [1, 3]
        assert (cluster.data / "broker-2.removed").is_dir()
        cluster.down()
        cluster.up()
        assert known(cluster) == [1, 3]
        cluster.size = ["--brokers", "3"]
        cluster.up()
        assert known(cluster) == [1, 2, 3]


def test_one_that_was_removed_while_all_were_down_comes_back_anew_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    with running_cluster(tmp_path / "c", controllers=1) as cluster:
        remove(cluster, 3)
        cluster.down()
        cluster.up()  # with `--brokers 3`
        assert known(cluster) == [1, 2, 3]
        assert (cluster.data / "broker-3.removed").is_dir()
