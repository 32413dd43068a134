"""A log that was mended while nobody else had it, and gets replicas afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.log.recovery.mend import mend
from tank_protos.error_codes import ErrorCode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append, errors, members
from tests.support.nodes.replicas import assert_copies
from tests.support.nodes.shown_figures import shown


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    yield cell
    cell.close()


def mended_alone(cell: BrokerCell) -> None:
    """Broker 1 has the partition alone, numbers up to 3, and has lost the last message."""
    cell.create(min_insync=2, log_segment_bytes="400")
    cell.run(200)
    node = cell.nodes[1]
    told = Told()
    for token in range(3):
        append(node, b"%d" % token * 500, told, token)
    cell.run(200)
    assert errors(told) == [ErrorCode.NONE] * 3
    cell.change(replicas=(1,), in_sync=(1,))
    assert shown(cell, 1)["led_partitions_below_min_insync"] == 1, "alone it acknowledges nothing"
    log = node.log()
    path = Path(log.segments[-1].path(".log"))
    path.write_bytes(b"\x55" * path.stat().st_size)
    assert log.scrub(1 << 20).bad
    assert mend(log, node.clock.now_ms()).lost == [(3, 3)]
    node.partition().note_state()
    assert (log.written, log.held) == (3, 2)


def test_its_followers_join_with_the_first_write_though_too_few_are_in_sync_before(cell: BrokerCell) -> None:
    mended_alone(cell)
    cell.change(replicas=(1, 2, 3))
    cell.run(1000)
    assert members(cell) == (1,), "nothing that is pushed carries them over the hole"
    assert shown(cell, 1)["led_partitions_below_min_insync"] == 1, "one message is taken, none acknowledged"
    told = Told()
    append(cell.nodes[1], b"after", told, 0)
    append(cell.nodes[1], b"one too many", told, 1)
    assert told.told == {1: (ErrorCode.NOT_ENOUGH_REPLICAS, 0, 0)}, "the hole has ended"
    cell.run(1000)
    assert members(cell) == (1, 2, 3)
    assert shown(cell, 1)["led_partitions_below_min_insync"] == 0
    assert told.told[0] == (ErrorCode.NONE, 4, 4)
    for other in (2, 3):
        assert_copies(cell.nodes[1].log(), cell.nodes[other].log())


def test_what_it_took_is_not_acknowledged_while_nobody_else_has_it(cell: BrokerCell) -> None:
    mended_alone(cell)
    cell.disconnect(1, 2)
    cell.disconnect(1, 3)
    cell.change(replicas=(1, 2, 3))
    told = Told()
    append(cell.nodes[1], b"after", told, 0, timeout_ms=500)
    cell.run(400)
    assert not told.told
    cell.run(400)
    cell.nodes[1].broker.begin_tick()
    cell.nodes[1].broker.give_up_late()
    assert errors(told) == [ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]
