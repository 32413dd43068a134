"""Connections of Kafka clients, on real sockets: how long silent ones live, and what large requests cost."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tank_node.kafka.dispatch import APIS
from tank_node.kafka.session import KafkaCall, KafkaSession
from tank_node.kafka.settling import KafkaPause
from tank_node.limits import KIB, MIB, Limits
from tank_protos.generated.kafka import ApiVersionsRequest, ApiVersionsResponse, ProduceResponse
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord
from tank_protos.wire.tagged import UnknownTag
from tests.support.clients.kafka_calls import PRODUCE_VERSION, base_offset, batch_of, produce_request
from tests.support.clients.kafka_socket import KafkaSocket, frame
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.served_node import ServedNode
from tests.support.waiting import until

pytestmark = pytest.mark.integration

QUICK = Limits(
    housekeeping_ms=20, unused_connection_ms=150, kafka_unused_connection_ms=900, heartbeat_ms=50,
    stalled_frame_ms=300,
)  # fmt: skip


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[ServedNode]:
    with ServedNode(tmp_path / "data", QUICK) as node:
        yield node


def is_served(client: KafkaSocket) -> bool:
    return client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_a_client_that_has_sent_nothing_outlives_one_of_tank(quick: ServedNode) -> None:
    with KafkaSocket(quick.kafka_port) as kept, KafkaSocket(quick.kafka_port) as unused:
        with RawConnection(quick.port):
            until(lambda: quick.metrics.closed["unused"] == 1, "TANK's unused connection is not closed")
        assert is_served(kept), "a client may connect long before its first request"
        assert unused.is_closed_by_the_broker(), "but not for ever"
        until(lambda: quick.metrics.closed["unused"] == 2, "the close is not counted")
        assert is_served(kept), "an idle one is never closed"


def test_no_heartbeat_and_no_ping_reaches_a_kafka_client(quick: ServedNode) -> None:
    with KafkaSocket(quick.kafka_port) as idle, KafkaSocket(quick.kafka_port) as half_closed:
        assert is_served(idle)
        half = frame(ApiVersionsRequest(), 0, 1)
        half_closed.socket.sendall(half[:-1])
        half_closed.socket.shutdown(socket.SHUT_WR)
        assert half_closed.is_closed_by_the_broker(), "half a request has no answer"
        idle.socket.settimeout(0.5)  # ten heartbeats
        with pytest.raises(TimeoutError):
            idle.socket.recv(1)


def test_half_a_request_is_closed_in_the_end(quick: ServedNode) -> None:
    with KafkaSocket(quick.kafka_port) as client:
        client.socket.sendall(frame(ApiVersionsRequest(), 0, 1)[:-1])
        assert client.is_closed_by_the_broker()
    until(lambda: quick.metrics.closed["stalled_frame"] == 1, "the close is not counted")


def test_requests_larger_than_a_receive_are_answered_and_hold_no_memory(tmp_path: Path) -> None:
    with ServedNode(tmp_path / "data") as node, KafkaSocket(node.kafka_port) as client:
        for size in (300 * KIB, MIB, 1500 * KIB):  # the last one is too large for a buffer that is kept
            request = ApiVersionsRequest("test", "1", unknown_tags=(UnknownTag(99, b"x" * size),))
            for _ in range(10):
                assert client.ask(request, ApiVersionsResponse, 3).error_code == 0
        assert node.on_loop(lambda: node.metrics.held_bytes) == 0


def test_large_requests_wait_for_memory_and_come_through(tmp_path: Path) -> None:
    limits = Limits(frame_bytes=4 * MIB, bundle_bytes=3 * MIB, memory_bytes=5 * MIB, housekeeping_ms=10)
    with ServedNode(tmp_path / "data", limits) as node, ExitStack() as stack:
        settings = {"log_format": "kafka", "max_message_bytes": str(3 * MIB)}
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated", **settings))
        clients = [stack.enter_context(KafkaSocket(node.kafka_port, 30)) for _ in range(6)]
        whole = frame(produce_request("a", batch_of(b"x" * 2 * MIB)), PRODUCE_VERSION, 7)
        for client in clients:
            client.socket.sendall(whole[: 600 * KIB])
        until(lambda: node.on_loop(lambda: bool(node.server.connections.memory.starved)), "none had to wait")
        senders = [
            threading.Thread(target=client.socket.sendall, args=(whole[600 * KIB :],)) for client in clients
        ]
        for sender in senders:
            sender.start()
        stored = [base_offset(client.receive_as(ProduceResponse, PRODUCE_VERSION)[1]) for client in clients]
        for sender in senders:
            sender.join()
        assert sorted(stored) == list(range(6))
        assert node.on_loop(lambda: node.metrics.held_bytes) == 0


def bug() -> None:
    raise ZeroDivisionError("a handler with a bug")


def waits_with_a_bug(node: ServedNode, on_close: Callable[[], None] | None = None) -> None:
    """The request of the node's only connection waits, and will not be answered."""
    (connection,) = node.server.connections.by_fd.values()
    session = connection.session
    assert isinstance(session, KafkaSession)
    call = KafkaCall(session, APIS[2], 0, 99, None, has_tags=False)
    session.begin(call)
    KafkaPause(call, bug).begin()
    if on_close is not None:
        call.on_close = on_close


@pytest.mark.parametrize("on_close", [None, bug])
def test_a_client_whose_request_a_bug_keeps_waiting_is_disconnected(
    quick: ServedNode, on_close: Callable[[], None] | None
) -> None:
    with KafkaSocket(quick.kafka_port) as client:
        assert is_served(client)
        quick.on_loop(lambda: waits_with_a_bug(quick, on_close))
        client.send(ApiVersionsRequest(), 0)  # it wakes the loop, and stands behind the request that waits
        assert client.is_closed_by_the_broker()
        until(lambda: quick.metrics.closed["internal_error"] == 1, "the close is not counted")
    with KafkaSocket(quick.kafka_port) as other:
        assert is_served(other)
    until(lambda: not quick.on_loop(lambda: quick.metrics.connections), "a connection is still open")


@pytest.mark.parametrize("size", [10, 300 * KIB])
def test_requests_that_wait_for_another_tick_are_answered_in_order(tmp_path: Path, size: int) -> None:
    with ServedNode(tmp_path / "data", Limits(tick_unpacked_bytes=1)) as node, ExitStack() as stack:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))  # it unpacks, and converts
        clients = [stack.enter_context(KafkaSocket(node.kafka_port, 30)) for _ in range(20)]
        record = KafkaRecord(None, random.Random(size).randbytes(size), 0, 0)
        batch = record_batch.encode([record], base_timestamp_ms=1000, codec=KafkaCodec.GZIP)
        for client in clients:
            for number in range(3):
                client.socket.sendall(frame(produce_request("a", batch), PRODUCE_VERSION, number))
        offsets = []
        for client in clients:
            for number in range(3):
                answered, response = client.receive_as(ProduceResponse, PRODUCE_VERSION)
                assert answered == number
                offsets.append(base_offset(response))
        assert sorted(offsets) == list(range(60))
        assert node.on_loop(lambda: node.metrics.held_bytes) == 0
        assert not node.on_loop(lambda: len(node.broker.unpacking))
