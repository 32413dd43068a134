"""A lossy election has chosen a damaged replica: it makes do with what is left, and the others follow it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.replication.role import Role
from tank_protos.error_codes import ErrorCode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append, errors, members
from tests.support.nodes.replicas import assert_copies


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    yield cell
    cell.close()


@pytest.mark.parametrize("is_refilling", [False, True])
def test_a_damaged_replica_leads_only_when_a_lossy_election_chose_it(
    cell: BrokerCell, is_refilling: bool
) -> None:
    cell.create()
    cell.run(200)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    node = cell.nodes[2]
    if is_refilling:  # half of what it had may be here, and looks whole
        node.log().health.refilling = True
    else:
        node.log().spoiled("a bad sector")
    assert node.controller.ends is not None
    (told,) = node.controller.ends([(10, 0), (10, 1), (99, 0)])
    assert (told.topic_id, told.partition, told.epoch_at_end, told.end, told.damaged) == (10, 0, 1, 1, True)
    cell.change(leader=2)
    assert node.partition().role is Role.NONE
    cell.run(300)
    assert node.controller.failed == [(10, 0)]
    cell.change(leader=2, leader_epoch=3, lossy_epoch=3, in_sync=(2,))
    assert node.partition().role is Role.LEADER


def test_who_was_chosen_in_the_middle_of_a_refill_is_called_damaged_no_more_by_the_next_checkpoint(
    cell: BrokerCell,
) -> None:
    cell.create()
    cell.run(200)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(300)
    node = cell.nodes[2]
    log = node.log()
    log.health.refilling = log.segments.changed = True
    node.broker.data_folder.write_checkpoint()
    assert not log.segments.changed
    cell.change(leader=2, lossy_epoch=2, in_sync=(2,))
    assert node.partition().role is Role.LEADER
    assert (log.is_impaired, log.segments.changed) == (False, True)


def lose(cell: BrokerCell, broker_id: int, *segments: int) -> None:
    """These segments of it go bad, and it finds that out."""
    node = cell.nodes[broker_id]
    for at in segments:
        path = Path(node.log().segments[at].path(".log"))
        path.write_bytes(b"\x55" * path.stat().st_size)
    assert node.log().scrub(1 << 20).bad
    node.partition().note_state()
    node.broker.roles.failed(node.partition())


def test_who_was_chosen_damaged_leads_in_the_epoch_that_its_mending_began(cell: BrokerCell) -> None:
    cell.create(log_segment_bytes="400")
    cell.run(200)
    for token in range(3):
        append(cell.nodes[1], b"%d" % token * 500, Told(), token)
    cell.run(300)
    node = cell.nodes[2]
    lose(cell, 2, 1)
    cell.run(300)
    assert node.controller.failed == [(10, 0)]
    cell.change(leader=2, lossy_epoch=2, in_sync=(2,))
    assert (node.partition().role, node.partition().leader_epoch) == (Role.LEADER, 2)
    assert node.log().epochs[-1] == (2, 2)
    cell.run(3000)
    assert node.controller.failed == [(10, 0)], "it can do what it was chosen for"
    assert members(cell) == (1, 2, 3)


@pytest.mark.parametrize("lost", [(2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("others", ["have it", "are empty"])
def test_who_was_chosen_without_its_end_is_joined_though_nobody_can_write_before(
    cell: BrokerCell, lost: tuple[int, ...], others: str
) -> None:
    cell.create(min_insync=2, log_segment_bytes="400")
    cell.run(200)
    for token in range(3):
        append(cell.nodes[1], b"%d" % token * 500, Told(), token)
    cell.run(300)
    if others == "are empty":
        lose(cell, 1, 0, 1, 2)
        lose(cell, 3, 0, 1, 2)
    lose(cell, 2, *lost)
    cell.change(leader=2, lossy_epoch=2, in_sync=(2,))
    node = cell.nodes[2]
    left = 3 - len(lost)
    assert (node.log().last, node.partition().high_water_mark) == (left, left)
    cell.run(3000)
    assert members(cell) == (1, 2, 3)
    told = Told()
    append(node, b"after", told, 0)
    cell.run(300)
    assert errors(told) == [ErrorCode.NONE]
    for other in (1, 3):
        assert_copies(node.log(), cell.nodes[other].log())


def test_what_is_lost_after_a_lossy_election_is_left_to_those_who_have_it(cell: BrokerCell) -> None:
    cell.create(log_segment_bytes="400")
    cell.run(200)
    cell.change(leader=2, lossy_epoch=2, in_sync=(2,))
    told = Told()
    for token in range(3):
        append(cell.nodes[2], b"%d" % token * 500, told, token)
    cell.run(3000)
    assert members(cell) == (1, 2, 3)
    assert errors(told) == [ErrorCode.NONE] * 3
    lose(cell, 2, 1)
    cell.judge = lambda node: None
    cell.change()  # the view tells something else, before the controller has heard of the damage
    assert cell.nodes[2].partition().role is Role.NONE
    assert cell.nodes[2].log().is_impaired, "nothing of it is given up"
