"""Clients of a cluster of processes: with one server of it, over failovers; ours and TANK's own protocol."""

import itertools
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tank_client import AtTime
from tank_client.model import END
from tank_client.sync import Client, Consumer, Producer
from tank_protos.bundle import as_batch, encode
from tank_protos.error_codes import ProduceError
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.raw_follower import RawFollower
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, Process, running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FROZEN_S = 8
"""Longer than a broker may be silent."""


def broker(cluster: LocalCluster, number: int) -> Process:
    return next(p for p in cluster.processes("broker") if p.number == number)


def port_of(process: Process) -> int:
    return int(str(process.addresses["tank"]).rpartition(":")[2])


def leader(cluster: LocalCluster, topic: str, partition: int = 0) -> Process:
    """Waits until there is one."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [
            p["leader"]
            for p in cluster.partitions(topic)
            if p["partition"] == partition and p["leader"] is not None
        ]
        return bool(found)

    until(look, f"{topic}/{partition} has no leader", 60)
    return broker(cluster, found[0])


def create(cluster: LocalCluster, topic: str, partitions: int = 1) -> None:
    cluster.tank("topic", "create", topic, "--partitions", str(partitions), "--replication-factor", "3")


# One server


def write(producer: Producer, topic: str, numbers: range) -> None:
    for number in numbers:
        producer.send(topic, b"%d" % number)
    producer.flush()


def read(consumer: Consumer, count: int) -> list[int]:
    """So many messages, as numbers."""
    found: list[int] = []
    while len(found) < count:
        batch = consumer.poll(90_000)
        assert batch is not None, f"{len(found)} of {count} came"
        found += [int(value or 0) for value in batch.values]
    return found


def use_in_every_way(server: str, topic: str, stored: int) -> None:
    """Fresh clients, none of which knows another server or has asked before."""
    with Client(server) as client:
        write(client.producer(), topic, range(stored, stored + 10))
    stored += 10
    with Client(server) as client, client.consumer(topic, stop_at_end=True) as consumer:
        assert [int(message.value or 0) for message in consumer.messages()] == list(range(stored))
    with Client(server) as client, client.consumer(topic, start=AtTime(0)) as consumer:
        assert read(consumer, stored) == list(range(stored))
    with Client(server) as client, client.consumer(topic, start="end") as consumer:
        consumer.poll(0)
        assert consumer.position(topic, 0) == stored + 1
        consumer.seek(topic, 0, 1)
        consumer.seek(topic, 0, END)
        assert consumer.position(topic, 0) == stored + 1
    with Client(server) as client, client.consumer({topic: [0]}, start=stored) as consumer:
        assert read(consumer, 1) == [stored - 1]


def test_one_server_of_a_cluster_is_all_that_a_client_needs(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        create(cluster, "lone")
        create(cluster, "t", partitions=3)
        for stored, by_name in ((0, False), (10, True)):
            if by_name:
                cluster.name_brokers()
            other = next(p for p in cluster.processes("broker") if p.pid != leader(cluster, "lone").pid)
            use_in_every_way(str(other.addresses["tank"]), "lone", stored)
        only = leader(cluster, "t", 0)
        with Client(str(only.addresses["tank"])) as client:
            producer, consumer = client.producer(), client.consumer("t")
            write(producer, "t", range(500))
            found = read(consumer, 500)
            only.kill()
            write(producer, "t", range(500, 1000))
            found += read(consumer, 500)
            assert sorted(found) == list(range(1000))
            assert len(client.admin.describe_topics()) == 2
            with client.consumer("t", stop_at_end=True) as again:
                assert sorted(int(message.value or 0) for message in again.messages()) == list(range(1000))
            consumer.close()


# Failovers


class RawReader(threading.Thread):
    """Reads a topic's partition from its beginning, by hand, until it has seen `last`."""

    def __init__(self, ports: list[int], topic: str) -> None:
        super().__init__(daemon=True)
        self._follower = RawFollower(ports, topic)
        self.found: list[tuple[int, bytes]] = []
        self.last = b""

    def run(self) -> None:
        number = 1
        while not self.found or self.found[-1][1] != self.last:
            self.found += self._follower.consume(number, wait_ms=500)
            number = self.found[-1][0] + 1 if self.found else 1
        self._follower.close()


def test_a_client_of_tank_s_own_protocol_loses_nothing_over_a_failover(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        create(cluster, "raw")
        ports = [port_of(p) for p in cluster.processes("broker")]
        reader = RawReader(ports, "raw")
        reader.start()
        writer = RawFollower(ports, "raw")
        acks = itertools.cycle([0, 1, 2, 255])
        for number in range(200):
            writer.produce_until_acknowledged(b"%d" % number, next(acks))
        leader(cluster, "raw").kill()
        for number in range(200, 400):
            writer.produce_until_acknowledged(b"%d" % number, number % 2)
        refused = b"two more than the leader: one is dead"
        until(lambda: writer.produce(refused, 2) == ProduceError.NOT_ENOUGH_REPLICAS, "it is not refused", 60)
        cluster.up()
        for number in range(400, 500):
            writer.produce_until_acknowledged(b"%d" % number, 2)
        reader.last = b"499"
        reader.join(patient(60))
        assert not reader.is_alive()
        writer.close()
    assert [number for number, _ in reader.found] == list(range(1, len(reader.found) + 1))
    # What a lost answer left unknown was sent again, before anything else: it may be there twice in a row.
    values = [value for value, _ in itertools.groupby(value for _, value in reader.found)]
    values = [value for value in values if value != refused]
    assert values == [b"%d" % number for number in range(500)]


def test_a_thawed_leader_acknowledges_nothing(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        create(cluster, "t")
        servers = [str(p.addresses["tank"]) for p in cluster.processes("broker")]
        frozen = leader(cluster, "t")
        with Client(servers) as client, client.producer() as producer:
            write(producer, "t", range(500))
            with RawConnection(port_of(frozen), timeout_s=60) as raw:
                partition = ProducePartition(0, memoryview(as_batch(encode([b"-1"], timestamps=1))))
                request = ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("t", [partition])])
                os.kill(frozen.pid, signal.SIGSTOP)
                try:
                    raw.send(request.ID, request.encode())
                    began = time.monotonic()
                    write(producer, "t", range(500, 1000))
                    assert leader(cluster, "t").pid != frozen.pid
                    time.sleep(max(0.0, began + FROZEN_S - time.monotonic()))
                finally:
                    os.kill(frozen.pid, signal.SIGCONT)
                error = ProduceResponse.decode(raw.receive()[1]).results[0].error
                assert error in (
                    ProduceError.OTHER_LEADER,
                    ProduceError.NO_LEADER,
                    ProduceError.NOT_ACKNOWLEDGED_IN_TIME,
                )
            write(producer, "t", range(1000, 1500))
        in_sync = [1, 2, 3]
        until(lambda: sorted(cluster.partitions("t")[0]["in_sync"]) == in_sync, "it isn't in sync again", 60)
        with Client(servers) as client, client.consumer("t", stop_at_end=True) as consumer:
            assert [int(message.value or 0) for message in consumer.messages()] == list(range(1500))
