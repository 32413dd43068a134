"""When a leader knows by its followers that no other broker can have taken its place, and what a coordinator
says that does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import MemberName
from tests.support.groups.coordinating import GROUP, Coordinating, coordinating
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append

SILENCE_MS = 2_000
PLACE = ("orders", 0)


def ready(at: Coordinating) -> Coordinating:
    """The internal topic is there, and its groups are read."""
    at.found()
    at.load()
    return at


def led(cell: BrokerCell, min_insync: int) -> None:
    """Broker 1 leads a partition, which the others follow, and have what is in it."""
    cell.create(min_insync=min_insync)
    cell.run(500)
    append(cell.nodes[1], b"value", Told(), 1)
    cell.run(500)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, brokers=3)
    yield cell
    cell.close()


def is_followed(cell: BrokerCell) -> bool:
    cell.nodes[1].broker.begin_tick()
    leadership = cell.nodes[1].partition().leadership
    assert leadership is not None
    return leadership.is_followed(SILENCE_MS)


def test_one_of_two_followers_is_enough_where_two_replicas_must_have_everything(cell: BrokerCell) -> None:
    led(cell, 2)
    assert is_followed(cell)
    cell.disconnect(1, 2)
    assert is_followed(cell)
    cell.disconnect(1, 3)
    assert not is_followed(cell)


def test_all_followers_must_be_heard_where_one_replica_is_enough(cell: BrokerCell) -> None:
    led(cell, 1)
    assert is_followed(cell)
    cell.disconnect(1, 3)
    assert not is_followed(cell)


def test_followers_whose_connections_stay_open_are_heard_no_more_after_a_while(cell: BrokerCell) -> None:
    led(cell, 2)
    cell.pipes.clear()  # nothing travels
    cell.run(1_500)
    assert is_followed(cell)
    cell.run(2_000)
    assert not is_followed(cell)


def test_a_coordinator_that_is_cut_off_from_everybody_says_that_it_is_none(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        member = ready(at).stable_member()
        at.lead(1, 2)
        at.load()
        controller = at.node.controller
        controller.silence_ms = 2_000
        assert at.groups.heartbeat(MemberName(GROUP, member), 1) is GroupError.NONE
        controller.silence_ms = 2_001
        assert at.groups.heartbeat(MemberName(GROUP, member), 1) is GroupError.NOT_COORDINATOR
        assert at.groups.committed(GROUP, None) == (GroupError.NOT_COORDINATOR, {})
        controller.silence_ms = 0
        assert at.groups.heartbeat(MemberName(GROUP, member), 1) is GroupError.NONE, "it was a moment"


def test_a_broker_without_others_needs_no_controllers_to_coordinate(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7)
        at.node.controller.silence_ms = 60_000
        assert at.offsets() == {PLACE: 7}
