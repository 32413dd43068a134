"""Where leader epochs end: the question of consumers whose leader has changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.kafka import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tank_protos.generated.kafka.offset_for_leader_epoch_request import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicCollection,
)
from tank_protos.generated.kafka.offset_for_leader_epoch_response import EpochEndOffset
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.kafka_line import KafkaLine
from tests.support.nodes.leading import append

NEWEST = 4


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, brokers=2)
    cell.create(flush="replicated")
    cell.run()
    yield cell
    cell.close()


@pytest.fixture
def node(cell: BrokerCell) -> BenchNode:
    """Two records of epoch 1, none of epoch 2, one of epoch 3; the leader is of epoch 4."""
    for count, leader in ((2, 2), (0, 1), (1, 2)):
        for _ in range(count):
            append(cell.nodes[3 - leader], b"v", Told(), 0)
        cell.run()
        cell.change(leader=leader)
        cell.run()
    assert cell.nodes[2].partition().leader_epoch == 4
    return cell.nodes[2]


def end(
    node: BenchNode,
    epoch: int,
    version: int = NEWEST,
    current: int = -1,
    partition: int = 0,
    topic: str = "a",
) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(partition, current, epoch)
    topics = OffsetForLeaderTopicCollection([OffsetForLeaderTopic(topic, [asked])])
    request = OffsetForLeaderEpochRequest(topics=topics)
    answer = KafkaLine(node).ask(request, OffsetForLeaderEpochResponse, version)
    (found,) = answer.topics
    assert found.topic == topic
    (result,) = found.partitions
    assert result.partition == partition
    return result


def found(result: EpochEndOffset) -> tuple[int, int, int]:
    return result.error_code, result.leader_epoch, result.end_offset


def test_an_epoch_ends_where_the_next_one_with_records_begins(node: BenchNode) -> None:
    assert found(end(node, 1)) == (0, 1, 2)


def test_the_end_of_the_newest_epoch_is_the_logs_end(node: BenchNode) -> None:
    assert found(end(node, 3)) == (0, 3, 3)


def test_an_earlier_epoch_without_records_is_answered_by_the_one_before(node: BenchNode) -> None:
    assert found(end(node, 2)) == (0, 1, 2)


def test_the_present_epoch_ends_at_the_logs_end_even_without_records(node: BenchNode) -> None:
    assert found(end(node, 4)) == (0, 4, 3)


def test_an_epoch_above_the_leaders_has_no_end(node: BenchNode) -> None:
    """Its records are of another log: of a topic of the same name that was deleted."""
    assert found(end(node, 5)) == found(end(node, 99)) == (0, -1, -1)


def test_an_epoch_that_is_older_than_all_records_ends_where_they_begin(node: BenchNode) -> None:
    assert found(end(node, 0)) == (0, 0, 0)


def test_an_epoch_whose_records_are_deleted_ends_where_the_others_begin(cell: BrokerCell) -> None:
    for leader in (2, 1):
        append(cell.nodes[3 - leader], b"v", Told(), 0)
        cell.run()
        cell.change(leader=leader)
        cell.run()
    node = cell.nodes[1]
    log = node.partition().log
    log.roll()
    append(node, b"v", Told(), 0)
    cell.run()
    log.retain_from(3)
    assert 1 not in dict(log.epochs)
    assert found(end(node, 1)) == (0, 1, 2)


def test_every_epoch_ends_at_once_in_a_log_without_records(cell: BrokerCell) -> None:
    assert [found(end(cell.nodes[1], epoch)) for epoch in (0, 1)] == [(0, 0, 0), (0, 1, 0)]


def test_no_epoch_has_no_end(cell: BrokerCell) -> None:
    append(cell.nodes[1], b"v", Told(), 0)
    assert found(end(cell.nodes[1], -1)) == (0, -1, -1)


def test_the_end_counts_records_that_are_not_committed(cell: BrokerCell) -> None:
    append(cell.nodes[1], b"v", Told(), 0)
    assert cell.nodes[1].partition().high_water_mark == 0
    assert found(end(cell.nodes[1], 1)) == (0, 1, 1)


def test_every_version_says_the_end_and_all_but_the_first_the_epoch(node: BenchNode) -> None:
    assert [found(end(node, 1, version)) for version in range(NEWEST + 1)] == [
        (0, -1 if version == 0 else 1, 2) for version in range(NEWEST + 1)
    ]


def test_another_leader_epoch_than_the_present_one_is_refused(node: BenchNode) -> None:
    assert [end(node, 1, version, current).error_code for version in (2, 4) for current in (3, 4, 5)] == [
        74,
        0,
        75,
    ] * 2


def test_only_the_leader_answers(cell: BrokerCell, node: BenchNode) -> None:
    assert found(end(cell.nodes[1], 1)) == (6, -1, -1)


def test_an_unknown_partition_is_refused(node: BenchNode) -> None:
    assert end(node, 1, partition=7).error_code == end(node, 1, topic="b").error_code == 3
