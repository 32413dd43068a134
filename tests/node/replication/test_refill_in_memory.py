"""A replica that is filled anew where nothing else waits for the disk (flush=replicated): the refill does.

Who has matched the mark may be made a member, and has to be able to lead."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.replication.test_leading import append, members
from tests.support.broker_cell import BrokerCell, Told

LATE_STEPS = 3
"""More than it takes to commit a message and to tell of it."""


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
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


def test_the_disk_is_asked_for_at_once(cell: BrokerCell) -> None:
    cell.run(3000)
    assert members(cell) == (1, 2, 3)
    assert not cell.nodes[3].log().is_impaired


def test_it_ends_though_the_mark_is_always_ahead_of_the_disk(
    cell: BrokerCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cell.nodes[3]
    late: list[list[object]] = []

    def sync() -> None:
        """What the disk has done is heard of some steps later."""
        for _ in range(20_000):
            if node.log().flushing is None or node.posted or any(late):
                break
            time.sleep(0.001)
        late.append([node.posted.pop(0) for _ in range(len(node.posted))])
        for call in late.pop(0) if len(late) > LATE_STEPS else ():
            assert callable(call)
            call()

    monkeypatch.setattr(node, "sync", sync)
    impaired = True
    for token in range(60):
        append(cell.nodes[1], b"x", Told(), token)
        cell.run(50)
        impaired = impaired and node.log().is_impaired
    node.posted[:0] = [call for calls in late for call in calls]
    assert not impaired
