"""Replicas that administrators move."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import Placement
from tank_node.limits import Limits
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from tank_protos.generated.kafka.alter_partition_reassignments_request import (
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.controllers.instant_controller import InstantController
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.kafka_line import KafkaLine

NEWEST = 1


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, brokers=2, limits=Limits(changes_per_proposal=2))
    cell.create("a", partitions=4)
    cell.change(3, "a", replicas=(1, 3, 2), adding=(3,), removing=(2,))
    yield cell
    cell.close()


def controller(cell: BrokerCell) -> InstantController:
    return cell.nodes[2].controller


def alter(
    cell: BrokerCell, moves: dict[int, list[int] | None], topic: str = "a", version: int = NEWEST
) -> dict[int, int]:
    """The error of each partition."""
    asked = [ReassignablePartition(number, replicas) for number, replicas in moves.items()]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(topic, asked)])
    answer = KafkaLine(cell.nodes[2]).ask(request, AlterPartitionReassignmentsResponse, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    (found,) = answer.responses
    assert found.name == topic
    assert all(bool(each.error_message) <= bool(each.error_code) for each in found.partitions)
    return {each.partition_index: each.error_code for each in found.partitions}


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_moves_begin(cell: BrokerCell, version: int) -> None:
    assert alter(cell, {0: [2, 3], 1: [2, 1], 2: [3, 4]}, version=version) == {0: 0, 1: 0, 2: 0}
    assert controller(cell).placements == [
        Placement(10, 0, (2, 3)),
        Placement(10, 1, (2, 1)),
        Placement(10, 2, (3, 4)),
    ]


def test_null_stops_a_move_and_is_refused_where_there_is_none(cell: BrokerCell) -> None:
    assert alter(cell, {3: None, 0: None}) == {3: 0, 0: 85}
    assert controller(cell).stopped_moves == [(10, 3)]
    assert controller(cell).placements == []


def test_wrong_replicas_are_refused(cell: BrokerCell) -> None:
    assert alter(cell, {0: [], 1: [1, 1], 2: [-1, 2]}) == {0: 39, 1: 39, 2: 39}
    assert alter(cell, {7: [1, 2], -1: [1, 2]}) == {7: 3, -1: 3}
    assert alter(cell, {0: [1, 2]}, topic="none") == {0: 3}
    assert controller(cell).placements == []


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (ErrorCode.INVALID_REPLICATION_FACTOR, 38),
        (ErrorCode.UNKNOWN_BROKER, 39),
        (ErrorCode.INELIGIBLE_REPLICA, 39),
        (ErrorCode.IN_USE, 60),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 19),
        (ErrorCode.UNKNOWN_TOPIC, 3),
        (ErrorCode.OVERLOADED, 7),
    ],
)
def test_the_controllers_judge_each_partition(cell: BrokerCell, verdict: ErrorCode, error: int) -> None:
    controller(cell).verdicts = [ErrorCode.NONE, verdict]
    assert alter(cell, {0: [2, 3], 1: [2, 3]}) == {0: 0, 1: error}


def test_what_the_controllers_refuse_as_a_whole_is_refused_for_each_partition(cell: BrokerCell) -> None:
    controller(cell).refusal = ErrorCode.TIMED_OUT
    assert alter(cell, {0: [2, 3], 1: [2, 3], 2: [2, 3], 3: None}) == dict.fromkeys(range(4), 7)
