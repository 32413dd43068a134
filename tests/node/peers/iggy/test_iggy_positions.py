"""Stored offsets of Iggy's consumers: their partitions' leaders set them, their coordinator keeps them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.view import NO_LEADER, ChangeKind
from tank_node.coordinators.iggy.consumer_ids import named_consumer
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.limits import Limits
from tank_node.peers.group_router import router_of
from tank_node.peers.iggy.iggy_offsets import LONGEST_MS, offsets_of
from tank_node.peers.iggy.iggy_positions import positions_of
from tank_node.peers.iggy.iggy_service import DELETE, STORE
from tank_node.peers.iggy.position_cache import IggyPlace
from tank_node.session import Session
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.tank import IggyPositionsRequest
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC
from tests.node.peers.group_cell import TOPIC, fetched, numbers
from tests.node.peers.iggy.iggy_cell import (
    GROUP,
    MESSAGES,
    advance,
    begin_store,
    iggy_cell_of,
    place,
    store,
    stored,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell, Told


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = iggy_cell_of(tmp_path)
    yield cell
    cell.close()


def test_all_brokers_take_and_show_offsets(cell: BrokerCell) -> None:
    for number in range(4):
        at = place(cell, number)
        assert stored(cell, 3, at) is None
        for offset, broker_id in enumerate((1, 2, 3)):
            store(cell, broker_id, at, offset)
            assert [stored(cell, each, at) for each in (1, 2, 3)] == [offset] * 3


def test_tools_see_them_as_positions(cell: BrokerCell) -> None:
    """The position is the number of the next message, where numbers begin at 1."""
    store(cell, 2, place(cell, 1), 4)
    assert numbers(fetched(cell, cell.nodes[3].client(), GROUP)) == {(TOPIC, 1): 6}


def test_an_offset_may_go_back_by_a_store(cell: BrokerCell) -> None:
    for offset in (7, 2):
        store(cell, 1, place(cell, 2), offset)
    assert stored(cell, 2, place(cell, 2)) == 2


def test_none_is_stored_above_the_end(cell: BrokerCell) -> None:
    store(cell, 3, place(cell, 1), MESSAGES - 1)
    for offset in (MESSAGES, 2**64 - 1):
        told = begin_store(cell, 3, place(cell, 1), offset)
        cell.run(300)
        assert told == [ErrorCode.OFFSET_ABOVE_END]
    assert stored(cell, 3, place(cell, 1)) == MESSAGES - 1


def test_consumers_and_groups_have_their_own(cell: BrokerCell) -> None:
    ones = [place(cell, 1), place(cell, 1, named_consumer("a")), place(cell, 1, named_consumer("b"))]
    for offset, at in enumerate(ones):
        store(cell, 1, at, offset)
    assert [stored(cell, 3, at) for at in ones] == [0, 1, 2]


def test_the_next_leader_finds_what_the_last_one_stored(cell: BrokerCell) -> None:
    at = place(cell, 1)
    store(cell, 1, at, 6)
    cell.change(1, TOPIC, leader=3)
    cell.run(500)
    assert stored(cell, 1, at) == 6


def test_the_next_coordinator_has_them(cell: BrokerCell) -> None:
    at = place(cell, 1)
    store(cell, 1, at, 6)
    store(cell, 1, at, 8, is_auto=True)
    cell.change(0, GROUPS_TOPIC, leader=2)
    cell.change(1, TOPIC, leader=3)
    cell.run(500)
    assert stored(cell, 1, at) == 8


def test_what_is_stored_with_polls_is_written_once(cell: BrokerCell) -> None:
    router = router_of(cell.nodes[2].broker)
    sent: list[IggyPositionsRequest] = []
    ask = router.ask_broker

    def noted(broker_id, request, sender, done):  # type: ignore[no-untyped-def]
        if isinstance(request, IggyPositionsRequest):
            sent.append(request)
        ask(broker_id, request, sender, done)

    router.ask_broker = noted  # type: ignore[method-assign]
    others = [place(cell, 1, named_consumer(name)) for name in ("a", "b")]
    for offset in range(5):
        for at in others:
            told = begin_store(cell, 2, at, offset, is_auto=True)
            assert told == [ErrorCode.NONE]
    cell.run(500)
    (request,) = sent
    assert sorted(each.committed for each in request.changes) == [5, 5]
    assert [stored(cell, 2, at) for at in others] == [4, 4]
    assert len(sent) == 1, "the leader answers from memory"


def test_what_was_stored_with_a_poll_counts_at_once(cell: BrokerCell) -> None:
    at = place(cell, 1)
    assert begin_store(cell, 2, at, 3, is_auto=True) == [ErrorCode.NONE]
    assert stored(cell, 2, at) == 3


@pytest.mark.parametrize("broker_id", [2, 1], ids=["the leader's", "another broker's"])
def test_what_was_polled_behind_an_offset_that_is_not_stored_any_more_changes_nothing(
    cell: BrokerCell, broker_id: int
) -> None:
    at = place(cell, 1)
    advance(cell, broker_id, at, None, 3)
    assert stored(cell, 2, at) == 3
    advance(cell, broker_id, at, None, 1)
    assert stored(cell, 2, at) == 3, "it doesn't go back"
    store(cell, 2, at, 0)
    advance(cell, broker_id, at, 3, 5)
    assert stored(cell, 2, at) == 0, "nor ahead of where a client has put it"
    advance(cell, broker_id, at, 0, 2)
    assert stored(cell, 2, at) == 2


def test_what_a_dead_leader_had_not_written_is_delivered_again_and_nothing_is_skipped(
    cell: BrokerCell,
) -> None:
    at = place(cell, 1)
    store(cell, 2, at, 3)
    assert begin_store(cell, 2, at, 7, is_auto=True) == [ErrorCode.NONE]
    cell.stop(2)
    for number in range(4):
        cell.change(number, TOPIC, leader=3, in_sync=(1, 3))
    cell.change(0, GROUPS_TOPIC, in_sync=(1, 3))
    cell.run(500)
    assert stored(cell, 1, at) == 3
    store(cell, 3, at, 8, is_auto=True)
    cell.change(1, TOPIC, leader=1)
    cell.run(500)
    assert stored(cell, 3, at) == 8


def test_a_leader_that_was_deposed_sets_nothing_back(cell: BrokerCell) -> None:
    """Broker 2 doesn't hear that 3 leads, and writes what a poll stored before."""
    at = place(cell, 1)
    store(cell, 2, at, 2)
    assert begin_store(cell, 2, at, 9, is_auto=True) == [ErrorCode.NONE]
    cell.disconnect(2, 3)
    cell.change(1, TOPIC, leader=3, brokers=(1, 3), in_sync=(1, 3))
    cell.run(50, 10)
    assert stored(cell, 3, at) == 2
    store(cell, 3, at, 4)
    cell.run(1_000)
    assert stored(cell, 3, at) == 4
    told = begin_store(cell, 2, at, 1)
    cell.run(LONGEST_MS + 500)
    assert told == [ErrorCode.STALE_EPOCH]
    assert stored(cell, 3, at) == 4


def test_a_coordinator_that_has_not_heard_of_the_new_leader_believes_it(cell: BrokerCell) -> None:
    """Broker 3 reads, and from then on 2 is heard no more, though the coordinator's view has 2 for the
    leader."""
    at = place(cell, 1)
    store(cell, 2, at, 2)
    cell.disconnect(2, 3)
    cell.change(1, TOPIC, leader=3, brokers=(3,))
    cell.run(300)
    assert stored(cell, 3, at) == 2
    told: list[ErrorCode] = []
    former = cell.nodes[2].broker
    former.begin_tick()
    positions_of(former).store(at, 9, told.append)
    former.end_tick()
    cell.run(200)
    assert told == [ErrorCode.STALE_EPOCH]
    assert stored(cell, 3, at) == 2


def test_a_request_waits_for_a_leader_and_a_coordinator(cell: BrokerCell) -> None:
    at = place(cell, 1)
    cell.change(1, TOPIC, leader=NO_LEADER)
    told = begin_store(cell, 1, at, 4)
    cell.run(1_000)
    assert told == []
    cell.change(0, GROUPS_TOPIC, leader=NO_LEADER)
    cell.change(1, TOPIC, leader=3)
    cell.run(1_000)
    assert told == []
    cell.change(0, GROUPS_TOPIC, leader=2)
    cell.run(2_500)
    assert told == [ErrorCode.NONE]
    assert stored(cell, 2, at) == 4


def test_but_not_for_ever(cell: BrokerCell) -> None:
    cell.change(1, TOPIC, leader=NO_LEADER)
    told = begin_store(cell, 1, place(cell, 1), 4)
    cell.run(LONGEST_MS - 500)
    assert told == []
    cell.run(1_000)
    assert told == [ErrorCode.NO_LEADER]


def test_a_store_ends_with_its_connection(cell: BrokerCell) -> None:
    """The client has another connection by then, and went on."""
    at = place(cell, 1)
    cell.change(1, TOPIC, leader=NO_LEADER)
    sender, told = Session(), list[ErrorCode]()
    broker = cell.nodes[1].broker
    broker.begin_tick()
    offsets_of(broker).store(at, 4, sender, told.append)
    broker.end_tick()
    cell.run(200)
    sender.close()
    cell.run(200)
    assert told == [ErrorCode.TIMED_OUT]
    cell.change(1, TOPIC, leader=3)
    store(cell, 1, at, 7)
    cell.run(LONGEST_MS)
    assert stored(cell, 1, at) == 7


def test_what_a_poll_stored_and_could_not_be_written_is_not_written_behind_a_delete(cell: BrokerCell) -> None:
    router = router_of(cell.nodes[2].broker)
    held: list[Callable[[Message | GroupError], None]] = []
    kinds: list[int] = []
    ask = router.ask_broker

    def lost(broker_id, request, sender, done):  # type: ignore[no-untyped-def]
        """The first message gets no answer before the next one was sent."""
        if isinstance(request, IggyPositionsRequest):
            kinds.extend(each.kind for each in request.changes)
            if not held:
                held.append(done)
                return
        ask(broker_id, request, sender, done)

    router.ask_broker = lost  # type: ignore[method-assign]
    at = place(cell, 1, named_consumer("a"))
    assert begin_store(cell, 2, at, 3, is_auto=True) == [ErrorCode.NONE]
    cell.run(200)
    told: list[ErrorCode] = []
    broker = cell.nodes[2].broker
    broker.begin_tick()
    offsets_of(broker).delete(at, Session(), told.append)
    held[0](GroupError.NOT_AVAILABLE)
    broker.end_tick()
    cell.run(500)
    assert told == [ErrorCode.NONE]
    assert kinds == [STORE, DELETE]
    cell.change(1, TOPIC, leader=3)
    cell.run(500)
    assert stored(cell, 3, at) is None


def test_a_deleted_offset_is_gone(cell: BrokerCell) -> None:
    at = place(cell, 1)
    store(cell, 2, at, 5)
    told: list[ErrorCode] = []
    broker = cell.nodes[1].broker
    broker.begin_tick()
    offsets_of(broker).delete(at, Session(), told.append)
    broker.end_tick()
    cell.run(500)
    assert told == [ErrorCode.NONE]
    assert stored(cell, 2, at) is None
    cell.change(1, TOPIC, leader=3)
    cell.run(500)
    assert stored(cell, 2, at) is None


def test_a_purged_topic_has_no_offsets(cell: BrokerCell) -> None:
    """A purge gives the topic another id under its name."""
    consumer = named_consumer("a")
    store(cell, 3, place(cell, 2, consumer), 5)
    old = cell.topics.pop(TOPIC)
    for node in cell.nodes.values():
        node.controller.publish(ChangeKind.DELETED, old)
    cell.topics["gone"] = old
    cell.create(TOPIC, 4, flush="replicated")
    del cell.topics["gone"]
    cell.run(1_000)
    at = place(cell, 2, consumer)
    assert at.topic_id != old.topic_id
    assert stored(cell, 3, at) is None
    told = begin_store(cell, 3, IggyPlace(consumer, old.topic_id, 2), 1)
    assert told == [ErrorCode.UNKNOWN_TOPIC]


def test_a_partition_that_was_removed_and_comes_again_has_no_offset(cell: BrokerCell) -> None:
    consumer = named_consumer("a")
    store(cell, 1, place(cell, 3, consumer), 5)
    store(cell, 1, place(cell, 0, consumer), 4)
    whole = cell.topics[TOPIC]
    cell.publish(replace(whole, partitions=whole.partitions[:3]))
    cell.run(500)
    cell.publish(
        replace(whole, partitions=[*whole.partitions[:3], replace(whole.partitions[3], leader_epoch=9)])
    )
    cell.run(1_000)
    assert stored(cell, 1, place(cell, 3, consumer)) is None
    assert stored(cell, 1, place(cell, 0, consumer)) == 4


def make_anew(cell: BrokerCell, number: int, epoch: int, brokers: tuple[int, ...] = ()) -> None:
    """The topic loses its partitions from a number on and gets them again, and these brokers hear of both in
    one change."""
    whole = cell.topics[TOPIC]
    anew = [
        replace(each, leader_epoch=epoch, partition_epoch=epoch, first_epoch=epoch)
        for each in whole.partitions[number:]
    ]
    cell.publish(
        replace(whole, partitions=[*whole.partitions[:number], *anew], epoch_floor=epoch - 1), brokers
    )


def test_a_partition_made_anew_has_no_offset_where_no_broker_saw_it_away(cell: BrokerCell) -> None:
    consumer = named_consumer("a")
    store(cell, 1, place(cell, 3, consumer), 5)
    store(cell, 1, place(cell, 0, consumer), 4)
    make_anew(cell, 3, 9)
    assert stored(cell, 1, place(cell, 3, consumer)) is None
    assert stored(cell, 1, place(cell, 0, consumer)) == 4
    cell.run(1_000)
    (led,) = router_of(cell.nodes[1].broker).service.groups.led()
    assert set(led.groups[consumer].offsets) == {(TOPIC, 0)}, "it is swept"


def test_a_store_replaces_the_offset_of_an_earlier_partition(cell: BrokerCell) -> None:
    at = place(cell, 1, named_consumer("a"))
    store(cell, 2, at, 5)
    make_anew(cell, 1, 9)
    node = cell.nodes[2]
    node.broker.begin_tick()
    node.partition(TOPIC, 1).append(memoryview(batch_of(b"x")), Told(), 1)
    node.broker.end_tick()
    cell.run(500)
    store(cell, 3, at, 0)
    cell.run(1_000)
    assert [stored(cell, each, at) for each in (1, 2, 3)] == [0] * 3


def test_a_deleted_group_takes_its_offsets_along(cell: BrokerCell) -> None:
    store(cell, 3, place(cell, 2), 5)
    gone = pb.IggyGroupRef(topic_id=cell.topics[TOPIC].topic_id, number=0)
    for node in cell.nodes.values():
        node.controller.view.iggy.apply(pb.Delta(deleted_iggy_groups=[gone]))
    told = begin_store(cell, 3, place(cell, 2), 6)
    cell.run(500)
    assert told == [ErrorCode.UNKNOWN_GROUP]
    groups = router_of(cell.nodes[1].broker).service.groups
    (led,) = groups.led()
    assert GROUP in led.groups
    broker = cell.nodes[1].broker
    broker.begin_tick()
    led.sweep(expires=True)
    broker.end_tick()
    cell.run(1_000)
    assert GROUP not in led.groups


def test_a_leader_remembers_a_bounded_number(tmp_path: Path) -> None:
    cell = iggy_cell_of(tmp_path, replace(Limits(), iggy_positions=2))
    places = [place(cell, 1, named_consumer(str(number))) for number in range(5)]
    for offset, at in enumerate(places):
        store(cell, 2, at, offset, is_auto=True)
    assert [stored(cell, 2, at) for at in places] == [0, 1, 2, 3, 4]
    cell.close()
