"""The addresses of brokers that Kafka clients get: of the side that they come from, and of brokers that have
one."""

from pathlib import Path
from unittest.mock import patch

import pytest

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes
from tank_cli.cluster.processes import command_of
from tank_protos.generated.kafka import MetadataRequest, MetadataResponse
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.broker_process import BrokerProcess, running_broker
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.processes.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def told(address: str, version: int) -> dict[int, str]:
    """Where the brokers are, as a Kafka client hears that asks at this address."""
    host, _, port = address.rpartition(":")
    with KafkaSocket(int(port), host=host) as client:
        answer = client.ask(MetadataRequest([]), MetadataResponse, version)
    return {each.node_id: f"{each.host}:{each.port}" for each in answer.brokers}


def await_told(address: str, brokers: dict[int, str]) -> None:
    """Returns when a client that asks there hears of these brokers, and no others."""
    until(lambda: told(address, 13) == brokers, f"{address} doesn't tell of {brokers}")


def start_anew(cluster: LocalCluster, number: int, *options: str) -> None:
    """Stops a broker, and starts it with these options besides its own."""
    folder = cluster_folder.load_existing(cluster.data)
    next(each for each in cluster.processes("broker") if each.number == number).stop()
    member = next(each for each in folder.brokers if each.number == number)
    with patch.object(processes, "command_of", return_value=[*command_of(folder, member), *options]):
        processes.start(folder, member)
    processes.await_ready(folder, lambda ready: None)


def test_a_client_gets_all_brokers_with_the_addresses_of_its_own_side(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1) as cluster:
        inside = {each.number: str(each.addresses["kafka"]) for each in cluster.processes("broker")}
        for address in inside.values():
            for version in (0, 1, 13):
                assert told(address, version) == inside

        outside = {number: f"localhost:{free_port()}" for number in inside}
        for number, address in outside.items():
            listen = address.replace("localhost", "127.0.0.1")
            start_anew(
                cluster, number, "--kafka-outside-listen", listen, "--kafka-outside-advertise", address
            )
        for number in inside:
            await_told(inside[number], inside)
            await_told(outside[number], outside)

        start_anew(cluster, 2, "--kafka", "off")
        del inside[2]
        for address in inside.values():
            await_told(address, inside)


def test_a_broker_alone_is_reached_where_it_says(tmp_path: Path) -> None:
    elsewhere = ("--advertise", "broker.example.org:11011")
    for number, (options, advertised) in enumerate(
        (
            ((), "127.0.0.1:{port}"),
            (elsewhere, "broker.example.org:{port}"),
            ((*elsewhere, "--kafka-advertise", "k.example.org:19092"), "k.example.org:19092"),
        )
    ):
        with BrokerProcess(tmp_path / str(number), *options) as broker:
            address = advertised.format(port=broker.kafka_port)
            assert told(f"127.0.0.1:{broker.kafka_port}", 1) == {1: address}


def test_any_free_port_is_known_before_the_first_client_asks(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--kafka", "127.0.0.1:0") as broker:
        (said,) = [word for word in broker.output().split(";")[0].split() if word.startswith("127.0.0.1:")][
            -1:
        ]
        assert told(said, 1) == {1: said}
