"""Replicas that lost something, as real brokers in one process: all are filled anew the same way."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_controller.limits import MAX_PARTITIONS_PER_COMMAND
from tank_node.limits import Limits
from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState
from tank_node.partition.waiters import ProducerStamp
from tank_node.replication.role import Role
from tank_node.replication.stream import STRETCH_BYTES
from tank_protos.error_codes import ErrorCode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.faults import leader_of, spoil_piece_in_memory
from tests.support.nodes.healing import files, spoil, take_out_failed
from tests.support.nodes.leading import append, members
from tests.support.nodes.replicas import assert_copies, records_of


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    cell.create(min_insync=2, log_segment_bytes="400")
    cell.run(200)
    told = Told()
    for token in range(20):
        append(cell.nodes[1], b"message %d" % token * 5, told, token)
    cell.run(300)
    assert len(told.told) == 20
    yield cell
    cell.close()


def reported(cell: BrokerCell, broker_id: int) -> None:
    """The controller takes out who says that it is damaged."""
    assert cell.nodes[broker_id].controller.failed
    cell.change(in_sync=tuple(member for member in members(cell) if member != broker_id))


def test_a_batch_that_went_bad_is_found_reported_and_copied_anew(cell: BrokerCell) -> None:
    log = cell.nodes[3].log()
    spoil(cell, 3)
    cell.run(2000)
    assert log.state is LogState.DAMAGED, "while it is in sync it stays as it is"
    reported(cell, 3)
    cell.run(5000)
    assert_copies(cell.nodes[1].log(), cell.nodes[3].log())
    assert members(cell) == (1, 2, 3)
    assert not cell.nodes[3].log().is_impaired


def test_one_that_was_filled_anew_knows_producers_of_what_retention_took(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 3)
    cell.create(min_insync=2, log_segment_bytes="400", retention_segments_count="2")
    cell.run(200)
    leader, told, producer = cell.nodes[1], Told(), ProducerStamp(7, 0, 0)
    append(leader, b"once", told, 0, producer)
    for token in range(1, 20):
        append(leader, b"message %d" % token * 5, told, token)
    cell.run(300)
    maintain(leader.log(), cell.clock.now_ms(), leader.partition().high_water_mark)
    cell.change(in_sync=(1, 2))
    spoil(cell, 3)
    cell.run(5000)
    assert records_of(cell.nodes[3].log()) == records_of(leader.log())
    assert leader.log().first_available > 1
    cell.change(leader=3)
    cell.run(500)
    append(cell.nodes[3], b"once", told, 20, producer)
    cell.run(500)
    assert told.told[20] == (ErrorCode.NONE, 1, 1)
    cell.close()


def test_one_that_was_filled_anew_is_not_reported_again(cell: BrokerCell) -> None:
    reports: list[tuple[int, int]] = []
    cell.judge = take_out_failed(cell, reports)
    spoil(cell, 3)
    cell.run(6000)
    assert reports == [(10, 0)]
    assert members(cell) == (1, 2, 3)
    spoil(cell, 3)
    cell.run(6000)
    assert reports == [(10, 0)] * 2, "another damage is news"
    assert members(cell) == (1, 2, 3)


def test_one_that_was_taken_in_while_it_found_its_damage_is_reported_then(cell: BrokerCell) -> None:
    cell.judge = lambda node: None
    cell.change(in_sync=(1, 2))
    cell.disconnect(1, 3)
    spoil(cell, 3)
    cell.run(3000)
    assert not cell.nodes[3].controller.failed, "nobody counts on it"
    cell.connect(1, 3)
    cell.change(in_sync=(1, 2, 3))  # its answers were good when its leader proposed this
    reports: list[tuple[int, int]] = []
    cell.judge = take_out_failed(cell, reports)
    cell.run(6000)
    assert reports == [(10, 0)]
    assert members(cell) == (1, 2, 3)
    assert_copies(cell.nodes[1].log(), cell.nodes[3].log())


def test_an_eligible_one_that_fails_is_reported_until_the_view_says_that_it_is_impaired(
    cell: BrokerCell,
) -> None:
    cell.judge = lambda node: None
    cell.change(in_sync=(1,), eligible=(2, 3))
    node = cell.nodes[3]
    node.log().fail("fsync failed: no more")
    node.broker.on_synced(node.log())
    cell.run(3000)
    assert node.controller.failed == [(10, 0)] * 2
    cell.change(impaired=(3,))
    cell.run(5000)
    assert node.controller.failed == [(10, 0)] * 2


def test_a_disk_that_took_many_replicas_with_it_is_reported_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = BrokerCell(tmp_path, 2, Limits(changes_per_proposal=2))
    assert Limits().changes_per_proposal <= MAX_PARTITIONS_PER_COMMAND
    cell.create(partitions=5)
    cell.run(200)
    node = cell.nodes[2]
    reports: list[list[tuple[int, int]]] = []
    monkeypatch.setattr(node.controller, "report_failed", lambda found, done: reports.append([*found]))
    for partition in node.broker.partitions():
        partition.log.fail("fsync failed: no more")
        node.broker.on_synced(partition.log)
    cell.run(600)
    assert reports == [[(10, 0), (10, 1)], [(10, 2), (10, 3)], [(10, 4)]]
    cell.close()


def test_a_leader_whose_bytes_a_follower_finds_bad_looks_for_itself_and_leaves_it_to_another(
    cell: BrokerCell,
) -> None:
    cell.stop(3)
    cell.change(in_sync=(1, 2))
    shutil.rmtree(cell.folder / "broker-3")
    path = files(cell, 1, ".log")[1]
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    cell.start(3)
    cell.run(1000)
    leader = cell.nodes[1]
    assert (leader.log().state, leader.partition().role) == (LogState.DAMAGED, Role.NONE)
    assert leader.controller.failed == [(10, 0)]
    cell.change(leader=2, in_sync=(2,))
    cell.run(5000)
    assert members(cell) == (1, 2, 3)
    for broker_id in (1, 3):
        assert_copies(cell.nodes[2].log(), cell.nodes[broker_id].log())


def test_bytes_that_went_bad_in_the_leaders_memory_are_read_again(cell: BrokerCell) -> None:
    for follower in (2, 3):
        cell.disconnect(1, follower)
    append(cell.nodes[1], b"read before it is sent", Told(), 1)
    leader = leader_of(cell.nodes[1].partition())
    assert leader.read(21, STRETCH_BYTES) is not None
    spoil_piece_in_memory(leader)
    for follower in (2, 3):
        cell.connect(1, follower)
    cell.run(3000)
    assert cell.nodes[2].metrics.refused["bad_record"]
    assert cell.nodes[1].partition().high_water_mark == 21
    assert_copies(cell.nodes[1].log(), cell.nodes[2].log())


@pytest.mark.parametrize("lost", ["index", "the topic", "the disk"])
def test_what_was_lost_while_it_was_away_comes_back_from_the_leader(cell: BrokerCell, lost: str) -> None:
    cell.stop(3)
    cell.change(in_sync=(1, 2))
    if lost == "index":
        # A clean stop believes the files that it left: take away the one that it looks at.
        os.unlink(files(cell, 3, ".index")[-1])
    elif lost == "the topic":
        shutil.rmtree(files(cell, 3, ".log")[0].parent)
    else:
        shutil.rmtree(cell.folder / "broker-3")
    told = Told()
    append(cell.nodes[1], b"meanwhile", told, 1)
    node = cell.start(3)
    node.broker.data_folder.open_found()
    damaged = node.broker.data_folder.claims().damaged
    assert bool(damaged) == (lost != "the disk")
    cell.run(5000)
    assert_copies(cell.nodes[1].log(), cell.nodes[3].log())
    assert members(cell) == (1, 2, 3)


def test_who_ended_before_the_leaders_start_begins_there(cell: BrokerCell) -> None:
    cell.stop(3)
    cell.change(in_sync=(1, 2))
    told = Told()
    for token in range(20):
        append(cell.nodes[1], b"later %d" % token * 5, told, token)
        cell.run(100)
    cell.nodes[1].log().retain_from(30)
    node = cell.start(3)
    assert node.log().last == 20
    cell.run(5000)
    assert cell.nodes[3].log().first_available == 30
    ours = [record for record in records_of(cell.nodes[1].log()) if record.first >= 30]
    assert [record for record in records_of(cell.nodes[3].log()) if record.first >= 30] == ours
    assert members(cell) == (1, 2, 3)


def test_followers_cut_where_their_leader_does(cell: BrokerCell) -> None:
    cell.nodes[1].log().retain_from(12)
    append(cell.nodes[1], b"tells of it", Told(), 1)
    cell.run(500)
    for broker_id in (2, 3):
        assert cell.nodes[broker_id].log().first_available == 12
        assert records_of(cell.nodes[broker_id].log())[0].first > 1
