"""A connection on which another broker forwards, as the leader sees it."""

from pathlib import Path

import pytest

from tank_node.limits import Limits
from tank_node.purpose import Purpose
from tank_node.tank.redirect import NotForwarded
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProduceWithBaseSeqNumRequest,
    ReplicaIdRequest,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message
from tests.support.clients.produce import batch_of
from tests.support.nodes.bench_node import BenchClient
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.forwarded import (
    NEW,
    OLD,
    consume_request,
    fetched,
    lead,
    produce_request,
    stored,
    values,
)

END = 2**64 - 1


def opened(cell: BrokerCell) -> BenchClient:
    """Broker 2's connection for forwarding, played by the test, at broker 1."""
    client = cell.nodes[1].client()
    link = cell.nodes[2].controller
    opening = ReplicaIdRequest(2, "cell", link.broker_epoch, 1, Purpose.REQUESTS, link.peer_key)
    answer = ReplicaIdRequest.decode(client.ask(opening))
    assert (answer.replica_id, answer.meant_broker, answer.purpose) == (1, 2, Purpose.REQUESTS)
    return client


def test_a_connection_is_opened_once(cell: BrokerCell) -> None:
    with pytest.raises(WireError, match="second opening"):
        client = opened(cell)
        link = cell.nodes[2].controller
        client.send(ReplicaIdRequest(2, "cell", link.broker_epoch, 1, Purpose.REQUESTS, link.peer_key))


def test_it_has_heartbeats_since_silence_ends_it(cell: BrokerCell) -> None:
    client = opened(cell)
    client.session.heartbeat()
    assert client.taken() == b"\3\0\0\0\0"


@pytest.mark.parametrize("version", [OLD, NEW, 0x100, 0x102, 0x103])
@pytest.mark.parametrize("kind", [1, 2, 5])
def test_on_a_connection_for_them_requests_are_marked_as_forwarded(
    cell: BrokerCell, version: int, kind: int
) -> None:
    entries = [ProduceBasePartition(0, len(batch_of(b"x")), 1, batch_of(b"x"))]
    requests: dict[int, Message] = {
        1: produce_request((0, b"x"), version=version),
        2: consume_request((0, 1), version=version),
        5: ProduceWithBaseSeqNumRequest(version, 5, "", 0, 0, [ProduceBaseTopic("a", entries)]),
    }
    broker = opened(cell)
    with pytest.raises(NotForwarded):
        broker.send(requests[kind])
    assert not stored(cell.nodes[1], 0)


def test_what_a_client_sent_before_is_no_pattern_for_what_is_forwarded(cell: BrokerCell) -> None:
    broker = cell.nodes[1].client()
    lead(cell, broker, 0, b"x")
    link = cell.nodes[2].controller
    broker.send(ReplicaIdRequest(2, "cell", link.broker_epoch, 1, Purpose.REQUESTS, link.peer_key))
    for request in (produce_request((0, b"y")), consume_request((0, 2))):
        with pytest.raises(NotForwarded):
            broker.send(request)


def test_what_a_broker_forwards_is_answered_in_small_pieces(tmp_path: Path) -> None:
    limits = Limits(forwarded_fetch_bytes=2_000, forwarded_answer_bytes=3_000)
    cell = BrokerCell(tmp_path, 2, limits)
    cell.create(partitions=2, flush="replicated")
    cell.run(300)
    for number in (0, 1):
        lead(cell, cell.nodes[1].client(), number, *[b"x" * 900] * 10)
    broker = opened(cell)
    broker.send(consume_request((0, 1), (1, 1), version=0x101))
    (answer,) = fetched(broker)
    assert [len(found) for found in values(answer).values()] == [2, 1]
    cell.close()


def test_a_broker_may_have_more_under_way_than_a_client(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2, Limits(in_flight=2, forwarded_requests=5))
    cell.create(flush="replicated")
    cell.run(300)
    for client, most in ((cell.nodes[1].client(), 2), (opened(cell), 5)):
        for _ in range(10):
            client.send(consume_request((0, 1), version=0x101, wait_ms=60_000))
        assert client.session.in_flight == most
    cell.close()
