"""Brokers that clients of the outside reach by other addresses than pods do, as by ports of nodes."""

from pathlib import Path
from unittest.mock import patch

import pytest

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes
from tank_cli.cluster.processes import command_of
from tank_client.sync import Client
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.processes.ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def open_outside(cluster: LocalCluster, host: str) -> dict[int, int]:
    """Starts each broker anew with an address of the outside at this host; the ports, by broker."""
    folder, ports = cluster_folder.load_existing(cluster.data), {}
    for broker in cluster.processes("broker"):
        broker.stop()
        member = next(m for m in folder.brokers if m.number == broker.number)
        port = ports[broker.number] = free_port()
        outside = ["--outside-listen", f"127.0.0.1:{port}", "--outside-advertise", f"{host}:{port}"]
        command = [*command_of(folder, member), *outside]
        with patch.object(processes, "command_of", return_value=command):
            processes.start(folder, member)
        processes.await_ready(folder, lambda ready: None)
    return ports


def told(server: str) -> dict[int, str]:
    """Where the brokers are, as a client hears that asks this one."""
    with Client(server) as client:
        return {each.broker_id: str(each.address) for each in client.admin.brokers()}


def test_clients_are_told_of_the_side_that_they_come_from(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", "t", "--partitions", "6", "--replication-factor", "3")
        ports = open_outside(cluster, "localhost")
        inside = {each.number: str(each.addresses["tank"]) for each in cluster.processes("broker")}
        outside = {number: f"localhost:{port}" for number, port in ports.items()}
        for number in inside:
            assert told(inside[number]) == inside
            assert told(outside[number]) == outside

        with Client(outside[1]) as client:
            producer = client.producer()
            for value in range(600):
                producer.send("t", b"%d" % value, partition=value % 6)
            producer.flush()
            with client.consumer("t", stop_at_end=True) as consumer:
                found = sorted(int(message.value or 0) for message in consumer.messages())
        assert found == list(range(600))


def test_replication_never_goes_by_the_outside(tmp_path: Path) -> None:
    """There nobody is at all: all three have to store what is acknowledged, and a leader's death shows it."""
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", "t", "--replication-factor", "3", "--set", "min.insync.replicas=3")
        ports = open_outside(cluster, "nowhere.invalid")
        servers = ",".join(str(each.addresses["tank"]) for each in cluster.processes("broker"))
        with Client(servers) as client:
            producer = client.producer()
            for value in range(100):
                producer.send("t", b"%d" % value)
            producer.flush()
        assert told(f"127.0.0.1:{ports[2]}")[1] == f"nowhere.invalid:{ports[1]}"
        (partition,) = cluster.partitions("t")
        next(p for p in cluster.processes("broker") if p.number == partition["leader"]).kill()
        with Client(servers) as client, client.consumer("t", stop_at_end=True) as consumer:
            assert [int(message.value or 0) for message in consumer.messages()] == list(range(100))
