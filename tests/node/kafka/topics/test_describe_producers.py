"""The producers that a partition remembers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.kafka.topics import describe_producers
from tank_protos.generated.kafka import DescribeProducersRequest, DescribeProducersResponse
from tank_protos.generated.kafka.describe_producers_request import TopicRequest
from tank_protos.generated.kafka.describe_producers_response import PartitionResponse
from tests.support.clients.produce import idempotent
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.kafka_line import KafkaLine


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", partitions=2)
        yield node


def ask(node: BenchNode, *partitions: int, topic: str = "a") -> list[PartitionResponse]:
    request = DescribeProducersRequest([TopicRequest(topic, list(partitions))])
    answer = KafkaLine(node).ask(request, DescribeProducersResponse, 0)
    (found,) = answer.topics
    assert [each.partition_index for each in found.partitions] == list(partitions)
    return found.partitions


def test_each_producer_is_told_with_its_last_sequence(node: BenchNode) -> None:
    client = node.client()
    idempotent(client, 0, b"1", b"2", b"3", producer=9)
    idempotent(client, 3, b"4", producer=9)
    idempotent(client, 0, b"5", producer=12, epoch=2)
    now_ms = node.clock.now_ms()
    one, other = ask(node, 0, 1)
    assert (one.error_code, other.error_code, other.active_producers) == (0, 0, [])
    assert [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
        for each in one.active_producers
    ] == [(9, 0, 3, now_ms), (12, 2, 0, now_ms)]
    assert {(each.coordinator_epoch, each.current_txn_start_offset) for each in one.active_producers} == {
        (-1, -1)
    }


def test_unknown_partitions_fail_alone(node: BenchNode) -> None:
    assert [each.error_code for each in ask(node, 0, 2, -1)] == [0, 3, 3]
    assert [each.error_code for each in ask(node, 0, topic="none")] == [3]


def test_an_answer_has_a_bound(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_producers, "DESCRIBED_PRODUCERS", 1)
    client = node.client()
    idempotent(client, 0, b"1", producer=9)
    first, again = ask(node, 0, 0)
    assert (first.error_code, len(first.active_producers)) == (0, 1)
    assert (again.error_code, again.active_producers) == (44, [])
    assert "fewer" in (again.error_message or "")


def test_only_the_leader_knows(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, brokers=2)
    cell.create()
    assert [each.error_code for each in ask(cell.nodes[2], 0)] == [6]
    cell.close()
