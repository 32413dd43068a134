"""A real broker with many Kafka clients: a thousand that are idle, two hundred that produce and fetch."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tank_node.limits import MIB
from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceResponse,
)
from tests.support.clients.kafka_calls import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    base_offset,
    batch_of,
    create_topic,
    fetch_request,
    fetched,
    produce,
    produce_request,
    values_of,
)
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.integration

IDLE = 1000
BUSY = 200
ROUNDS = 10


def test_a_thousand_idle_and_two_hundred_busy_kafka_clients(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, ExitStack() as stack:

        def client() -> KafkaSocket:
            return stack.enter_context(KafkaSocket(broker.kafka_port, 30))

        lone_bytes = broker.resident_bytes()
        first = client()
        first.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3)
        first.ask(MetadataRequest(None), MetadataResponse, 12)
        create_topic(first, "a")
        content = b"x" * 20_000
        assert produce(first, "a", batch_of(content)) == 0
        first.ask(fetch_request("a", 0), FetchResponse, FETCH_VERSION)
        one_bytes = broker.resident_bytes()

        busy = [client() for _ in range(BUSY)]
        for _ in range(ROUNDS):
            _produce_and_fetch(busy, content)
        busy_bytes = broker.resident_bytes()

        idle = [client() for _ in range(IDLE)]
        for each in idle:
            assert each.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
        _produce_and_fetch(busy, content)
        all_bytes = broker.resident_bytes()
        assert f"tank_connections {1 + BUSY + IDLE}.0" in broker.metrics()

        for each in (first, idle[0], idle[-1], busy[-1]):
            assert produce(each, "a", batch_of(b"still here")) > 0
        waits = [idle[0], busy[0]]
        for each in waits:
            each.send(fetch_request("a", first_free(first), wait_ms=60_000), FETCH_VERSION)
        until(lambda: 'tank_waiting_requests{kind="consume"} 2.0' in broker.metrics(), "they don't wait")
        assert broker.stop() == 0
        for each in waits:
            assert not fetched(each.receive_as(FetchResponse, FETCH_VERSION)[1]).records
    print(
        f"alone {lone_bytes / MIB:.0f} MiB, with a client {one_bytes / MIB:.0f} MiB, with {BUSY} busy ones"
        f" {busy_bytes / MIB:.0f} MiB, with {IDLE} idle ones, too, {all_bytes / MIB:.0f} MiB"
    )
    assert lone_bytes < 60 * MIB
    assert busy_bytes < 110 * MIB
    assert all_bytes < 300 * MIB


def _produce_and_fetch(clients: list[KafkaSocket], content: bytes) -> None:
    """Each has two batches and a fetch under way at once, and gets all answers, in order."""
    for client in clients:
        for _ in range(2):
            client.send(produce_request("a", batch_of(content)), PRODUCE_VERSION)
        client.send(fetch_request("a", 0, most_bytes=len(content)), FETCH_VERSION)
    for client in clients:
        for _ in range(2):
            base_offset(client.receive_as(ProduceResponse, PRODUCE_VERSION)[1])
        found = fetched(client.receive_as(FetchResponse, FETCH_VERSION)[1])
        assert values_of(found, 0) == [content]


def first_free(client: KafkaSocket) -> int:
    """The offset behind the last record."""
    return fetched(
        client.ask(fetch_request("a", 0, most_bytes=1), FetchResponse, FETCH_VERSION)
    ).high_watermark
