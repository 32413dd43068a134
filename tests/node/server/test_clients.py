"""The clients that a server lists: their names, what they asked, and how much went over their connections."""

from pathlib import Path

from tank_node.client_facts import ServedClient
from tank_protos.error_codes import ConnectionProtocol
from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from tank_protos.generated.tank import (
    ConsumeRequest,
    DescribeConnectionsRequest,
    DescribeConnectionsResponse,
    StatusRequest,
)
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.served_node import ServedNode


def clients_of(node: ServedNode, after: int = 0, most: int = 10) -> list[ServedClient]:
    return node.on_loop(lambda: node.broker.clients(after, most))


def test_clients_of_both_protocols_are_listed_with_what_they_asked(tmp_path: Path) -> None:
    with (
        ServedNode(tmp_path) as node,
        RawConnection(node.port) as ours,
        KafkaSocket(node.kafka_port) as kafka,
    ):
        ours.ask(StatusRequest.ID, StatusRequest(1).encode())
        ours.ask(ConsumeRequest.ID, ConsumeRequest(request_id=2, client_id="billing").encode())
        kafka.ask(ApiVersionsRequest("librdkafka", "2.6.0"), ApiVersionsResponse, 3)
        kafka.ask(MetadataRequest(topics=[]), MetadataResponse, 12)
        first, second = clients_of(node)
        ours_port, kafka_port = ours.socket.getsockname()[1], kafka.socket.getsockname()[1]
    assert (first.host, first.port, second.host, second.port) == (
        "127.0.0.1", ours_port, "127.0.0.1", kafka_port,
    )  # fmt: skip
    assert first.facts.protocol is ConnectionProtocol.TANK
    assert first.facts.client_id == "billing"
    assert first.facts.requests == {"status": -1, "consume": -1}
    assert second.facts.protocol is ConnectionProtocol.KAFKA
    assert (second.facts.client_id, second.facts.software, second.facts.software_version) == (
        "test", "librdkafka", "2.6.0",
    )  # fmt: skip
    assert second.facts.requests == {"ApiVersions": 3, "Metadata": 12}
    assert first.number < second.number
    assert first.connected_ms >= 0


def test_bytes_are_counted_by_the_system(tmp_path: Path) -> None:
    with ServedNode(tmp_path) as node, RawConnection(node.port) as client:
        request = StatusRequest(1).encode()
        client.ask(StatusRequest.ID, request)
        (before,) = clients_of(node)
        client.ask(StatusRequest.ID, request)
        (after,) = clients_of(node)
    if before.received_bytes >= 0:  # a system may count nothing
        assert after.received_bytes - before.received_bytes == 5 + sum(map(len, request))
        assert before.sent_bytes >= 5


def test_pages_go_by_the_numbers_of_connections(tmp_path: Path) -> None:
    with ServedNode(tmp_path) as node:
        connections = [RawConnection(node.port) for _ in range(5)]
        for each in connections:
            each.ask(StatusRequest.ID, StatusRequest(1).encode())
        first = clients_of(node, 0, 3)
        rest = clients_of(node, first[-1].number, 3)
        connections[0].close()
        assert [len(first), len(rest)] == [3, 2]
        numbers = [each.number for each in [*first, *rest]]
        assert numbers == sorted(set(numbers))
        with RawConnection(node.port) as asking:
            payload = DescribeConnectionsRequest(0, 7, first[-1].number, 1).encode()
            answer = DescribeConnectionsResponse.decode(asking.ask(DescribeConnectionsRequest.ID, payload))
        assert (answer.request_id, answer.broker_id, answer.has_more) == (7, 1, 1)
        assert [each.number for each in answer.connections] == [rest[0].number]
        for each in connections:
            each.close()
