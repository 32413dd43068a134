"""The data folder as Kafka's tools see it: without an answer they call a cluster offline."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.kafka import DescribeLogDirsRequest, DescribeLogDirsResponse
from tank_protos.generated.kafka.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribableLogDirTopicCollection,
)
from tank_protos.generated.kafka.describe_log_dirs_response import DescribeLogDirsResult
from tests.support.clients.produce import batch_of
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.kafka_line import KafkaLine
from tests.support.nodes.leading import append

NEWEST = 4


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", partitions=2)
        node.controller.add("b")
        yield node


def ask(
    node: BenchNode, topics: dict[str, list[int]] | None = None, version: int = NEWEST
) -> DescribeLogDirsResult:
    named = None
    if topics is not None:
        named = DescribableLogDirTopicCollection(
            DescribableLogDirTopic(name, numbers) for name, numbers in topics.items()
        )
    answer = KafkaLine(node).ask(DescribeLogDirsRequest(named), DescribeLogDirsResponse, version)
    assert answer.error_code == 0
    (result,) = answer.results
    assert result.error_code == 0
    return result


def sizes(result: DescribeLogDirsResult) -> dict[str, list[tuple[int, int, int, bool]]]:
    return {
        topic.name: [
            (each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
            for each in topic.partitions
        ]
        for topic in result.topics
    }


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_null_means_all_replicas(node: BenchNode, version: int) -> None:
    node.broker.begin_tick()
    node.broker.topics["a"].partitions[1].append(memoryview(batch_of(b"value")), Told(), 0)
    node.tick()
    result = ask(node, version=version)
    assert result.log_dir == node.data_folder.path
    assert sizes(result) == {
        "a": [(0, 0, 0, False), (1, len(batch_of(b"value")), 0, False)],
        "b": [(0, 0, 0, False)],
    }


def test_an_empty_list_means_none(node: BenchNode) -> None:
    assert sizes(ask(node, {})) == {}


def test_of_those_that_are_named_the_ones_that_are_here_are_answered(node: BenchNode) -> None:
    result = ask(node, {"a": [1, 5, -1], "none": [0], "b": []})
    assert sizes(result) == {"a": [(1, 0, 0, False)]}


def test_the_volume_is_known_or_said_to_be_unknown(node: BenchNode) -> None:
    known = ask(node)
    assert 0 < known.usable_bytes <= known.total_bytes
    node.broker.volume.space = None
    unknown = ask(node)
    assert (unknown.total_bytes, unknown.usable_bytes) == (-1, -1)


def test_each_broker_answers_for_its_own_replicas(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, brokers=2)
    cell.create(flush="replicated")
    cell.run()
    append(cell.nodes[1], b"value", Told(), 0)
    cell.run()
    found = [ask(cell.nodes[broker_id]) for broker_id in (1, 2)]
    assert sizes(found[0]) == sizes(found[1]) != {}
    assert found[0].log_dir != found[1].log_dir
    cell.close()
