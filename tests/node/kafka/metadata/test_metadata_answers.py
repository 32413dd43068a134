"""Answers to Metadata that clients share."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.view import ChangeKind, PartitionView
from tank_node.kafka.metadata.metadata_answers import MIN_BYTES, MetadataAnswers, MetadataAsked, answers_of
from tank_protos.generated.kafka import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

LARGE = 1000
"""Enough partitions for an answer that is kept."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        lead(node, 1)
        yield node


def lead(node: BenchNode, leader: int) -> None:
    """The topic's partitions get this leader, by an entry of the controllers' log."""
    view = node.controller.view
    topic = view.topic("large") or node.controller.add("large")
    view.index += 1
    placed = [PartitionView(n, leader, 1, 1, (7, 1), (7, 1)) for n in range(LARGE)]
    node.controller.publish(ChangeKind.ALTERED, replace(topic, partitions=placed))


def asked(*names: str) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names or ("large",)])


def leaders(line: KafkaLine, version: int = 12) -> set[int]:
    (topic,) = line.ask(asked(), MetadataResponse, version).topics
    assert len(topic.partitions) == LARGE
    return {partition.leader_id for partition in topic.partitions}


def test_clients_that_ask_alike_share_one_answer(node: BenchNode) -> None:
    first, second = KafkaLine(node), KafkaLine(node)
    first.send(asked(), 12)
    second.send(asked(), 12)
    assert first.session.out[-1] is second.session.out[-1]
    (one,), (other,) = first.frames(), second.frames()
    assert one == other


def test_a_change_of_metadata_is_seen_at_once(node: BenchNode) -> None:
    line = KafkaLine(node)
    assert leaders(line) == leaders(line) == {1}
    lead(node, 0)
    assert leaders(line) == {-1}


def test_versions_and_sides_of_the_network_have_their_own_answers(node: BenchNode) -> None:
    node.controller.view.brokers[1].kafka_outside_host = "out.test"
    inside, outside = KafkaLine(node), KafkaLine(node, is_outside=True)
    for line, host in ((inside, "127.0.0.1"), (outside, "out.test")) * 2:
        assert line.ask(asked(), MetadataResponse, 12).brokers[0].host == host
        for version in (0, 5, 9):
            assert leaders(line, version) == {1}


def test_answers_about_missing_topics_and_operations_are_not_shared(node: BenchNode) -> None:
    line = KafkaLine(node)
    request = asked("large", "missing")
    request.allow_auto_topic_creation = False
    line.ask(request, MetadataResponse, 8)
    request = asked()
    request.include_topic_authorized_operations = True
    line.ask(request, MetadataResponse, 8)
    assert answers_of(node.broker).size_bytes == 0


def test_short_answers_are_not_kept() -> None:
    answers = MetadataAnswers(1 << 20)
    answers.keep(1, MetadataAsked(1, False, b"a"), bytes(MIN_BYTES - 1))
    assert answers.size_bytes == 0


def test_the_oldest_answers_go_when_there_are_too_many_bytes() -> None:
    answers = MetadataAnswers(3 * MIN_BYTES)
    one, two, three, huge = (MetadataAsked(1, False, name) for name in (b"one", b"two", b"three", b"huge"))
    body = bytes(MIN_BYTES)
    for each in (one, two, one, three):
        answers.keep(5, each, body)
    answers.keep(5, huge, bytes(3 * MIN_BYTES))
    assert [answers.find(5, each) for each in (one, two, three, huge)] == [None, body, body, None]
    assert answers.size_bytes == 2 * MIN_BYTES + len(b"twothree")


def test_answers_of_an_earlier_state_are_gone() -> None:
    answers = MetadataAnswers(1 << 20)
    asked_one = MetadataAsked(1, False, b"one")
    answers.keep(5, asked_one, bytes(MIN_BYTES))
    assert answers.find(6, asked_one) is None
    answers.keep(6, MetadataAsked(1, False, b"two"), bytes(MIN_BYTES))
    assert answers.find(6, asked_one) is None
    assert answers.size_bytes == MIN_BYTES + 3
