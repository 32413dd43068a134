"""A replica that is filled anew under flush=replicated, where nothing waits for the disk: the refill doesn't
either.

Who has matched the mark may be made a member, and has to be able to lead."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tank_node.limits import Limits
from tank_node.replication.role import Role
from tank_node.replication.stream import STRETCH_BYTES
from tests.support.nodes.broker_cell import BrokerCell, CellNode, Told
from tests.support.nodes.leading import append, members


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3, Limits(push_window_bytes=1))  # one push at a time
    cell.create(flush="replicated")
    cell.run(200)
    append(cell.nodes[1], b"before", Told(), 0)
    cell.run(300)
    node = cell.nodes[3]
    node.log().spoiled("a bad sector")
    node.partition().note_state()
    node.broker.roles.failed(node.partition())
    cell.change(in_sync=(1, 2))
    yield cell
    cell.close()


@pytest.fixture
def slow(cell: BrokerCell, monkeypatch: pytest.MonkeyPatch) -> Iterator[CellNode]:
    """The node that is filled anew: its disk answers nothing."""
    node = cell.nodes[3]
    with monkeypatch.context() as held:
        held.setattr(node, "sync", lambda: None)
        yield node


def test_it_joins_whole_and_leads_while_the_disk_is_slow(cell: BrokerCell, slow: CellNode) -> None:
    cell.run(3000)
    assert members(cell) == (1, 2, 3)
    assert slow.log().synced == 0
    assert not slow.log().is_impaired
    cell.disconnect(1, 3)
    cell.disconnect(1, 2)
    cell.change(leader=3, in_sync=(2, 3))
    cell.run(300)
    assert slow.partition().role is Role.LEADER
    assert not slow.controller.failed
    told = Told()
    append(slow, b"after", told, 1)
    cell.run(300)
    assert told.told


def test_it_is_impaired_until_it_has_everything(cell: BrokerCell, slow: CellNode) -> None:
    for token in range(3):
        noise = Random(token).randbytes(STRETCH_BYTES)  # compressed, too, no two fit into a stretch
        append(cell.nodes[1], noise, Told(), token + 1)
    cell.run(300)
    mark = cell.nodes[1].partition().high_water_mark
    assert mark == 4
    seen = set()
    for _ in range(60):
        cell.run(50)
        log = slow.log()
        seen.add(log.written)
        assert log.is_impaired == (log.written < mark)
    assert seen == {1, 2, 3, mark}
