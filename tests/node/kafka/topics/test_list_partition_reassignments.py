"""The replicas that move, as the view has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.kafka import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tank_protos.generated.kafka.list_partition_reassignments_request import ListPartitionReassignmentsTopics
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.kafka_line import KafkaLine

Moves = dict[str, list[tuple[int, list[int], list[int], list[int]]]]


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, brokers=2)
    cell.create("a", partitions=3)
    cell.create("b")
    cell.change(1, "a", replicas=(1, 3, 2), adding=(3,), removing=(2,))
    yield cell
    cell.close()


def moves(cell: BrokerCell, topics: list[ListPartitionReassignmentsTopics] | None) -> Moves:
    request = ListPartitionReassignmentsRequest(topics=topics)
    answer = KafkaLine(cell.nodes[2]).ask(request, ListPartitionReassignmentsResponse, 0)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        topic.name: [
            (each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
            for each in topic.partitions
        ]
        for topic in answer.topics
    }


def test_null_means_all_that_move(cell: BrokerCell) -> None:
    assert moves(cell, None) == {"a": [(1, [1, 3, 2], [3], [2])]}


def test_of_those_that_are_named_the_ones_that_move_are_answered(cell: BrokerCell) -> None:
    named = [
        ListPartitionReassignmentsTopics("a", [0, 1, 9, -1]),
        ListPartitionReassignmentsTopics("b", [0]),
        ListPartitionReassignmentsTopics("none", [0]),
    ]
    assert moves(cell, named) == {"a": [(1, [1, 3, 2], [3], [2])]}
    assert moves(cell, named[1:]) == moves(cell, []) == {}
