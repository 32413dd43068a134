"""Produce requests to a broker that does not lead: it brings them to the one that does, once."""

import pytest

from tank_node.broker.forwarding import ForwardingPolicy
from tank_protos import bundle
from tank_protos.error_codes import ProduceError
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProduceWithBaseSeqNumRequest,
)
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.forwarded import (
    NEW,
    OLD,
    lead,
    line_to,
    produce_request,
    results,
    stored,
)

END = 2**64 - 1


def test_an_old_clients_bundles_reach_their_leader_in_order_and_each_is_answered(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    sent = [b"value-%d" % number for number in range(50)]
    for request_id, value in enumerate(sent):
        client.send(produce_request((0, value), request_id=request_id))
        if request_id % 7 == 0:
            cell.step()
    assert client.session.in_flight
    cell.run(400)
    assert results(client) == [(request_id, b"\0") for request_id in range(50)]
    assert stored(cell.nodes[1], 0) == sent
    assert client.session.in_flight == client.session.asked_bytes == 0
    assert cell.nodes[2].metrics.forwarded == {(1, "ok"): 50}


def test_a_request_for_several_leaders_is_split_and_answered_in_its_order(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    client.send(produce_request((2, b"c"), (9, b"nowhere"), (0, b"a"), (1, b"b"), (2, b"C"), (0, b"A")))
    cell.run(400)
    assert results(client) == [(1, b"\0\1\0\0\0\0")]
    assert [stored(cell.nodes[n + 1], n) for n in range(3)] == [[b"a", b"A"], [b"b"], [b"c", b"C"]]


def test_so_is_one_with_numbers(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    content = bundle.encode([b"x"], timestamps=1)
    entries = [ProduceBasePartition(n, len(content), 100 + n, content) for n in (0, 1, 2)]
    request = ProduceWithBaseSeqNumRequest(OLD, 5, "", 0, 0, [ProduceBaseTopic("a", entries)])
    for told in (b"\0\0\0", b"\x0a\x0a\x0a"):
        client.send(request)
        cell.run(400)
        assert results(client) == [(5, told)]
    assert [cell.nodes[n + 1].log("a", n).last for n in range(3)] == [100, 101, 102]


def test_a_topic_that_the_leader_does_not_know_yet_is_stored_nowhere(cell: BrokerCell) -> None:
    del cell.nodes[1].broker.topics["a"]
    client = cell.nodes[2].client()
    client.send(produce_request((0, b"x"), (0, b"y")))
    cell.run(400)
    assert results(client) == [(1, b"\2\2")]


@pytest.mark.parametrize(("version", "told"), [(OLD, b"\2"), (NEW, b"\xfd")])
def test_what_cannot_be_sent_is_told_as_not_stored(cell: BrokerCell, version: int, told: bytes) -> None:
    cell.nodes[2].broker.forwarding.policy = ForwardingPolicy.ALWAYS
    cell.disconnect(2, 1)
    client = cell.nodes[2].client()
    client.send(produce_request((0, b"x"), version=version))
    assert results(client) == [(1, told)]
    cell.connect(2, 1)
    client.send(produce_request((0, b"x"), version=version))
    assert results(client) == [(1, told)], "it is not dialed again at once"
    cell.run(200)
    client.send(produce_request((0, b"x"), version=version))
    cell.run(400)
    assert results(client) == [(1, b"\0")]
    assert stored(cell.nodes[1], 0) == [b"x"]


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("arrives", [True, False])
def test_what_was_sent_when_the_connection_breaks_may_be_stored_and_is_not_sent_again(
    cell: BrokerCell, version: int, *, arrives: bool
) -> None:
    cell.nodes[2].broker.forwarding.policy = ForwardingPolicy.ALWAYS
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"before")
    client.send(produce_request((0, b"x"), version=version))
    if arrives:
        cell.step()
    cell.disconnect(2, 1)
    cell.connect(2, 1)
    cell.run(1000)
    assert results(client) == [(1, bytes([ProduceError.NOT_ACKNOWLEDGED_IN_TIME]))]
    assert stored(cell.nodes[1], 0) == [b"before"] + [b"x"] * arrives
    assert cell.nodes[2].metrics.forwarded == {(1, "ok"): 1, (1, "not_answered"): 1}
    client.send(produce_request((0, b"after"), version=version))
    cell.run(1000)
    assert results(client) == [(1, b"\0")]
    assert stored(cell.nodes[1], 0) == [b"before"] + [b"x"] * arrives + [b"after"]


def test_what_waits_for_the_connection_when_that_fails_is_not_stored(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    client.send(produce_request((0, b"x")))
    assert not results(client)
    assert not line_to(cell.nodes[2], 1).is_open
    cell.disconnect(2, 1)
    assert results(client) == [(1, b"\2")]
    assert cell.nodes[2].metrics.forwarded == {(1, "not_sent"): 1}
    cell.connect(2, 1)
    cell.run(1000)
    assert stored(cell.nodes[1], 0) == []


def test_a_leader_that_says_nothing_is_waited_for_as_long_as_the_client_says(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"before")
    request = produce_request((0, b"x"))
    request.ack_timeout_ms = 2_000
    for pipe in cell.pipes:
        pipe[3].receive = lambda: None  # type: ignore[method-assign]
    client.send(request)
    cell.run(1_900)
    assert not results(client)
    cell.run(700)
    assert results(client) == [(1, b"\3")]
    for pipe in cell.pipes:
        del pipe[3].receive
    cell.run(300)
    assert stored(cell.nodes[1], 0) == [b"before", b"x"]
    assert not results(client), "the late answer is not looked at"
    assert line_to(cell.nodes[2], 1).pending == client.session.asked_bytes == 0
    assert cell.nodes[2].metrics.forwarded == {(1, "ok"): 1, (1, "not_answered"): 1}


def test_a_broker_that_does_not_lead_any_more_sends_nothing_on(cell: BrokerCell) -> None:
    cell.change(0, leader=3, brokers=(1, 3))
    client = cell.nodes[2].client()
    client.send(produce_request((0, b"x")))
    cell.run(300)
    assert results(client) == [(1, b"\2")]
    assert stored(cell.nodes[3], 0) == []
