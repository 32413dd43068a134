"""Long answers to Metadata, encoded slice by slice."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.view import ChangeKind
from tank_node.kafka.metadata.metadata_answers import answers_of
from tank_node.kafka.metadata.topic_slices import TopicSlices
from tank_node.limits import Limits
from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseBrokerCollection,
    MetadataResponsePartition,
    MetadataResponseTopic,
    MetadataResponseTopicCollection,
)
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

VERSIONS = range(14)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data", Limits(metadata_slice=6)) as node:
        for number in range(5):
            node.controller.add(f"topic-{number}", 2)
        yield node


def whole(version: int, topics: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=MetadataResponseBrokerCollection([MetadataResponseBroker(1, "host.test", 9092)]),
        cluster_id="cluster" if version >= 2 else None,
        controller_id=1 if version >= 1 else -1,
        topics=MetadataResponseTopicCollection(
            MetadataResponseTopic(3, f"topic-{number}", partitions=[MetadataResponsePartition(0, number)])
            for number in range(topics)
        ),
        cluster_authorized_operations=77 if 8 <= version <= 10 else -(1 << 31),
        error_code=9 if version >= 13 else 0,
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topics", [1, 126, 127, 300])
@pytest.mark.parametrize("slice_size", [1, 127, 128])
def test_slices_are_the_bytes_of_the_whole_message(version: int, topics: int, slice_size: int) -> None:
    response = whole(version, topics)
    slices = TopicSlices(version)
    for begin in range(0, topics, slice_size):
        slices.add(MetadataResponseTopicCollection(response.topics[begin : begin + slice_size]))
    without = replace(response, topics=MetadataResponseTopicCollection())
    assert slices.count == topics
    assert b"".join(slices.body(without)) == b"".join(response.encode(version))


def turns(node: BenchNode, line: KafkaLine) -> int:
    """Lets time pass until the line has an answer; returns how often."""
    count = 0
    while not line.session.out:
        node.pass_ms(2)
        count += 1
        assert count < 10
    return count


@pytest.mark.parametrize("version", VERSIONS)
def test_a_long_answer_takes_several_turns_and_is_whole(node: BenchNode, version: int) -> None:
    line = KafkaLine(node)
    line.send(MetadataRequest(None) if version else MetadataRequest(), version)
    assert turns(node, line) == 2
    (frame,) = line.frames()
    _, response = line.read(frame, MetadataResponse, version)
    assert [(each.name, len(each.partitions)) for each in response.topics] == [
        (f"topic-{number}", 2) for number in range(5)
    ]
    assert [each.host for each in response.brokers] == ["127.0.0.1"]
    assert node.metrics.waiting == 0


def test_other_clients_are_answered_between_the_turns(node: BenchNode) -> None:
    first, second = KafkaLine(node), KafkaLine(node)
    first.send(MetadataRequest(None), 9)
    second.send(ApiVersionsRequest(), 0)
    assert (len(first.frames()), len(second.frames())) == (0, 1)


def test_an_answer_shows_the_topics_that_there_were_when_it_was_begun(node: BenchNode) -> None:
    line = KafkaLine(node)
    line.send(MetadataRequest(None), 9)
    for number in (0, 4):
        topic = node.controller.view.topic(f"topic-{number}")
        assert topic is not None
        node.controller.publish(ChangeKind.DELETED, topic)
    node.controller.add("late")
    turns(node, line)
    _, response = line.read(line.frames()[0], MetadataResponse, 9)
    assert [each.name for each in response.topics] == [f"topic-{number}" for number in range(5)]


def test_an_answer_that_metadata_overtook_is_not_kept(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(metadata_slice=600)) as node:
        for number in range(4):
            node.controller.add(f"topic-{number}", 300)
        answers = answers_of(node.broker)
        for change, kept in ((1, False), (0, True)):
            line = KafkaLine(node)
            line.send(MetadataRequest(None), 9)
            node.controller.view.index += change
            turns(node, line)
            assert (answers.size_bytes > 0) is kept


def test_a_client_that_leaves_ends_the_work(node: BenchNode) -> None:
    line = KafkaLine(node)
    line.send(MetadataRequest(None), 9)
    assert node.metrics.waiting == 1
    line.session.close()
    assert node.metrics.waiting == 0
    node.pass_ms(2)
    assert not line.session.out
