"""DescribeCluster: brokers for administration clients, in every version."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.view import BrokerView
from tank_protos.generated.kafka import DescribeClusterRequest, DescribeClusterResponse
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

VERSIONS = range(3)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        brokers = node.controller.view.brokers
        brokers[2] = BrokerView(2, 1, "h", 11011, "r", kafka_host="k2.test", kafka_port=9092)
        brokers[3] = BrokerView(3, 1, "h", 11011, "", fenced=True, kafka_host="k3.test", kafka_port=9093)
        brokers[4] = BrokerView(4, 1, "h", 11011, "")
        yield node


def ask(
    node: BenchNode, version: int, request: DescribeClusterRequest | None = None
) -> DescribeClusterResponse:
    return KafkaLine(node).ask(request or DescribeClusterRequest(), DescribeClusterResponse, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_brokers_that_are_there_are_listed(node: BenchNode, version: int) -> None:
    response = ask(node, version)
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.cluster_id, response.controller_id, response.endpoint_type) == ("test-cluster", 1, 1)
    assert [(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in response.brokers] == [
        (1, "127.0.0.1", 9092, None, False),
        (2, "k2.test", 9092, "r", False),
    ]


def test_fenced_brokers_are_listed_if_asked_for(node: BenchNode) -> None:
    response = ask(node, 2, DescribeClusterRequest(include_fenced_brokers=True))
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False), (2, False), (3, True)]


def test_a_fenced_broker_is_never_the_controller(node: BenchNode) -> None:
    node.controller.view.brokers[1].fenced = True
    assert ask(node, 2, DescribeClusterRequest(include_fenced_brokers=True)).controller_id == 2
    assert ask(node, 2).controller_id == 2


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("endpoint_type", "error"), [(2, 114), (0, 115), (3, 115)])
def test_only_brokers_are_told(node: BenchNode, version: int, endpoint_type: int, error: int) -> None:
    response = ask(node, version, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (response.error_code, response.brokers) == (error, [])
    assert response.error_message


@pytest.mark.parametrize("version", VERSIONS)
def test_operations_come_only_if_asked_for(node: BenchNode, version: int) -> None:
    assert ask(node, version).cluster_authorized_operations == -(1 << 31)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert ask(node, version, request).cluster_authorized_operations == 0b1_1111_1010_0000
