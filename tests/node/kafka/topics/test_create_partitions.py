"""CreatePartitions: topics grow, and never shrink."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.link import TopicAlteration, TopicOutcome
from tank_node.cluster.view import NO_LEADER, ChangeKind, PartitionView
from tank_node.kafka.errors import KafkaError
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicCollection,
    CreatePartitionsTopicResult,
)
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("t", 2)
        yield node


def request(*topics: CreatePartitionsTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(CreatePartitionsTopicCollection(topics), 1000, validate_only)


def grow(
    node: BenchNode, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[CreatePartitionsTopicResult]:
    asked = request(*topics, validate_only=validate_only)
    return KafkaLine(node).ask(asked, CreatePartitionsResponse, version).results


def partitions(node: BenchNode, name: str = "t") -> int:
    topic = node.controller.view.topic(name)
    assert topic is not None
    return len(topic.partitions)


@pytest.mark.parametrize("version", range(4))
def test_a_topic_has_its_new_partitions_when_the_answer_comes(node: BenchNode, version: int) -> None:
    (result,) = grow(node, CreatePartitionsTopic("t", 5, None), version=version)
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert partitions(node) == 5


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_a_topic_never_gets_fewer(node: BenchNode, count: int) -> None:
    (result,) = grow(node, CreatePartitionsTopic("t", count, None))
    assert result.error_code == KafkaError.INVALID_PARTITIONS
    assert partitions(node) == 2


@pytest.mark.parametrize("assigned", [[], [[1]], [[1], [1, 2]], [[1], []], [[1], [0]]])
def test_assignments_must_agree_with_what_is_added(node: BenchNode, assigned: list[list[int]]) -> None:
    brokers = [CreatePartitionsAssignment(each) for each in assigned]
    (result,) = grow(node, CreatePartitionsTopic("t", 4, brokers))
    assert result.error_code == KafkaError.INVALID_REPLICA_ASSIGNMENT
    assert partitions(node) == 2


def test_new_partitions_go_to_the_brokers_that_the_client_chose(node: BenchNode) -> None:
    (result,) = grow(node, CreatePartitionsTopic("t", 3, [CreatePartitionsAssignment([1])]))
    assert result.error_code == 0
    (result,) = grow(node, CreatePartitionsTopic("t", 4, [CreatePartitionsAssignment([7])]))
    assert result.error_code == KafkaError.INVALID_REPLICA_ASSIGNMENT
    assert partitions(node) == 3


def test_topics_fail_alone(node: BenchNode) -> None:
    own = replace(node.controller.add("a"), topic_id=9, name="__consumer_offsets")
    node.controller.publish(ChangeKind.CREATED, own)
    topics = [CreatePartitionsTopic(name, 3, None) for name in ("none", "t", "__consumer_offsets", "x", "x")]
    codes = [(each.name, each.error_code) for each in grow(node, *topics)]
    assert codes == [("none", 3), ("t", 0), ("__consumer_offsets", 17), ("x", 42)]
    assert partitions(node) == 3


def test_validate_only_changes_nothing(node: BenchNode) -> None:
    asked: list[TopicAlteration] = []

    def alter(change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        asked.append(change)
        done(TopicOutcome(ErrorCode.NONE, "", 1))

    node.controller.alter_topic = alter  # type: ignore[method-assign]
    (result,) = grow(node, CreatePartitionsTopic("t", 3, None), validate_only=True)
    assert result.error_code == 0
    assert [change.validate_only for change in asked] == [True]


def test_the_answer_waits_for_leaders(node: BenchNode) -> None:
    asked: list[Callable[[TopicOutcome], None]] = []
    node.controller.alter_topic = lambda change, done: asked.append(done)  # type: ignore[method-assign]
    line = KafkaLine(node)
    line.send(request(CreatePartitionsTopic("t", 3, None)), 3)
    topic = node.controller.view.topic("t")
    assert topic is not None
    asked[0](TopicOutcome(ErrorCode.NONE, "", topic.topic_id))
    for leader, answers in ((NO_LEADER, 0), (1, 1)):
        assert line.frames() == []
        placed = [*topic.partitions[:2], PartitionView(2, leader, 1, 1, (1,), (1,))]
        node.controller.publish(ChangeKind.ALTERED, replace(topic, partitions=placed))
        assert len(line.frames()) == answers
