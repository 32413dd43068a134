"""Appends that are complete when the leader alone has them: Kafka's acks=1."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.disk import OsDisk
from tank_node.partition.waiters import Acked, ProducerStamp
from tank_protos.error_codes import ErrorCode
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell, CellNode, Told
from tests.support.nodes.leading import append, errors

STORED = [ErrorCode.NONE]


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, brokers=2)
    yield cell
    cell.close()


def write(
    node: CellNode, told: Told, token: int, producer: ProducerStamp | None = None, timeout_ms: int = 0
) -> None:
    """Appends a message, to be written by this leader alone, and ends the tick."""
    node.broker.begin_tick()
    batch = memoryview(batch_of(b"x"))
    node.partition().append(batch, told, token, producer=producer, timeout_ms=timeout_ms, acked=Acked.WRITTEN)
    node.broker.end_tick()


def test_a_written_append_waits_for_no_follower(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run()
    cell.disconnect(1, 2)
    leader, told = cell.nodes[1], Told()
    append(leader, b"x", told, 0)
    write(leader, told, 1)
    assert told.told == {1: (ErrorCode.NONE, 2, 2)}
    assert leader.partition().high_water_mark == 0


def test_a_written_append_waits_for_the_leaders_own_fsync(cell: BrokerCell) -> None:
    cell.create(flush="disk")
    cell.run()
    cell.disconnect(1, 2)
    leader, told = cell.nodes[1], Told()
    write(leader, told, 0)
    assert not told.told
    leader.sync()
    assert told.told == {0: (ErrorCode.NONE, 1, 1)}
    assert leader.partition().acks.batches_waiting() == 0


def test_a_written_append_is_counted_once_by_its_time(cell: BrokerCell) -> None:
    cell.create(flush="disk")
    cell.run()
    leader, told = cell.nodes[1], Told()
    write(leader, told, 0)
    cell.clock.pass_ms(5)
    leader.sync()
    assert sum(leader.metrics.produce_latency.counts) == 1


def test_a_repeat_of_a_written_append_has_its_numbers_before_it_is_committed(cell: BrokerCell) -> None:
    cell.create(flush="disk")
    cell.run()
    cell.disconnect(1, 2)
    leader, told, producer = cell.nodes[1], Told(), ProducerStamp(9, 0, 0)
    write(leader, told, 0, producer)
    write(leader, told, 1, producer)
    assert not told.told
    leader.sync()
    assert told.told == {0: (ErrorCode.NONE, 1, 1), 1: (ErrorCode.NONE, 1, 1)}
    write(leader, told, 2, producer)
    assert told.told[2] == (ErrorCode.NONE, 1, 1)


def test_too_few_replicas_in_sync_refuse_only_appends_that_want_them(cell: BrokerCell) -> None:
    cell.create(flush="replicated", min_insync=2)
    cell.run()
    cell.change(in_sync=(1,))
    leader, told = cell.nodes[1], Told()
    append(leader, b"x", told, 0)
    write(leader, told, 1)
    assert errors(told) == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE]
    assert leader.partition().high_water_mark == 0, "too few replicas have it for it to be committed"


def test_a_written_append_whose_fsync_hangs_is_given_up_at_its_deadline(cell: BrokerCell) -> None:
    cell.create(flush="disk")
    cell.run()
    leader, told = cell.nodes[1], Told()
    write(leader, told, 0, timeout_ms=100)
    cell.clock.pass_ms(101)
    leader.broker.begin_tick()
    leader.broker.give_up_late()
    assert errors(told) == [ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]


def test_who_no_longer_leads_answers_what_was_written_and_not_synced(cell: BrokerCell) -> None:
    cell.create(flush="disk")
    cell.run()
    leader, told = cell.nodes[1], Told()
    write(leader, told, 0)
    cell.change(leader=2)
    assert errors(told) == [ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]


def test_an_append_that_the_disk_refuses_is_answered_and_earlier_ones_wait_on(
    cell: BrokerCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell.create(flush="disk")
    cell.run()
    leader, told = cell.nodes[1], Told()
    write(leader, told, 0)

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(OsDisk, "write_at", refuse)
        write(leader, told, 1)
    assert told.told == {1: (ErrorCode.STORAGE, 0, 0)}
    leader.sync()
    assert told.told[0] == (ErrorCode.NONE, 1, 1)


def test_without_followers_a_written_append_is_a_committed_one(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, brokers=1)
    cell.create(flush="disk")
    leader, told = cell.nodes[1], Told()
    write(leader, told, 0)
    assert not told.told
    leader.sync()
    assert told.told == {0: (ErrorCode.NONE, 1, 1)}
    assert leader.partition().high_water_mark == 1
    cell.close()
