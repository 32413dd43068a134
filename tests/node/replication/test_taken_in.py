"""A replica that has lost everything while it may be taken into the in-sync set for what it had.

A new leader's mark may be below what was acknowledged before it. A copy up to there would pass for whole, and
be elected.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import ChangeOutcome
from tank_node.log.log import LogState
from tank_protos.error_codes import ErrorCode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.healing import spoil, take_out_failed
from tests.support.nodes.leading import append, members
from tests.support.nodes.replicas import assert_copies


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    cell.create(min_insync=2, log_segment_bytes="400")
    cell.run(200)
    for token in range(20):
        append(cell.nodes[1], b"message %d" % token * 5, Told(), token)
    cell.run(300)
    yield cell
    cell.close()


@pytest.fixture
def proposed(cell: BrokerCell) -> BrokerCell:
    """Broker 3 has caught up, and its leader has asked to take it in; then it finds its log bad."""
    cell.judge = lambda node: None
    cell.change(in_sync=(1, 2))
    cell.run(600)
    [(change, _)] = cell.nodes[1].controller.proposed
    assert 3 in dict(change.in_sync)
    spoil(cell, 3)
    cell.run(2500)
    assert cell.nodes[3].log().state is LogState.DAMAGED, "it stays as it is until the answer is known"
    return cell


def test_one_that_is_taken_in_says_that_it_is_damaged_and_is_filled_anew_when_it_is_out(
    proposed: BrokerCell,
) -> None:
    cell, reports = proposed, list[tuple[int, int]]()
    cell.nodes[1].controller.proposed.clear()
    cell.judge = take_out_failed(cell, reports)
    cell.change(in_sync=(1, 2, 3))
    cell.run(6000)
    assert reports == [(10, 0)]
    assert members(cell) == (1, 2, 3)
    assert_copies(cell.nodes[1].log(), cell.nodes[3].log())


def test_one_that_is_not_taken_in_is_filled_anew(proposed: BrokerCell) -> None:
    cell = proposed
    for _, done in cell.nodes[1].controller.proposed:
        done(ChangeOutcome(ErrorCode.NONE, "", [ErrorCode.STALE_EPOCH]))
    cell.nodes[1].controller.proposed.clear()
    cell.judge = cell.accept
    cell.run(6000)
    assert not cell.nodes[3].controller.failed
    assert members(cell) == (1, 2, 3)
    assert_copies(cell.nodes[1].log(), cell.nodes[3].log())


def test_one_whose_view_is_behind_does_not_go_by_it(cell: BrokerCell) -> None:
    cell.judge = lambda node: None
    cell.change(in_sync=(1, 2))
    cell.disconnect(1, 3)
    spoil(cell, 3)
    cell.change(in_sync=(1, 2, 3), brokers=(1, 2))
    cell.change(leader=2, in_sync=(2, 3), brokers=(1, 2))
    cell.run(2500)
    node = cell.nodes[3]
    assert node.log().state is LogState.DAMAGED
    assert not node.controller.failed, "it does not know that anybody counts on it"
    cell.publish(cell.topics["a"])
    cell.run(2500)
    assert node.controller.failed
