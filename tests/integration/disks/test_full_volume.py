"""Brokers whose volumes are full, as real processes on a small tmpfs: who leads, and what is said."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_client.sync import Client
from tests.integration.programs.served import create_topic, produce
from tests.support.clients.raw_client import RawConnection
from tests.support.processes.broker_process import running_broker
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.processes.readiness import facts_of
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

MIB = 1 << 20
FULL = "the data folder's volume is full"


def mount(*words: str) -> None:
    try:
        done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("NOT TESTED ON A FULL VOLUME: there is no `mount` here")
    if done.returncode:
        pytest.skip(
            f"NOT TESTED ON A FULL VOLUME: mounting a tmpfs is not allowed here ({done.stderr.strip()})"
        )


@contextlib.contextmanager
def small_volume(path: Path) -> Iterator[Path]:
    """One of 32 MiB, with what was in the folder."""
    before = path.with_name(f"{path.name}.before")
    path.mkdir(exist_ok=True)
    path.rename(before)
    path.mkdir()
    mount("-t", "tmpfs", "-o", "size=32m", "tmpfs", str(path))
    try:
        shutil.copytree(before, path, dirs_exist_ok=True)
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(volume: Path) -> Path:
    """A file that takes what is left."""
    ballast = volume / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast


def leaders(cluster: LocalCluster) -> list[int]:
    return [p["leader"] for p in cluster.partitions("t")]


def warnings(cluster: LocalCluster) -> list[str]:
    return [each["warning"] for each in cluster.look("status")["warnings"]]


def test_others_lead_in_the_place_of_a_broker_without_room_until_its_volume_is_larger(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1) as cluster:
        one = next(each for each in cluster.processes("broker") if each.number == 1)
        one.stop()
        with small_volume(cluster.data / "broker-1") as volume:
            cluster.up()
            words = ["--partitions", "3", "--replication-factor", "3", "--set", "min.insync.replicas=2"]
            cluster.tank("topic", "create", "t", *words)
            until(lambda: sorted(leaders(cluster)) == [1, 2, 3], "not each of them leads one", 60)
            ballast = fill(volume)
            until(lambda: 1 not in leaders(cluster), "broker 1 leads on", 30)
            servers = [str(each.addresses["tank"]) for each in cluster.processes("broker")]
            with Client(servers) as client, client.producer() as producer:
                for number in range(3):
                    producer.send("t", b"a", partition=number)
            one = next(each for each in cluster.processes("broker") if each.number == 1)
            assert any(FULL in each for each in one.facts()["problems"])
            assert "The disk of broker 1, 32.0 MiB, is full: others lead." in warnings(cluster)
            assert "no room" in cluster.tank("cluster", "status")
            ballast.unlink()
            again = "Broker 1 has room again, and leads nothing that others can, since its disk was full."
            until(lambda: again in warnings(cluster), "nothing says that it could lead again", 30)
            assert 1 not in leaders(cluster), "it leads again by itself"
            mount("-o", "remount,size=64m", str(volume))
            until(lambda: 1 in leaders(cluster), "broker 1 leads nothing, though its volume is larger", 90)
            log = (cluster.data / "logs" / "broker-1.log").read_text()
            assert log.count(FULL) == 1


def test_a_broker_that_is_alone_says_it_and_its_log_is_not_flooded(tmp_path: Path) -> None:
    with small_volume(tmp_path / "data") as volume, running_broker(volume) as broker:
        assert create_topic(broker, "t") == 0
        fill(volume)
        with RawConnection(broker.port) as connection:
            answers = [produce(connection, "t", [bytes(100_000)]) for _ in range(100)]
        assert all(answers[1:]), "there was room"
        facts = facts_of(f"127.0.0.1:{broker.http_port}")
        assert any(FULL in each for each in facts["problems"])
        assert facts["ready"], "consumers read on"
        assert broker.output().count("partition t/0") <= 2
        asked = ["--servers", broker.address, "status"]
        ended = subprocess.run(
            [sys.executable, "-m", "tank_cli", *asked], capture_output=True, text=True, check=True, timeout=60
        )
        assert "and a full one takes no messages: enlarge it" in ended.stderr
