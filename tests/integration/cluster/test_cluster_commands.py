"""An operator's commands on a cluster of processes: a broker is emptied, a waiting partition is helped."""

import shutil
from pathlib import Path

import pytest

from tank_cli.cluster import folder as cluster_folder
from tests.integration.cluster.cluster_writer import TOPIC, Writer, broker
from tests.integration.cluster.commands_seen import seen, start
from tests.support.processes.cluster import running_cluster
from tests.support.processes.readiness import samples_of
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


def test_a_broker_is_drained_under_load_and_removed(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=3) as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "6", "--replication-factor", "2")
        before = seen(cluster, 3)
        assert before["replicas"] >= 3
        assert before["leads"] >= 1
        writer = Writer(cluster)
        writer.start()
        writer.go_on(1000)
        cluster.tank("cluster", "drain", "3")
        after = seen(cluster, 3)
        assert (after["draining"], after["replicas"], after["leads"], after["fenced"]) == (True, 0, 0, False)
        assert {tuple(sorted(row["replicas"])) for row in cluster.partitions(TOPIC)} == {(1, 2)}
        writer.go_on(1000)
        assert "is running" in cluster.tank("cluster", "remove", "3", fails=True)
        broker(cluster, 3).stop()
        until(lambda: seen(cluster, 3)["fenced"], "a broker that was stopped is not fenced")
        cluster.tank("cluster", "remove", "3")
        writer.go_on(1000)
        writer.end()
        until(lambda: bool(cluster.look("status")["healthy"]), "the others are not all in sync", 60)
        assert [each["broker_id"] for each in cluster.look("brokers")["brokers"]] == [1, 2]
        read = cluster.tank("consume", TOPIC, "--from", "first").split()
        assert sorted(map(int, read)) == list(range(writer.written))


def test_a_partition_that_waits_for_a_lost_broker_is_led_again_when_an_operator_says_so(
    tmp_path: Path,
) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=2) as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "1", "--replication-factor", "2")
        cluster.tank("produce", TOPIC, "--message", "both")
        (row,) = cluster.partitions(TOPIC)
        lost, other = row["replicas"]
        broker(cluster, other).kill()
        until(lambda: cluster.partitions(TOPIC)[0]["in_sync"] == [lost], "the killed one is in sync still")
        status = cluster.look("status")
        (dead,) = [each for each in status["brokers"] if each["broker_id"] == other]
        assert (dead["fenced"], dead["connected"], dead["leads"]) == (True, False, 0)
        assert (status["healthy"], status["partitions"]["under_replicated"]) == (False, 1)
        cluster.tank("produce", TOPIC, "--message", "one alone")
        said = samples_of(str(broker(cluster, lost).addresses["http"]))
        assert said["tank_led_partitions_under_replicated"] == said['tank_led_partitions{in_sync="1"}'] == 1
        assert said[f'tank_follower_out_of_sync_partitions{{follower="{other}"}}'] == 1
        assert said[f'tank_follower_connected{{follower="{other}"}}'] == 0
        assert said['tank_in_sync_changes_total{change="left"}'] == 1
        assert (said["tank_controllers_connected"], said["tank_fenced"]) == (1, 0)
        assert said["tank_controllers_silence_seconds"] < 3

        broker(cluster, lost).kill()
        start(cluster, other)
        (waiting,) = cluster.look("partitions", "--leaderless")["partitions"]
        assert (waiting["leader"], waiting["waits_for"]) == (None, [lost])
        assert "elect --unclean" in cluster.tank("cluster", "elect", TOPIC, "0", fails=True)
        cluster.tank("cluster", "elect", "--unclean", "--yes", TOPIC, "0")
        cluster.tank("produce", TOPIC, "--message", "again")
        assert cluster.tank("consume", TOPIC, "--from", "first").split("\n")[:2] == ["both", "again"]

        start(cluster, lost)
        until(lambda: len(cluster.partitions(TOPIC)[0]["in_sync"]) == 2, "it doesn't come back in sync", 60)
        (row,) = cluster.partitions(TOPIC)
        assert row["lossy_elections"] == 1
        assert cluster.look("status")["lossy_elections"] == 1


def test_a_lost_broker_that_starts_with_an_empty_folder_gives_way_to_the_greatest_end(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=2) as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "1", "--replication-factor", "2")
        cluster.tank("produce", TOPIC, "--message", "both")
        (row,) = cluster.partitions(TOPIC)
        lost, other = row["replicas"]
        broker(cluster, other).kill()
        until(lambda: cluster.partitions(TOPIC)[0]["in_sync"] == [lost], "the killed one is in sync still")
        cluster.tank("produce", TOPIC, "--message", "one alone")
        broker(cluster, lost).kill()
        start(cluster, other)
        assert cluster.partitions(TOPIC)[0]["waits_for"] == [lost]

        folder = cluster_folder.load_existing(cluster.data)
        shutil.rmtree(folder.data_of(next(each for each in folder.brokers if each.number == lost)))
        start(cluster, lost)
        # The other one leads, until the preferred replica has what it has: a busy machine may miss that.
        until(lambda: cluster.partitions(TOPIC)[0]["lossy_elections"] == 1, "no replica was elected", 60)
        until(lambda: len(cluster.partitions(TOPIC)[0]["in_sync"]) == 2, "it doesn't come back in sync", 60)
        cluster.tank("produce", TOPIC, "--message", "again")
        assert cluster.tank("consume", TOPIC, "--from", "first").split("\n")[:2] == ["both", "again"]
        assert cluster.look("status")["lossy_elections"] == 1


def test_a_partition_is_moved_and_loads_are_evened_out(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=3) as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "3", "--replication-factor", "1")
        cluster.tank("produce", TOPIC, "--partition", "0", "--message", "here")
        (here,) = cluster.partitions(TOPIC)[0]["replicas"]
        there = here % 3 + 1
        cluster.tank("cluster", "move", TOPIC, "0", "--to", str(there))
        (row, *_) = cluster.partitions(TOPIC)
        assert (row["replicas"], row["leader"], row["adding"]) == ([there], there, [])
        cluster.tank("cluster", "balance")
        status = cluster.look("status")
        assert status["balanced"]
        loads = [each["replicas"] for each in status["brokers"]]
        assert max(loads) - min(loads) < 2
        assert cluster.tank("consume", TOPIC, "--partition", "0", "--from", "first") == "here\n"
