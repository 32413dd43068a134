"""Connections on which nothing comes for a while: what the broker sends of itself, and to which clients."""

import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tank_node.limits import MIB, Limits
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    CreateTopicRequest,
    FeaturesRequest,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.served_node import ServedNode
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.integration

VERSIONS = (0, 1, 2)
"""Of the clients of the old document, of Go and Java, and of the C++ broker's own."""


def next_frame(client: RawConnection) -> tuple[int, bytes]:
    """What comes next on the socket: as those clients read it, with no ping passed over."""
    head = client.socket.recv(5, socket.MSG_WAITALL)
    length = int.from_bytes(head[1:], "little")
    return head[0], client.socket.recv(length, socket.MSG_WAITALL)


def send(client: RawConnection, request: ConsumeRequest | ProduceRequest) -> None:
    client.send(request.ID, request.encode())


def end_of(version: int, wait_ms: int) -> ConsumeRequest:
    """Asks for what comes next."""
    partition = ConsumePartition(0, 2**64 - 1, MIB)
    return ConsumeRequest(version, 7, "", wait_ms, 0, 0, [ConsumeTopic("a", [partition])])


def one_message(version: int) -> ProduceRequest:
    batch = memoryview(bundle.as_batch(bundle.encode([b"x"], timestamps=1)))
    return ProduceRequest(version, 8, "", 0, 0, [ProduceTopic("a", [ProducePartition(0, batch)])])


def opened(stack: ExitStack, port: int) -> RawConnection:
    """A connection that has read its first ping."""
    client = stack.enter_context(RawConnection(port, 60))
    assert next_frame(client) == (3, b"")
    return client


def test_only_a_client_that_asked_for_features_gets_more_pings_than_the_first(tmp_path: Path) -> None:
    limits = Limits(housekeeping_ms=10, heartbeat_ms=20)
    with ServedNode(tmp_path / "data", limits) as node, ExitStack() as stack:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        waiting = [opened(stack, node.port) for _ in VERSIONS]
        idle = [opened(stack, node.port) for _ in VERSIONS]
        for version, client, other in zip(VERSIONS, waiting, idle, strict=True):
            send(client, end_of(version, 60_000))
            send(other, end_of(version, 0))  # a connection that never said anything would be closed
            assert next_frame(other)[0] == 2
        until(lambda: node.on_loop(lambda: node.metrics.waiting) == len(VERSIONS), "they don't wait")
        ours = opened(stack, node.port)
        ours.send(FeaturesRequest.ID, FeaturesRequest().encode())
        assert next_frame(ours)[0] == FeaturesRequest.ID
        for _ in range(5):  # as often a heartbeat was due on the others
            assert next_frame(ours) == (3, b"")
        for version, client, other in zip(VERSIONS, waiting, idle, strict=True):
            send(other, one_message(version))
            assert next_frame(other) == (1, b"\x08\0\0\0\0")
            kind, payload = next_frame(client)
            assert kind == 2
            assert ConsumeResponse.decode(payload).request_id == 7


def test_tcp_asks_whether_the_other_end_is_there(tmp_path: Path) -> None:
    with ServedNode(tmp_path / "data") as node, ExitStack() as stack:
        opened(stack, node.port)

        def options() -> list[int]:
            [fd] = node.server.connections.by_fd
            names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            with socket.socket(fileno=os.dup(fd)) as sock:
                on = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                return [on, *(sock.getsockopt(socket.IPPROTO_TCP, name) for name in names)]

        assert node.on_loop(options) == [1, 30, 10, 3]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_forty_seconds_of_silence_and_of_waiting_bring_no_ping(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, ExitStack() as stack:
        maker = opened(stack, broker.port)
        maker.send(CreateTopicRequest.ID, CreateTopicRequest(1, "a", 1, b"").encode())
        assert next_frame(maker)[0] == CreateTopicRequest.ID
        waiting = [opened(stack, broker.port) for _ in VERSIONS]
        idle = [opened(stack, broker.port) for _ in VERSIONS]
        for version, client, other in zip(VERSIONS, waiting, idle, strict=True):
            send(client, end_of(version, 40_000))
            send(other, end_of(version, 0))
            assert next_frame(other)[0] == 2
        time.sleep(41)
        for version, client, other in zip(VERSIONS, waiting, idle, strict=True):
            kind, payload = next_frame(client)
            assert kind == 2
            assert ConsumeResponse.decode(payload).topics[0].partitions[0].chunk_length == 0
            send(other, one_message(version))
            assert next_frame(other)[0] == 1
