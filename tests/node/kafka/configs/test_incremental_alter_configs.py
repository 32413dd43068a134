"""IncrementalAlterConfigs: some settings of a topic change, and the others stay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.kafka.errors import KafkaError
from tank_protos.generated.kafka import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from tank_protos.generated.kafka.incremental_alter_configs_request import (
    AlterableConfig,
    AlterableConfigCollection,
    AlterConfigsResource,
    AlterConfigsResourceCollection,
)
from tank_protos.generated.kafka.incremental_alter_configs_response import AlterConfigsResourceResponse
from tank_protos.topic_settings import CleanupPolicy, from_pairs
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("t", log_retention_secs="90", flush="replicated", log_format="kafka")
        yield node


def alter(
    node: BenchNode,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    kind: int = TOPIC,
    name: str = "t",
) -> AlterConfigsResourceResponse:
    configs = AlterableConfigCollection(AlterableConfig(*change) for change in changes)
    resources = AlterConfigsResourceCollection([AlterConfigsResource(kind, name, configs)])
    asked = IncrementalAlterConfigsRequest(resources)
    (result,) = KafkaLine(node).ask(asked, IncrementalAlterConfigsResponse, version).responses
    return result


def settings(node: BenchNode) -> dict[str, str]:
    topic = node.controller.view.topic("t")
    assert topic is not None
    return topic.settings_text


@pytest.mark.parametrize("version", range(2))
def test_what_is_named_changes_and_the_rest_stays(node: BenchNode, version: int) -> None:
    result = alter(node, ("segment.ms", SET, "1000"), ("flush", DELETE, None), version=version)
    assert (result.error_code, result.error_message, result.resource_name) == (0, None, "t")
    assert settings(node) == {
        "log.retention.secs": "90", "log.roll.secs": "1000ms", "log.format": "kafka",
    }  # fmt: skip


def test_an_element_that_is_there_may_be_added_and_one_that_is_not_taken_out(node: BenchNode) -> None:
    assert alter(node, ("cleanup.policy", APPEND, "delete")).error_code == 0
    assert settings(node)["log.cleanup.policy"] == "delete"
    assert alter(node, ("cleanup.policy", APPEND, "compact")).error_code == 0
    assert from_pairs(settings(node)).cleanup_policy is CleanupPolicy.BOTH
    assert alter(node, ("cleanup.policy", SUBTRACT, "compact")).error_code == 0
    assert settings(node)["log.cleanup.policy"] == "delete"


def test_a_list_is_not_left_empty(node: BenchNode) -> None:
    assert alter(node, ("cleanup.policy", SUBTRACT, "delete")).error_code == KafkaError.INVALID_CONFIG


def test_what_has_no_effect_is_taken(node: BenchNode) -> None:
    before = settings(node)
    assert alter(node, ("preallocate", SET, "true"), ("preallocate.x", DELETE, None)).error_code == 40
    assert alter(node, ("compression.type", SET, "producer"), ("preallocate", DELETE, "")).error_code == 0
    assert settings(node) == before


def test_the_stored_format_stays(node: BenchNode) -> None:
    assert alter(node, ("log.format", SET, "kafka"), ("flush.ms", SET, "5")).error_code == 0
    assert alter(node, ("log.format", DELETE, None)).error_code == 0
    assert alter(node, ("log.format", SET, "tank")).error_code == KafkaError.INVALID_CONFIG
    assert settings(node)["log.format"] == "kafka"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("retention.ms", APPEND, "1")], KafkaError.INVALID_CONFIG),
        ([("retention.ms", SUBTRACT, "1")], KafkaError.INVALID_CONFIG),
        ([("retention.ms", SET, "x")], KafkaError.INVALID_CONFIG),
        ([("no.such", SET, "1")], KafkaError.INVALID_CONFIG),
        ([("retention.ms", SET, None)], KafkaError.INVALID_REQUEST),
        ([("retention.ms", 4, "1")], KafkaError.INVALID_REQUEST),
        ([("retention.ms", -1, "1")], KafkaError.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], KafkaError.INVALID_REQUEST),
    ],
)
def test_a_refusal_changes_nothing(
    node: BenchNode, changes: list[tuple[str, int, str | None]], expected: KafkaError
) -> None:
    before = settings(node)
    result = alter(node, *changes, ("segment.ms", SET, "1000"))
    assert result.error_code == expected
    assert result.error_message
    assert settings(node) == before


def test_brokers_have_their_settings_elsewhere(node: BenchNode) -> None:
    result = alter(node, ("num.partitions", SET, "3"), kind=BROKER, name="1")
    assert result.error_code == KafkaError.INVALID_CONFIG
    assert result.error_message
    assert "configuration" in result.error_message


def test_an_unknown_topic_has_no_settings(node: BenchNode) -> None:
    assert alter(node, ("flush.ms", SET, "5"), name="none").error_code == 3
