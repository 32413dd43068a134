"""Whether a volume has room: before the first write fails, after one failed, and when there is some again."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.disk import Space
from tank_node.segment.errors import DiskFull
from tank_node.volume import Room, Volume
from tests.support.nodes.bench_node import BenchNode

GIB = 1 << 30
SIZE = 100 * GIB


def looked_at(free: int, size: int = SIZE) -> Volume:
    volume = Volume()
    volume.look(Space(free, size))
    return volume


@pytest.mark.parametrize(
    ("free", "size", "room"),
    [
        (64 << 20, SIZE, Room.ENOUGH),
        ((64 << 20) - 1, SIZE, Room.NONE),
        (10 << 10, 1 << 20, Room.NONE),  # of a small one the hundredth counts
        (11 << 10, 1 << 20, Room.ENOUGH),
        (0, 0, Room.ENOUGH),  # a file system that tells nothing
    ],
)
def test_a_volume_is_full_a_little_before_writes_fail(free: int, size: int, room: Room) -> None:
    assert looked_at(free, size).room is room


def test_nothing_is_said_before_it_was_looked_at_and_a_system_that_says_nothing_has_room() -> None:
    volume = Volume()
    before = volume.room
    assert volume.look(None)
    assert (before, volume.room, volume.problem) == (Room.UNSAID, Room.ENOUGH, "")


def test_a_write_that_failed_counts_though_the_volume_shows_room_as_with_a_quota() -> None:
    volume = looked_at(50 * GIB)
    assert volume.refused_a_write()
    assert not volume.refused_a_write()
    assert volume.room is Room.NONE
    assert "the data folder's volume is full (51,200 MiB free of 102,400 MiB)" in volume.problem


def test_a_full_one_stays_so_until_there_is_much_room_and_is_not_as_before_then() -> None:
    volume = looked_at(0)
    rooms = []
    for free in (GIB - 1, GIB, SIZE, 0):
        volume.look(Space(free, SIZE))
        rooms.append(volume.room)
    assert rooms == [Room.NONE, Room.AGAIN, Room.AGAIN, Room.NONE], "however much retention frees"


def test_one_that_was_made_larger_is_as_before() -> None:
    volume = looked_at(0)
    volume.look(Space(2 * GIB, SIZE))
    assert volume.look(Space(2 * GIB + 1, SIZE + 1))
    assert volume.room is Room.ENOUGH


def test_it_is_logged_when_it_fills_and_when_it_has_room(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        volume = looked_at(0)
        for free in (0, 0, 2 * GIB, 2 * GIB):
            volume.look(Space(free, SIZE))
    full, room = caplog.messages
    assert full.startswith(
        "the data folder's volume is full (0 MiB free of 102,400 MiB): it takes no messages"
    )
    assert room == "the data folder's volume has room again"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def test_a_broker_says_at_once_that_a_write_failed_and_logs_it_calmly(
    node: BenchNode, caplog: pytest.LogCaptureFixture
) -> None:
    node.controller.add("t", 1)
    partition = node.broker.topics["t"].partitions[0]
    rooms = [node.controller.room]
    with caplog.at_level(logging.ERROR):
        for _ in range(500):
            partition.note_error(DiskFull("no space left"))
    assert [*rooms, node.controller.room] == [Room.ENOUGH, Room.NONE]
    assert [each for each in caplog.messages if "t/0" in each] == ["partition t/0: no space left"]
    assert node.metrics.storage_errors == 500
