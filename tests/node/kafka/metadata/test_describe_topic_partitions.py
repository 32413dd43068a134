"""DescribeTopicPartitions: topics page by page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.broker.topic_ids import topic_uuid
from tank_node.cluster.view import BrokerView, ChangeKind, PartitionView
from tank_node.limits import Limits
from tank_protos.generated.kafka import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from tank_protos.generated.kafka.describe_topic_partitions_request import Cursor, TopicRequest
from tank_protos.generated.kafka.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponsePartition,
)
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

NO_ID = bytes(16)
TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data", Limits(described_partitions=8)) as node:
        yield node


def ask(
    node: BenchNode, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], limit, None if cursor is None else Cursor(*cursor)
    )
    return KafkaLine(node).ask(request, DescribeTopicPartitionsResponse, 0)


def shape(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics]


def place_of(response: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def pages(node: BenchNode, *names: str, limit: int) -> list[list[tuple[str | None, list[int]]]]:
    """All pages, each from the cursor of the one before."""
    response = ask(node, *names, limit=limit)
    found = [shape(response)]
    while response.next_cursor is not None:
        response = ask(node, *names, limit=limit, cursor=place_of(response))
        found.append(shape(response))
    return found


def test_a_topic_is_described_whole(node: BenchNode) -> None:
    brokers = node.controller.view.brokers
    brokers[2] = BrokerView(2, 1, "h", 11011, "", kafka_host="k2", kafka_port=9092)
    brokers[3] = BrokerView(3, 1, "h", 11011, "", fenced=True, kafka_host="k3", kafka_port=9092)
    topic = node.controller.add("one", 2)
    placed = [
        PartitionView(0, 1, 5, 9, (1, 2, 3, 4), (1,), eligible=(2, 3, 4), impaired=(3,)),
        PartitionView(1, 0, 6, 9, (2, 3), (3,)),
    ]
    node.controller.publish(ChangeKind.ALTERED, replace(topic, partitions=placed))
    response = ask(node, "one")
    (found,) = response.topics
    assert (found.error_code, found.name, found.is_internal) == (0, "one", False)
    assert found.topic_id == topic_uuid("test-cluster", topic.topic_id)
    assert found.topic_authorized_operations == TOPIC_OPERATIONS
    assert found.partitions == [
        DescribeTopicPartitionsResponsePartition(0, 0, 1, 5, [1, 2, 3, 4], [1], [2, 4], [3], [3, 4]),
        DescribeTopicPartitionsResponsePartition(5, 1, -1, 6, [2, 3], [3], [], [], [3]),
    ]
    assert response.next_cursor is None


def test_without_names_all_topics_come_in_the_order_of_their_names(node: BenchNode) -> None:
    for name in ("b", "C", "a-1", "a_1"):
        node.controller.add(name)
    assert [name for name, _ in shape(ask(node))] == ["C", "a-1", "a_1", "b"]


def test_named_topics_come_once_each_in_the_order_of_their_names(node: BenchNode) -> None:
    for name in ("c", "b", "a"):
        node.controller.add(name)
    assert shape(ask(node, "c", "a", "c")) == [("a", [0]), ("c", [0])]


def test_unknown_and_invalid_topics_are_errors_of_those_topics(node: BenchNode) -> None:
    node.controller.add("b")
    found = ask(node, "a", "b", "x y").topics
    assert [(each.error_code, each.name, len(each.partitions)) for each in found] == [
        (3, "a", 0),
        (0, "b", 1),
        (17, "x y", 0),
    ]
    assert found[0].topic_id == NO_ID
    assert node.controller.view.topic("a") is None, "a description creates no topic"


def test_pages_go_through_all_partitions_of_all_topics(node: BenchNode) -> None:
    node.controller.add("a", 3)
    node.controller.add("b", 2)
    node.controller.add("c", 1)
    expected = [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("b", [1]), ("c", [0])]]
    assert pages(node, limit=2) == expected
    assert pages(node, "c", "b", "a", limit=2) == expected


def test_a_page_that_ends_with_a_topic_points_to_the_next_one(node: BenchNode) -> None:
    node.controller.add("a", 2)
    node.controller.add("b", 2)
    response = ask(node, limit=2)
    assert (shape(response), place_of(response)) == ([("a", [0, 1])], ("b", 0))
    assert place_of(ask(node, limit=2, cursor=("b", 0))) is None


@pytest.mark.parametrize("limit", [0, -5])
def test_a_page_has_one_partition_at_least(node: BenchNode, limit: int) -> None:
    node.controller.add("a", 2)
    assert shape(ask(node, limit=limit)) == [("a", [0])]


def test_a_page_has_no_more_partitions_than_the_broker_allows(node: BenchNode) -> None:
    node.controller.add("a", 20)
    response = ask(node, limit=2000)
    assert (shape(response), place_of(response)) == ([("a", list(range(8)))], ("a", 8))


def test_a_cursor_in_a_topic_that_is_gone_goes_on_behind_it(node: BenchNode) -> None:
    node.controller.add("a", 2)
    node.controller.add("c", 2)
    assert shape(ask(node, cursor=("b", 5))) == [("c", [0, 1])]
    gone = ask(node, "a", "c", cursor=("b", 5))
    assert [(each.name, each.error_code) for each in gone.topics] == [("b", 3), ("c", 0)]


def test_a_cursor_behind_a_topics_partitions_finds_none_there(node: BenchNode) -> None:
    node.controller.add("a", 2)
    node.controller.add("b", 2)
    assert shape(ask(node, cursor=("a", 2))) == [("a", []), ("b", [0, 1])]


def test_a_cursor_below_the_first_partition_is_refused_for_each_topic(node: BenchNode) -> None:
    node.controller.add("a")
    refused = ask(node, "a", "b", cursor=("a", -1)).topics
    assert [(each.error_code, each.name) for each in refused] == [(42, "a"), (42, "b")]
