"""Elections that administrators ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import Limits
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import ElectLeadersRequest, ElectLeadersResponse
from tank_protos.generated.kafka.elect_leaders_request import TopicPartitions, TopicPartitionsCollection
from tests.support.controllers.instant_controller import InstantController
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.kafka_line import KafkaLine

PREFERRED, UNCLEAN = 0, 1
NEWEST = 2


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Partitions 0 led by the preferred replica, 1 by another, 2 by none, 3 by another while the preferred
    one is out of sync."""
    cell = BrokerCell(tmp_path, brokers=2, limits=Limits(changes_per_proposal=2))
    cell.create("a", partitions=4)
    cell.change(1, "a", leader=2)
    cell.change(2, "a", leader=0)
    cell.change(3, "a", leader=2, in_sync=(2,))
    yield cell
    cell.close()


def controller(cell: BrokerCell) -> InstantController:
    return cell.nodes[1].controller


def elect(
    cell: BrokerCell, kind: int, *numbers: int, topic: str = "a", version: int = NEWEST
) -> list[tuple[int, int]]:
    topics = TopicPartitionsCollection([TopicPartitions(topic, list(numbers))]) if numbers else None
    request = ElectLeadersRequest(kind if version else 0, topics)
    answer = KafkaLine(cell.nodes[1]).ask(request, ElectLeadersResponse, version)
    assert answer.error_code == 0
    assert {each.topic for each in answer.replica_election_results} <= {topic}
    return [
        (each.partition_id, each.error_code)
        for found in answer.replica_election_results
        for each in found.partition_result
    ]


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_a_preferred_replica_is_elected_where_another_leads(cell: BrokerCell, version: int) -> None:
    assert elect(cell, PREFERRED, 0, 1, 2, 3, version=version) == [(0, 84), (1, 0), (2, 80), (3, 80)]
    assert controller(cell).elections == [((10, 1), False)]


def test_any_replica_is_elected_where_none_leads_one_partition_at_a_time(cell: BrokerCell) -> None:
    assert elect(cell, UNCLEAN, 1, 2) == [(1, 84), (2, 0)]
    assert controller(cell).elections == [((10, 2), True)]


def test_of_all_partitions_those_that_need_no_election_are_not_named(cell: BrokerCell) -> None:
    assert elect(cell, PREFERRED) == [(1, 0), (2, 80), (3, 80)]
    assert elect(cell, UNCLEAN) == [(2, 0)]


def test_the_controllers_judge_each_partition(cell: BrokerCell) -> None:
    controller(cell).verdicts = [ErrorCode.NOT_ELECTABLE]
    assert elect(cell, PREFERRED, 1) == [(1, 80)]
    controller(cell).verdicts = [ErrorCode.NOT_ELECTABLE]
    assert elect(cell, UNCLEAN, 2) == [(2, 83)]
    controller(cell).verdicts = [ErrorCode.UNKNOWN_TOPIC]
    assert elect(cell, PREFERRED, 1) == [(1, 3)]


def test_what_the_controllers_refuse_as_a_whole_is_refused_for_each_partition(cell: BrokerCell) -> None:
    for number in range(4):
        cell.change(number, "a", leader=2, in_sync=(1, 2))
    controller(cell).refusal = ErrorCode.TIMED_OUT
    assert elect(cell, PREFERRED, 0, 1, 2, 3) == [(number, 7) for number in range(4)]
    assert len(controller(cell).elections) == 2, "the first part was asked for, the rest was not"
    controller(cell).refusal = ErrorCode.NONE
    assert elect(cell, PREFERRED, 0, 1, 2, 3) == [(number, 0) for number in range(4)]
    assert len(controller(cell).elections) == 6


def test_wrong_requests_are_refused_for_each_partition(cell: BrokerCell) -> None:
    assert elect(cell, PREFERRED, 9, -1) == [(9, 3), (-1, 3)]
    assert elect(cell, PREFERRED, 0, topic="none") == [(0, 3)]
    assert elect(cell, 7, 0, 1) == [(0, 42), (1, 42)]
    assert controller(cell).elections == []
