"""Consume requests to a broker that does not lead: it asks those that do, and puts one answer together."""

from pathlib import Path

import pytest

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.limits import Limits
from tank_node.peers.forward_session import ForwardSession
from tank_protos import bundle
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProduceWithBaseSeqNumRequest,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell, PipeEnd
from tests.support.nodes.forwarded import (
    NEW,
    OLD,
    consume_request,
    fetched,
    flags,
    lead,
    line_to,
    produce_request,
    results,
    values,
)

END = 2**64 - 1


def answering_lines(cell: BrokerCell, broker: int) -> list[PipeEnd]:
    """This broker's ends of its connections to leaders."""
    return [
        near for own, _, near, _ in cell.pipes if own == broker and isinstance(near.session, ForwardSession)
    ]


def test_an_old_consumer_reads_all_from_a_broker_that_leads_nothing_of_it(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    lead(cell, client, 0, b"1", b"2", b"3")
    client.send(consume_request((0, 2)))
    cell.run(200)
    (answer,) = fetched(client)
    (told,) = answer.topics[0].partitions
    assert (answer.request_id, told.flag, told.base_sequence_number, told.high_water_mark) == (7, 0, 2, 3)
    assert values(answer) == {0: [b"2", b"3"]}


def test_partitions_of_several_leaders_are_put_together_in_the_order_asked(cell: BrokerCell) -> None:
    client = cell.nodes[1].client()
    for number in range(3):
        lead(cell, client, number, b"of-%d" % number)
    client.send(consume_request((2, 1), (0, 1), (1, 1), (0, 2), wait_ms=10_000))
    cell.run(200)
    (answer,) = fetched(client)
    assert [told.partition for told in answer.topics[0].partitions] == [2, 0, 1, 0]
    assert answer.chunks == b"".join(batch_of(b"of-%d" % number) for number in (2, 0, 1))
    assert flags(answer) == [0, 0, 0, 0]


@pytest.mark.parametrize("asked", [[0], [0, 1], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("broker", [1, 3])
def test_a_wait_ends_with_what_is_appended_meanwhile_wherever_that_is(
    cell: BrokerCell, asked: list[int], broker: int
) -> None:
    client, producer = cell.nodes[broker].client(), cell.nodes[2].client()
    client.send(consume_request(*((number, END) for number in asked), wait_ms=60_000))
    cell.run(500)
    assert not fetched(client)
    lead(cell, producer, 0, b"new")
    cell.run(300)
    (answer,) = fetched(client)
    assert values(answer) == {number: [b"new"] * (number == 0) for number in asked}
    assert cell.nodes[broker].metrics.waiting == client.session.in_flight == client.session.asked_bytes == 0


@pytest.mark.parametrize("asked", [[0], [0, 1]])
def test_a_wait_that_nothing_ends_is_answered_empty_in_its_time(cell: BrokerCell, asked: list[int]) -> None:
    client = cell.nodes[3].client()
    lead(cell, client, 0, b"x")
    client.send(consume_request(*((number, END) for number in asked), wait_ms=40_000))
    cell.run(39_900)
    assert not fetched(client)
    cell.run(500)
    (answer,) = fetched(client)
    assert [told.high_water_mark for told in answer.topics[0].partitions] == [1, 0][: len(asked)]
    assert {(told.flag, told.base_sequence_number) for told in answer.topics[0].partitions} == {(0, 0)}
    assert cell.nodes[3].metrics.waiting == cell.nodes[1].metrics.waiting == 0


def test_an_old_consumer_waits_through_a_change_of_leaders_and_never_hears_of_it(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    lead(cell, client, 0, b"old")
    client.send(consume_request((0, 2), wait_ms=60_000))
    cell.run(200)
    cell.change(0, leader=0)
    cell.run(500)
    cell.change(0, leader=2, leader_epoch=4)
    cell.run(500)
    assert not fetched(client)
    lead(cell, cell.nodes[1].client(), 0, b"new")
    cell.run(300)
    (answer,) = fetched(client)
    assert values(answer) == {0: [b"new"]}


def test_an_old_consumer_waits_through_the_death_of_a_leader(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    lead(cell, client, 0, b"old")
    client.send(consume_request((0, 2), wait_ms=60_000))
    cell.run(200)
    cell.disconnect(1, 2)
    cell.disconnect(1, 3)
    cell.run(500)
    assert not fetched(client)
    cell.change(0, leader=2, in_sync=(2, 3), brokers=(2, 3))
    lead(cell, cell.nodes[3].client(), 0, b"new")
    cell.run(300)
    (answer,) = fetched(client)
    assert values(answer) == {0: [b"new"]}


def test_the_end_is_that_of_the_request_whoever_leads_later(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    lead(cell, cell.nodes[1].client(), 0, b"before")
    client.send(consume_request((0, END), wait_ms=60_000))
    cell.run(400)
    assert cell.nodes[1].metrics.waiting == 1, "the leader has it"
    cell.judge = lambda node: None  # broker 3 hears of nothing
    cell.change(0, leader=2, in_sync=(2,), brokers=(1, 2))
    lead(cell, cell.nodes[2].client(), 0, b"while it asks the wrong one")
    assert not fetched(client)
    cell.publish(cell.topics["a"])
    cell.run(600)
    (answer,) = fetched(client)
    assert values(answer) == {0: [b"while it asks the wrong one"]}


def test_an_old_consumer_of_what_nobody_leads_gets_nothing_at_its_end(cell: BrokerCell) -> None:
    cell.disconnect(1, 3)
    client = cell.nodes[3].client()
    for wait_ms in (0, 1_000):
        client.send(consume_request((0, 1), wait_ms=wait_ms))
        cell.run(wait_ms + 300)
        (answer,) = fetched(client)
        (told,) = answer.topics[0].partitions
        assert (told.flag, told.high_water_mark, told.chunk_length) == (0, 0, 0)


def test_answers_that_stand_in_a_line_for_seconds_are_waited_for(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    for number in (0, 1):
        lead(cell, client, number, b"of-%d" % number)
    answers = answering_lines(cell, 3)
    for near in answers:
        near.receive = lambda: None  # type: ignore[method-assign]
    client.send(consume_request((0, 1), (1, 1), wait_ms=0))
    cell.run(7_500)
    assert not fetched(client)
    for near in answers:
        del near.receive
    cell.run(100)
    (answer,) = fetched(client)
    assert values(answer) == {0: [b"of-0"], 1: [b"of-1"]}


def test_a_leader_that_says_nothing_is_waited_for_no_longer(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    lead(cell, client, 0, b"x")
    for near in answering_lines(cell, 3):
        near.receive = lambda: None  # type: ignore[method-assign]
    client.send(consume_request((0, 1), wait_ms=0))
    cell.run(9_000)
    (answer,) = fetched(client)
    assert values(answer) == {0: []}


def test_a_boundary_error_and_unknown_partitions_are_relayed(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    lead(cell, client, 0, b"x")
    client.send(consume_request((0, 99), (7, 1), wait_ms=60_000))
    cell.run(200)
    (answer,) = fetched(client)
    assert flags(answer) == [ConsumeFlag.OUT_OF_BOUNDS, ConsumeFlag.UNKNOWN_PARTITION]
    told = answer.topics[0].partitions[0]
    assert (told.high_water_mark, told.first_available) == (1, 1)


def test_sparse_bundles_are_relayed_as_such(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    content = bundle.encode_sparse([5, 9], [b"five", b"nine"], timestamps=1)
    entries = [ProduceBasePartition(0, len(content), 5, content)]
    client.send(ProduceWithBaseSeqNumRequest(OLD, 5, "", 0, 0, [ProduceBaseTopic("a", entries)]))
    cell.run(400)
    assert results(client) == [(5, b"\0")]
    client.send(consume_request((0, 5)))
    cell.run(200)
    (answer,) = fetched(client)
    (told,) = answer.topics[0].partitions
    assert (told.flag, told.high_water_mark) == (ConsumeFlag.SPARSE, 9)
    assert answer.chunks == bundle.as_batch(content)


def test_one_forwarded_answer_is_bounded_and_no_partition_waits_for_another(tmp_path: Path) -> None:
    limits = Limits(forwarded_fetch_bytes=4_000, forwarded_share_bytes=1_000, forwarded_answer_bytes=8_000)
    cell = BrokerCell(tmp_path, 2, limits, ForwardingPolicy.AUTO)
    cell.create(partitions=2, flush="replicated")
    cell.run(300)
    client = cell.nodes[2].client()
    for number in (0, 1):
        lead(cell, client, number, *[b"x" * 900] * 20)
    client.send(consume_request((0, 1), (1, 1)))
    cell.run(200)
    (answer,) = fetched(client)
    assert [len(found) for found in values(answer).values()] == [2, 2]
    client.send(consume_request((0, 1)))
    cell.run(200)
    (answer,) = fetched(client)
    assert [len(found) for found in values(answer).values()] == [4]
    cell.close()


def test_an_idle_consumer_of_several_leaders_is_little_work_and_still_hears_of_what_comes(
    cell: BrokerCell,
) -> None:
    client = cell.nodes[3].client()
    client.send(consume_request((0, END), (1, END), wait_ms=60_000))
    cell.run(20_000)
    rounds = cell.nodes[3].metrics.forwarded[2, "ok"] / 2
    assert 18 <= rounds <= 30
    lead(cell, cell.nodes[1].client(), 0, b"new")
    cell.run(1_000)
    (answer,) = fetched(client)
    assert values(answer) == {0: [b"new"], 1: []}


def test_what_others_bring_and_what_is_here_have_one_bound_together(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    for number in (0, 2):
        lead(cell, client, number, b"x" * 900)
    for answer_bytes, here in ((2_000, 1), (500, 0)):
        client.session.answer_bytes = answer_bytes
        client.send(consume_request((2, 1), (0, 1)))
        cell.run(200)
        (answer,) = fetched(client)
        assert [len(found) for found in values(answer).values()] == [here, 1]


def test_who_may_not_wait_is_not_shown_the_mark_of_a_leader_that_is_new(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 3, Limits(wait_entries=1), ForwardingPolicy.ALWAYS)
    cell.create(partitions=2, flush="replicated")
    cell.run(300)
    cell.nodes[1].client().send(produce_request((1, b"x")))
    while not cell.nodes[3].log(number=1).last:
        cell.step()
    cell.disconnect(1, 3)
    cell.disconnect(2, 3)
    cell.change(1, leader=3)
    assert not cell.nodes[3].partition(number=1).end_known
    client = cell.nodes[3].client()
    client.send(consume_request((0, 1), (1, 1), version=NEW, wait_ms=60_000))
    (answer,) = fetched(client)
    assert flags(answer) == [ConsumeFlag.NO_LEADER, ConsumeFlag.NO_LEADER]
    cell.close()


def test_who_goes_while_it_waits_leaves_nothing_behind_for_long(cell: BrokerCell) -> None:
    client = cell.nodes[3].client()
    client.send(consume_request((0, END), wait_ms=3_600_000))
    cell.run(400)
    assert cell.nodes[1].metrics.waiting == 1
    client.session.close()
    cell.run(31_000)
    assert [cell.nodes[n].metrics.waiting for n in (1, 3)] == [0, 0]


def test_an_orderly_stop_ends_waits_for_what_is_elsewhere(cell: BrokerCell) -> None:
    node = cell.nodes[3]
    clients = [node.client(), node.client()]
    clients[0].send(consume_request((0, END), wait_ms=3_600_000))
    clients[1].send(consume_request((0, END), (1, END), wait_ms=3_600_000))
    cell.run(200)
    asked = line_to(node, 1).pending
    node.broker.deadlines.end_waits()
    for client in clients:
        (answer,) = fetched(client)
        assert set(flags(answer)) == {0}
    assert line_to(node, 1).pending == asked, "and nobody is asked again"
