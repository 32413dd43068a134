"""OffsetCommit and OffsetFetch of version 0, whose clients send them to any broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tank_protos.feature_levels import GROUPS, NATIVE_GROUPS
from tank_protos.generated.kafka import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.kafka_line import KafkaLine

M = TypeVar("M", bound=Message)
TOPIC = "orders"
LOADING, NOT_COORDINATOR, UNKNOWN = 14, 16, 3


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers; broker 1 coordinates all groups."""
    cell = BrokerCell(tmp_path, 3)
    for node in cell.nodes.values():
        node.controller.view.feature_level = NATIVE_GROUPS
    cell.create(TOPIC, 2, flush="replicated")
    cell.create(GROUPS_TOPIC, 1, flush="replicated", log_format="kafka", log_cleanup_policy="cleanup")
    cell.run(300)
    yield cell
    cell.close()


def ask(cell: BrokerCell, broker_id: int, request: Message, answer: type[M]) -> M:
    line = KafkaLine(cell.nodes[broker_id])
    line.session.came_from = lambda: "10.0.0.7"
    line.send(request, 0)
    frames = line.frames()
    for _ in range(20):
        cell.run(100)
        frames += line.frames()
    (frame,) = frames
    return line.read(frame, answer, 0)[1]


def commit(cell: BrokerCell, broker_id: int, offset: int) -> list[int]:
    """The errors of a commit in two partitions, when the groups are read."""
    partitions = [
        OffsetCommitRequestPartition(number, offset, committed_metadata="note") for number in (0, 9)
    ]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(TOPIC, partitions)])
    for _ in range(10):
        (topic,) = ask(cell, broker_id, request, OffsetCommitResponse).topics
        errors = [int(each.error_code) for each in topic.partitions]
        if LOADING not in errors:
            return errors
    raise AssertionError("the groups are not read in time")


@pytest.mark.parametrize("broker_id", [1, 2])
def test_any_broker_takes_them(cell: BrokerCell, broker_id: int) -> None:
    assert commit(cell, broker_id, 7) == [0, UNKNOWN]
    for asked in (1, 3):
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic(TOPIC, [0, 1])])
        (topic,) = ask(cell, asked, request, OffsetFetchResponse).topics
        found = [(each.committed_offset, each.metadata, int(each.error_code)) for each in topic.partitions]
        assert found == [(7, "note", 0), (-1, "", UNKNOWN)]


def test_below_their_feature_level_the_coordinator_alone_does(cell: BrokerCell) -> None:
    for node in cell.nodes.values():
        node.controller.view.feature_level = GROUPS
    assert commit(cell, 2, 7) == [NOT_COORDINATOR] * 2
    assert commit(cell, 1, 7) == [0, UNKNOWN]
