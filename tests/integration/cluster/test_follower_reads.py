"""A client that prefers the broker which it has asked, and a cluster of processes: a follower serves it."""

import threading
from pathlib import Path

import pytest

from tank_protos import bundle
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import ConsumePartition, ConsumeRequest, ConsumeResponse, ConsumeTopic
from tests.support.clients.raw_client import RawConnection
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPIC = "a"
PREFERS_THIS = 1


class Reader:
    """One connection to one broker, and never another."""

    def __init__(self, cluster: LocalCluster, broker: int) -> None:
        (process,) = [p for p in cluster.processes("broker") if p.number == broker]
        port = int(str(process.addresses["tank"]).rpartition(":")[2])
        self._connection = RawConnection(port, timeout_s=patient(60))

    def read(self, first: int, *, wait_ms: int = 0, flags: int = PREFERS_THIS) -> tuple[int, list[bytes]]:
        """The flag of the partition's answer, and the messages."""
        topics = [ConsumeTopic(TOPIC, [ConsumePartition(0, first, 1 << 20)])]
        request = ConsumeRequest(3, 1, "", wait_ms, 1, flags, topics)
        answer = ConsumeResponse.decode(self._connection.ask(request.ID, request.encode()))
        (told,) = answer.topics[0].partitions
        return told.flag, [
            m.value for b in bundle.bundles(memoryview(answer.chunks)) for m in bundle.decode(b, 1)
        ]

    def until_it_reads(self, *wanted: bytes) -> None:
        """From the first message on, all of these."""
        until(lambda: self.read(1) == (ConsumeFlag.DATA, list(wanted)), f"{wanted} are not served", 60)


def place(cluster: LocalCluster) -> tuple[int, list[int]]:
    """The leader, and those that follow in sync."""
    (partition,) = cluster.partitions(TOPIC)
    leader = int(partition["leader"])
    return leader, [number for number in partition["in_sync"] if number != leader]


def write(cluster: LocalCluster, folder: Path, *values: str) -> None:
    lines = folder / "lines"
    lines.write_text("".join(f"{value}\n" for value in values))
    cluster.tank("produce", TOPIC, str(lines))


def test_a_follower_serves_those_who_prefer_it_also_after_its_leader_died(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", TOPIC, "--partitions", "1", "--replication-factor", "3")
        write(cluster, tmp_path, "one", "two")
        leader, followers = place(cluster)
        assert len(followers) == 2
        readers = [Reader(cluster, number) for number in followers]
        for reader in readers:
            reader.until_it_reads(b"one", b"two")
            assert reader.read(1, flags=0) == (ConsumeFlag.OTHER_LEADER, [])
            assert reader.read(100) == (ConsumeFlag.OTHER_LEADER, []), "its leader alone can tell"

        woken: list[tuple[int, list[bytes]]] = []
        thread = threading.Thread(
            target=lambda: woken.append(readers[0].read(3, wait_ms=50_000)), daemon=True
        )
        thread.start()
        write(cluster, tmp_path, "three")
        thread.join(patient(40))
        assert woken == [(ConsumeFlag.DATA, [b"three"])]

        (victim,) = [p for p in cluster.processes("broker") if p.number == leader]
        victim.kill()
        until(lambda: place(cluster)[0] not in (0, leader), "no other leads", 60)
        write(cluster, tmp_path, "four")
        Reader(cluster, place(cluster)[1][0]).until_it_reads(b"one", b"two", b"three", b"four")
        cluster.down()
