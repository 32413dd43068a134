"""DeleteTopics: by name and by id, and when the answer comes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.broker.topic_ids import NO_TOPIC, topic_uuid
from tank_node.cluster.link import TopicOutcome
from tank_node.cluster.view import ChangeKind
from tank_node.kafka.errors import KafkaError
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def delete(node: BenchNode, *topics: DeleteTopicState) -> list[DeletableTopicResult]:
    asked = DeleteTopicsRequest(topics=list(topics), timeout_ms=1000)
    return list(KafkaLine(node).ask(asked, DeleteTopicsResponse, 6).responses)


def id_of(node: BenchNode, topic_id: int) -> bytes:
    return topic_uuid(node.controller.view.cluster_id, topic_id)


@pytest.mark.parametrize("version", range(6))
def test_topics_are_deleted_by_their_names(node: BenchNode, version: int) -> None:
    node.controller.add("a")
    node.controller.add("kept")
    asked = DeleteTopicsRequest(topic_names=["a", "none"], timeout_ms=1000)
    a, none = KafkaLine(node).ask(asked, DeleteTopicsResponse, version).responses
    assert (a.name, a.error_code) == ("a", 0)
    assert (none.name, none.error_code) == ("none", KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    assert [each.name for each in node.controller.view.topics()] == ["kept"]
    assert "a" not in node.broker.topics


def test_a_topic_is_deleted_by_its_id_and_the_answer_has_its_name(node: BenchNode) -> None:
    uuid = id_of(node, node.controller.add("a").topic_id)
    (result,) = delete(node, DeleteTopicState(None, uuid))
    assert (result.name, result.topic_id, result.error_code, result.error_message) == ("a", uuid, 0, None)
    assert node.controller.view.topic("a") is None


def test_an_answer_by_name_has_the_id(node: BenchNode) -> None:
    uuid = id_of(node, node.controller.add("a").topic_id)
    (result,) = delete(node, DeleteTopicState("a"))
    assert (result.name, result.topic_id) == ("a", uuid)


def test_an_old_id_does_not_delete_a_topic_that_was_made_again(node: BenchNode) -> None:
    old = id_of(node, node.controller.add("a").topic_id)
    delete(node, DeleteTopicState("a"))
    node.controller.add("a")
    (result,) = delete(node, DeleteTopicState(None, old))
    assert (result.name, result.topic_id, result.error_code) == (None, old, KafkaError.UNKNOWN_TOPIC_ID)
    assert node.controller.view.topic("a") is not None


def test_a_topic_needs_a_name_or_an_id_and_not_both(node: BenchNode) -> None:
    uuid = id_of(node, node.controller.add("a").topic_id)
    results = delete(node, DeleteTopicState(None, NO_TOPIC), DeleteTopicState("a", uuid))
    assert [each.error_code for each in results] == [KafkaError.INVALID_REQUEST] * 2
    assert node.controller.view.topic("a") is not None


def test_a_topic_that_is_named_twice_is_answered_once_and_stays(node: BenchNode) -> None:
    node.controller.add("a")
    node.controller.add("b")
    results = delete(node, DeleteTopicState("a"), DeleteTopicState("b"), DeleteTopicState("a"))
    assert [(each.name, each.error_code) for each in results] == [("a", KafkaError.INVALID_REQUEST), ("b", 0)]
    assert node.controller.view.topic("a") is not None


def test_of_a_name_and_an_id_of_one_topic_the_second_is_refused(node: BenchNode) -> None:
    uuid = id_of(node, node.controller.add("a").topic_id)
    results = delete(node, DeleteTopicState("a"), DeleteTopicState(None, uuid))
    assert [each.error_code for each in results] == [0, KafkaError.INVALID_REQUEST]


def test_the_clusters_own_topics_stay(node: BenchNode) -> None:
    own = replace(node.controller.add("a"), topic_id=9, name="__consumer_offsets")
    node.controller.publish(ChangeKind.CREATED, own)
    (result,) = delete(node, DeleteTopicState("__consumer_offsets"))
    assert result.error_code == KafkaError.INVALID_TOPIC


def test_the_answer_comes_when_the_topic_is_gone_from_the_view(node: BenchNode) -> None:
    topic = node.controller.add("a")
    asked: list[Callable[[TopicOutcome], None]] = []
    node.controller.delete_topic = lambda name, done: asked.append(done)  # type: ignore[method-assign]
    line = KafkaLine(node)
    line.send(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
    asked[0](TopicOutcome(ErrorCode.NONE))
    assert line.frames() == []
    node.controller.publish(ChangeKind.DELETED, topic)
    assert len(line.frames()) == 1


def test_a_deletion_that_nobody_answers_is_timed_out(node: BenchNode) -> None:
    node.controller.add("a")
    node.controller.delete_topic = lambda name, done: None  # type: ignore[method-assign]
    line = KafkaLine(node)
    line.send(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
    node.pass_ms(1001)
    (frame,) = line.frames()
    (result,) = line.read(frame, DeleteTopicsResponse, 5)[1].responses
    assert result.error_code == KafkaError.REQUEST_TIMED_OUT
