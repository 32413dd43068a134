"""DescribeConnections: a page of clients, bounded, whatever the clients say about themselves."""

from collections.abc import Sequence
from pathlib import Path

from tank_node.client_facts import UNKNOWN_BYTES, ClientFacts, ServedClient
from tank_node.limits import DESCRIBED_CONNECTIONS
from tank_protos.error_codes import ConnectionProtocol
from tank_protos.generated.tank import DescribeConnectionsRequest, DescribeConnectionsResponse
from tests.support.nodes.bench_node import BenchNode


def client(number: int, name: str = "app", host: str = "10.0.0.7") -> ServedClient:
    facts = ClientFacts(ConnectionProtocol.KAFKA, name, "librdkafka", "2.6.0", {"Fetch": 13, "Metadata": 12})
    return ServedClient(number, host, 4711, 1_500, 100, UNKNOWN_BYTES, 2, facts)


def ask(node: BenchNode, found: Sequence[ServedClient], **said: int) -> DescribeConnectionsResponse:
    """The answer of a broker with these clients."""
    node.broker.clients = lambda after, most: [each for each in found if each.number > after][:most]
    request = DescribeConnectionsRequest(request_id=9, **said)
    return DescribeConnectionsResponse.decode(node.client().ask(request))


def test_a_client_is_described(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        answer = ask(node, [client(3)])
    (found,) = answer.connections
    assert (answer.request_id, answer.broker_id, answer.has_more) == (9, 1, 0)
    assert (found.number, found.protocol, found.host, found.port) == (3, 2, "10.0.0.7", 4711)
    assert (found.client_id, found.software, found.software_version) == ("app", "librdkafka", "2.6.0")
    assert (found.connected_ms, found.received_bytes, found.in_flight) == (1_500, 100, 2)
    assert found.sent_bytes == 2**64 - 1
    assert [(each.name, each.api_version) for each in found.requests] == [("Fetch", 13), ("Metadata", 12)]


def test_a_page_is_as_long_as_asked_and_never_longer_than_the_limit(tmp_path: Path) -> None:
    many = [client(number) for number in range(1, DESCRIBED_CONNECTIONS + 3)]
    with BenchNode(tmp_path / "data") as node:
        for limit, length, has_more in (
            (0, DESCRIBED_CONNECTIONS, 1),
            (65_535, DESCRIBED_CONNECTIONS, 1),
            (2, 2, 1),
        ):
            answer = ask(node, many, limit=limit)
            assert (len(answer.connections), answer.has_more) == (length, has_more)
        last = ask(node, many, after=DESCRIBED_CONNECTIONS)
        assert ([each.number for each in last.connections], last.has_more) == (
            [DESCRIBED_CONNECTIONS + 1, DESCRIBED_CONNECTIONS + 2], 0,
        )  # fmt: skip


def test_what_clients_say_about_themselves_is_cut_and_can_always_be_sent(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        long, strange = ask(node, [client(1, "é" * 40_000), client(2, "a\udcffb")]).connections
    assert long.client_id == "é" * 500
    assert strange.client_id == "a?b"


def test_a_broker_without_a_server_has_none(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        payload = node.client().ask(DescribeConnectionsRequest(request_id=1))
        assert DescribeConnectionsResponse.decode(payload).connections == []
