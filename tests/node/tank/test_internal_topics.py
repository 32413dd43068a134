"""TANK's clients write nothing into the topics in which brokers keep their own records."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import NewTopic, TopicOutcome
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import FIRST
from tank_protos.generated.tank import (
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.bench_node import BenchNode

OFFSETS = "__consumer_offsets"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        outcomes: list[TopicOutcome] = []
        settings = {"flush": "replicated", "log.format": "kafka"}
        node.controller.create_topic(
            NewTopic(OFFSETS, 1, settings=settings, is_internal=True), outcomes.append
        )
        assert outcomes[0].error is ErrorCode.NONE
        yield node


def last(node: BenchNode) -> int:
    """The last number of the topic's only partition."""
    return node.broker.topics[OFFSETS].partitions[0].log.last


def produce(node: BenchNode) -> int:
    entries = [ProducePartition(0, memoryview(batch_of(b"x")))]
    return node.client().ask(ProduceRequest(2, 1, "me", 0, 0, [ProduceTopic(OFFSETS, entries)]))[4]


def test_produce_is_refused(node: BenchNode) -> None:
    assert produce(node) == ErrorCode.READ_ONLY
    assert last(node) == 0


def test_produce_with_numbers_is_refused(node: BenchNode) -> None:
    data = batch_of(b"x")
    entries = [ProduceBasePartition(0, len(data), 5, memoryview(data))]
    request = ProduceWithBaseSeqNumRequest(2, 1, "me", 0, 0, [ProduceBaseTopic(OFFSETS, entries)])
    assert node.client().ask(request)[4] == ErrorCode.READ_ONLY
    assert last(node) == 0


def test_produce_once_is_refused(node: BenchNode) -> None:
    entries = [IdempotentPartition(0, 0, 0, memoryview(batch_of(b"x")))]
    request = IdempotentProduceRequest(0, 1, "", 0, 0, 5, 0, [IdempotentTopic(OFFSETS, entries)])
    (result,) = IdempotentProduceResponse.decode(node.client().ask(request)).topics[0].partitions
    assert result.error == ErrorCode.READ_ONLY
    assert last(node) == 0


def test_before_the_level_of_kafka_the_name_is_a_users(node: BenchNode) -> None:
    node.controller.view.feature_level = FIRST
    assert produce(node) == ErrorCode.NONE
    assert last(node) == 1
