"""The connections on which a broker forwards requests: their other ends, their bounds, and what ends them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.limits import Limits
from tank_node.peers.forward_session import ForwardSession
from tank_node.purpose import Purpose
from tank_protos.generated.tank import (
    ConsumeRequest,
    ConsumeResponse,
    FetchedPartition,
    FetchedTopic,
    ProduceRequest,
    ReplicaIdRequest,
)
from tank_protos.wire.framing import FrameReader, frame
from tests.support.nodes.broker_cell import BrokerCell, CellNode, PipeEnd
from tests.support.nodes.forwarded import (
    consume_request,
    fetched,
    lead,
    line_to,
    produce_request,
    results,
    stored,
    three_leaders,
)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers that forward; partition n of "a" is led by broker n + 1."""
    cell = three_leaders(tmp_path)
    yield cell
    cell.close()


def forwarders(node: CellNode) -> set[int]:
    """The brokers that have a connection open to this one, to forward requests."""
    return {
        one
        for one, other, near, far in node.cell.pipes
        if other == node.broker_id and isinstance(near.session, ForwardSession) and not far.closed
    }


def sent_last(near: PipeEnd) -> int:
    """The id of the request that a broker has just forwarded. It lies unread at the leader."""
    near.send()
    assert near.other is not None
    *_, (message_id, payload) = FrameReader().feed(bytes(near.other.received))
    if message_id == ProduceRequest.ID:
        return ProduceRequest.decode(payload).request_id
    return ConsumeRequest.decode(payload).request_id


def test_a_new_connection_ends_the_one_before_it_and_what_it_brought_is_not_looked_at(
    cell: BrokerCell,
) -> None:
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"before")
    old = line_to(cell.nodes[2], 1)
    client.send(produce_request((0, b"late")))
    (pipe,) = [pipe for pipe in cell.pipes if pipe[2].session is old]
    pipe[2].send()  # it lies unread at the leader
    pipe[2].other = None
    old.close()
    assert results(client) == [(1, b"\3")]
    pipe[3].other = None
    held = bytes(pipe[3].received)
    client.send(produce_request((0, b"next")))
    pipe[3].received.clear()
    cell.run(200)
    pipe[3].received += held
    pipe[3].receive()
    cell.run(300)
    assert pipe[3].closed
    assert results(client) == [(1, b"\0")]
    assert stored(cell.nodes[1], 0) == [b"before", b"next"]


def test_a_connection_that_nobody_uses_is_closed(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"x")
    assert forwarders(cell.nodes[1]) == {2}
    cell.run(61_000)
    assert not forwarders(cell.nodes[1])
    lead(cell, client, 0, b"y")
    assert stored(cell.nodes[1], 0) == [b"x", b"y"]


@pytest.mark.parametrize(
    "change",
    [
        {"replica_id": 3},
        {"cluster_id": "another"},
        {"broker_epoch": 1},
        {"key": b"x" * 16},
        {"meant_broker": 3},
        {"purpose": Purpose.LIVE},
    ],
    ids=str,
)
def test_nothing_is_sent_to_another_one_than_was_meant(
    cell: BrokerCell, change: dict[str, int | str | bytes]
) -> None:
    client = cell.nodes[2].client()
    client.send(produce_request((0, b"secret")))
    near, far = cell.pipes[-1][2:]
    near.send()
    told = ReplicaIdRequest.decode(bytes(far.received[5:]))
    told.replica_id, told.meant_broker = 1, 2
    told.broker_epoch = cell.nodes[1].controller.broker_epoch
    for name, value in change.items():
        setattr(told, name, value)
    near.received += b"".join(frame(told.ID, told.encode()))
    near.receive()
    assert near.closed
    assert [error.reason for error in cell.nodes[2].refused] == ["wrong_peer"]
    assert results(client) == [(1, b"\2")]


@pytest.mark.parametrize("change", [{"fenced": True}, {"epoch": 999}])
def test_a_leader_that_is_fenced_or_another_process_ends_its_connection(
    cell: BrokerCell, change: dict[str, int]
) -> None:
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"x")
    client.send(produce_request((0, b"y")))
    for name, value in change.items():
        setattr(cell.nodes[2].controller.view.brokers[1], name, value)
    cell.step()
    assert results(client) == [(1, b"\3")]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0",
        b"\x05",
        b"\xfc\x7f\0\0\1\1\0",
    ],
)
def test_an_answer_that_is_none_closes_the_connection_and_the_client_is_told(
    cell: BrokerCell, answer: bytes
) -> None:
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"x")
    line = line_to(cell.nodes[2], 1)
    client.send(produce_request((0, b"y")))
    (pipe,) = [pipe for pipe in cell.pipes if pipe[2].session is line]
    request_id = sent_last(pipe[2])
    pipe[2].received += b"".join(frame(1, [request_id.to_bytes(4, "little") + answer]))
    pipe[2].receive()
    assert pipe[2].closed
    assert results(client) == [(1, b"\3")]


def test_a_consume_answer_to_something_else_is_not_relayed(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"x")
    line = line_to(cell.nodes[2], 1)
    client.send(consume_request((0, 2), wait_ms=5_000))
    (pipe,) = [pipe for pipe in cell.pipes if pipe[2].session is line]
    bad = ConsumeResponse.decode(_empty_answer(sent_last(pipe[2]), partition=5))
    pipe[2].received += b"".join(frame(2, bad.encode()))
    pipe[2].receive()
    assert pipe[2].closed
    assert not fetched(client)


def _empty_answer(request_id: int, partition: int) -> memoryview:
    told = FetchedPartition(partition=partition, flag=0)
    topics = [FetchedTopic(name="a", partition_count=1, unknown=False, partitions=[told])]
    return memoryview(b"".join(ConsumeResponse(request_id=request_id, topics=topics).encode()))


def test_a_client_that_brings_more_than_flows_away_is_not_read_until_it_does(tmp_path: Path) -> None:
    limits = Limits(forwarded_bytes=1_000)
    cell = BrokerCell(tmp_path, 2, limits, ForwardingPolicy.AUTO)
    cell.create(flush="replicated")
    cell.run(300)
    client = cell.nodes[2].client()
    for value in range(5):
        client.send(produce_request((0, b"%d" % value * 600)))
    assert client.session.is_full
    assert client.pending_bytes > 1_200, "the rest lies unread"
    for _ in range(10):
        cell.run(200)
        client.feed(b"")
    assert client.session.most
    assert results(client) == [(1, b"\0")] * 5
    assert stored(cell.nodes[1], 0) == [b"%d" % value * 600 for value in range(5)]
    cell.close()


def unsent_bytes(line: ForwardSession) -> int:
    return sum(len(part) for part in line.out if isinstance(part, bytes))


def test_what_a_silent_leader_was_to_get_is_bounded_though_nobody_waits_for_it_any_more(
    tmp_path: Path,
) -> None:
    limits = Limits(forwarded_bytes=1_000)
    cell = BrokerCell(tmp_path, 2, limits, ForwardingPolicy.AUTO)
    cell.create(flush="replicated")
    cell.run(300)
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"x")
    line = line_to(cell.nodes[2], 1)
    (near,) = [pipe[2] for pipe in cell.pipes if pipe[2].session is line]
    near.send = lambda: None  # type: ignore[method-assign]
    most = 0
    for value in range(60):
        client.send(produce_request((0, b"%d" % value * 300), ack_timeout_ms=500))
        cell.run(200)
        most = max(most, unsent_bytes(line))
        if line.closed:
            break
    assert limits.forwarded_bytes <= most <= 2 * limits.forwarded_bytes
    assert 6_000 <= 200 * value <= 9_000, "then the connection is made anew"
    assert {told for _, told in results(client)} == {b"\3"}
    cell.run(400)
    client.feed(b"")
    cell.run(600)
    assert results(client)[-1][1] == b"\0", "what it held back is forwarded now"
    assert not line.pending
    assert not line.pending_bytes
    cell.close()


def test_a_process_that_stood_still_hears_leaders_before_it_gives_them_up(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"x")
    line = line_to(cell.nodes[2], 1)
    (near,) = [pipe[2] for pipe in cell.pipes if pipe[2].session is line]
    near.receive = lambda: None  # type: ignore[method-assign]
    client.send(produce_request((0, b"y")))
    cell.run(400)
    assert not results(client)
    cell.clock.pass_ms(70_000)
    del near.receive
    cell.run(200)
    assert results(client) == [(1, b"\0")]
    assert not line.closed


def test_an_answer_that_comes_late_frees_what_its_request_took(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2, Limits(forwarded_bytes=100), ForwardingPolicy.AUTO)
    cell.create(flush="replicated")
    cell.run(300)
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"x")
    line = line_to(cell.nodes[2], 1)
    (near,) = [pipe[2] for pipe in cell.pipes if pipe[2].session is line]
    near.receive = lambda: None  # type: ignore[method-assign]
    client.send(produce_request((0, b"y" * 100), ack_timeout_ms=500))
    cell.run(2_000)
    assert results(client) == [(1, b"\3")]
    assert line.pending_bytes > 100
    assert client.session.most == 0
    del near.receive
    cell.run(100)
    assert not line.closed
    assert line.pending == line.pending_bytes == 0
    assert client.session.most > 0
    assert not results(client), "it was answered once"
    cell.close()


def test_a_client_with_much_under_way_elsewhere_is_not_read(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2, Limits(request_bytes=1_000), ForwardingPolicy.AUTO)
    cell.create(flush="replicated")
    cell.run(300)
    client = cell.nodes[2].client()
    for value in range(10):
        client.send(produce_request((0, b"%d" % value * 400)))
    assert client.session.in_flight == 3
    for _ in range(10):
        cell.run(200)
        client.feed(b"")
    assert results(client) == [(1, b"\0")] * 10
    assert stored(cell.nodes[1], 0) == [b"%d" % value * 400 for value in range(10)]
    cell.close()


def test_beyond_its_bounds_nothing_is_forwarded_and_that_is_counted(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2, Limits(forwarded_most_bytes=100), ForwardingPolicy.AUTO)
    cell.create(flush="replicated")
    cell.run(300)
    client = cell.nodes[2].client()
    client.send(produce_request((0, b"x" * 200)))
    assert results(client) == [(1, b"\2")]
    assert cell.nodes[2].metrics.refused["forwarding_full"] == 1
    cell.close()
