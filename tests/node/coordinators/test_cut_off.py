"""When a leader knows by its followers that no other broker can have taken its place."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append

SILENCE_MS = 2_000


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
