"""What is known of one round in the next, and topics that a request names again and again."""

from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.forwarded import (
    OLD,
    consume_request,
    fetched,
    flags,
    lead,
    produce_request,
    results,
    stored,
)

END = 2**64 - 1
MANY = 200
"""Of one topic, twice in a row: more than a topic in a message may have."""


def test_an_empty_answer_shows_the_mark_that_a_leader_showed_before_it_was_gone(cell: BrokerCell) -> None:
    cell.change(0, brokers=(1, 2))
    client = cell.nodes[3].client()
    lead(cell, client, 0, b"x")
    client.send(consume_request((0, END), (1, END), wait_ms=10_000))
    cell.run(500)
    cell.change(0, leader=0, brokers=(1, 2))
    cell.run(10_000)
    (answer,) = fetched(client)
    assert flags(answer) == [0, 0]
    assert [told.high_water_mark for told in answer.topics[0].partitions] == [1, 0]


def test_what_waits_for_a_leader_is_not_sent_once_another_has_led(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    client.send(produce_request((0, b"first"), request_id=1))
    for own, peer, _, far in cell.pipes:
        if (own, peer) == (3, 1):
            far.receive = lambda: None  # type: ignore[method-assign]
    cell.change(0, leader=2)
    client.send(produce_request((0, b"second"), request_id=2))
    cell.run(400)
    assert results(client) == [(2, b"\0")]
    cell.change(0, leader=1)
    for own, peer, _, far in cell.pipes:
        if (own, peer) == (3, 1):
            del far.receive
    cell.run(400)
    assert results(client) == [(1, b"\2")], "it would stand behind what was sent after it"
    assert stored(cell.nodes[1], 0) == [b"second"]
    assert client.session.asked_bytes == 0


def test_a_topic_that_is_named_twice_in_a_row_with_many_bundles_is_answered_for_each(
    cell: BrokerCell,
) -> None:
    client = cell.nodes[2].client()
    content = memoryview(batch_of(b"x"))
    twice = [ProduceTopic("a", [ProducePartition(0, content) for _ in range(MANY)]) for _ in range(2)]
    client.send(ProduceRequest(OLD, 1, "me", 0, 0, twice))
    cell.run(600)
    assert results(client) == [(1, bytes(2 * MANY))]
    assert len(stored(cell.nodes[1], 0)) == 2 * MANY


def test_so_is_one_that_the_leader_does_not_know(cell: BrokerCell) -> None:
    del cell.nodes[1].broker.topics["a"]
    client = cell.nodes[2].client()
    content = memoryview(batch_of(b"x"))
    twice = [ProduceTopic("a", [ProducePartition(0, content) for _ in range(MANY)]) for _ in range(2)]
    client.send(ProduceRequest(OLD, 1, "me", 0, 0, twice))
    cell.run(600)
    assert results(client) == [(1, b"\2" * (2 * MANY))]


def test_a_topic_that_is_named_twice_in_a_row_with_many_partitions_is_read_for_each(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    lead(cell, client, 0, b"x")
    twice = [ConsumeTopic("a", [ConsumePartition(0, 1, 1000) for _ in range(MANY)]) for _ in range(2)]
    client.send(ConsumeRequest(OLD, 7, "", 0, 0, 0, twice))
    cell.run(600)
    (answer,) = fetched(client)
    assert [len(topic.partitions) for topic in answer.topics] == [MANY, MANY]
    assert answer.chunks == batch_of(b"x") * (2 * MANY)
