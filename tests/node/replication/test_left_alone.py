"""A leader that comes to be the only replica."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.partition.numbering import END
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    yield cell
    cell.close()


def test_it_waits_for_no_end_of_an_earlier_term_that_it_has_been_cut_below(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    append(cell.nodes[1], b"1", Told(), 0)
    cell.run(300)
    cell.disconnect(1, 3)
    append(cell.nodes[1], b"2", Told(), 1)
    append(cell.nodes[1], b"3", Told(), 2)
    cell.step()
    cell.disconnect(1, 2)
    cell.disconnect(2, 3)
    cell.judge = lambda node: None
    cell.change(leader=2, in_sync=(2, 3))
    left = cell.nodes[2].partition()
    assert (left.high_water_mark, left.end_known_at, left.end_known) == (1, 3, False)
    cell.change(leader=3)
    append(cell.nodes[3], b"another", Told(), 3)
    cell.connect(2, 3)
    cell.run(2500)
    assert (left.log.written, left.high_water_mark) == (2, 2)
    cell.change(leader=2, replicas=(2,), in_sync=(2,))
    assert left.end_known
    assert left.next_number(END) == left.high_water_mark + 1
