"""Who is forwarded and who is redirected, and the connections between the brokers."""

from pathlib import Path

import pytest

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.limits import Limits
from tank_node.peers.forward_session import ForwardSession
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import (
    ConsumeResponse,
    FeaturesRequest,
    FetchedPartition,
    FetchedTopic,
    ReplicaIdRequest,
)
from tank_protos.wire.framing import frame
from tests.support.broker_cell import BrokerCell, CellNode
from tests.support.forwarded import (
    NEW,
    OLD,
    consume_request,
    fetched,
    flags,
    lead,
    line_to,
    produce_request,
    results,
    stored,
)

END = 2**64 - 1


# --- who is forwarded, and who is redirected -------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "version", "host", "reached_at", "is_forwarded"),
    [
        (ForwardingPolicy.AUTO, OLD, "127.0.0.1", "127.0.0.1", True),
        (ForwardingPolicy.AUTO, NEW, "127.0.0.1", "127.0.0.1", False),
        (ForwardingPolicy.AUTO, NEW, "127.0.0.1", "::ffff:127.0.0.1", False),
        (ForwardingPolicy.AUTO, NEW, "broker-1.tank", "127.0.0.1", True),
        (ForwardingPolicy.AUTO, NEW, "127.0.0.1", "10.0.0.9", True),
        (ForwardingPolicy.AUTO, NEW, "127.0.0.1", "", True),
        (ForwardingPolicy.AUTO, 0x101, "broker-1.tank", "10.0.0.9", False),
        (ForwardingPolicy.ALWAYS, NEW, "127.0.0.1", "127.0.0.1", True),
        (ForwardingPolicy.NEVER, OLD, "127.0.0.1", "127.0.0.1", False),
        (ForwardingPolicy.NEVER, NEW, "broker-1.tank", "127.0.0.1", False),
    ],
)
def test_who_is_forwarded(
    cell: BrokerCell,
    policy: ForwardingPolicy,
    version: int,
    host: str,
    reached_at: str,
    *,
    is_forwarded: bool,
) -> None:
    cell.nodes[2].broker.forwarding.policy = policy
    cell.nodes[2].controller.view.brokers[1].host = host
    client = cell.nodes[2].client(reached_at)
    client.send(consume_request((0, 1), version=version))
    cell.run(200)
    (answer,) = fetched(client)
    assert (flags(answer) == [ConsumeFlag.DATA]) is (is_forwarded or version == OLD)
    client.send(produce_request((0, b"x"), version=version))
    cell.run(400)
    assert bool(stored(cell.nodes[1], 0)) is is_forwarded


@pytest.mark.parametrize("policy", [ForwardingPolicy.AUTO, ForwardingPolicy.ALWAYS])
def test_a_client_that_knows_brokers_by_name_is_not_forwarded_unless_all_are(
    cell: BrokerCell, policy: ForwardingPolicy
) -> None:
    cell.nodes[2].broker.forwarding.policy = policy
    cell.nodes[2].controller.view.brokers[1].host = "broker-1.tank"
    client = cell.nodes[2].client()
    client.ask(FeaturesRequest(0, 1))
    client.send(consume_request((0, 1), version=NEW))
    cell.run(200)
    (answer,) = fetched(client)
    is_forwarded = policy is ForwardingPolicy.ALWAYS
    assert flags(answer) == [ConsumeFlag.DATA if is_forwarded else ConsumeFlag.NO_LEADER]


def test_a_client_that_knows_leaders_hears_that_there_is_none_at_once(cell: BrokerCell) -> None:
    cell.nodes[3].broker.forwarding.policy = ForwardingPolicy.ALWAYS
    cell.disconnect(1, 3)
    client = cell.nodes[3].client()
    client.send(consume_request((0, 1), (1, 1), version=NEW, wait_ms=60_000))
    cell.run(200)
    (answer,) = fetched(client)
    assert flags(answer) == [ConsumeFlag.NO_LEADER, ConsumeFlag.DATA]


# --- the connection between the brokers ------------------------------------------------------------------


def forwarders(node: CellNode) -> dict[int, object]:
    return dict(node.broker.forwarding._taken)


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
    assert set(forwarders(cell.nodes[1])) == {2}
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
        {"purpose": 0},
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
    request_id = line._next_id - 1
    pipe[2].received += b"".join(frame(1, [request_id.to_bytes(4, "little") + answer]))
    pipe[2].receive()
    assert pipe[2].closed
    assert results(client) == [(1, b"\3")]


def test_a_consume_answer_to_something_else_is_not_relayed(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    client.send(consume_request((0, 1), wait_ms=5_000))
    cell.run(200)
    line = line_to(cell.nodes[2], 1)
    (pipe,) = [pipe for pipe in cell.pipes if pipe[2].session is line]
    bad = ConsumeResponse.decode(_empty_answer(line._next_id - 1, partition=5))
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
