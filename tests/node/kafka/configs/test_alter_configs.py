"""AlterConfigs: the settings of a request replace all that a topic has."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.link import TopicAlteration, TopicOutcome
from tank_node.cluster.view import ChangeKind
from tank_node.kafka.errors import KafkaError
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import AlterConfigsRequest, AlterConfigsResponse
from tank_protos.generated.kafka.alter_configs_request import (
    AlterableConfig,
    AlterableConfigCollection,
    AlterConfigsResource,
    AlterConfigsResourceCollection,
)
from tank_protos.generated.kafka.alter_configs_response import AlterConfigsResourceResponse
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

TOPIC, BROKER = 2, 4


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("t", log_retention_secs="90", flush="replicated", log_format="kafka")
        yield node


def resource(name: str, *configs: tuple[str, str | None], kind: int = TOPIC) -> AlterConfigsResource:
    rows = AlterableConfigCollection(AlterableConfig(*config) for config in configs)
    return AlterConfigsResource(kind, name, rows)


def request(*resources: AlterConfigsResource, validate_only: bool = False) -> AlterConfigsRequest:
    return AlterConfigsRequest(AlterConfigsResourceCollection(resources), validate_only)


def alter(
    node: BenchNode, *resources: AlterConfigsResource, version: int = 2, validate_only: bool = False
) -> list[AlterConfigsResourceResponse]:
    asked = request(*resources, validate_only=validate_only)
    return KafkaLine(node).ask(asked, AlterConfigsResponse, version).responses


def settings(node: BenchNode) -> dict[str, str]:
    topic = node.controller.view.topic("t")
    assert topic is not None
    return topic.settings_text


@pytest.mark.parametrize("version", range(3))
def test_what_is_not_named_goes_back_to_its_default_but_for_the_stored_format(
    node: BenchNode, version: int
) -> None:
    (result,) = alter(node, resource("t", ("segment.ms", "1000")), version=version)
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, "t")
    assert settings(node) == {"log.roll.secs": "1000ms", "log.format": "kafka"}


def test_no_settings_at_all_are_all_defaults(node: BenchNode) -> None:
    alter(node, resource("t"))
    assert settings(node) == {"log.format": "kafka"}


def test_a_null_value_is_the_default(node: BenchNode) -> None:
    alter(node, resource("t", ("retention.ms", None), ("flush", "replicated")))
    assert settings(node) == {"flush": "replicated", "log.format": "kafka"}


def test_what_was_shown_may_be_written_back(node: BenchNode) -> None:
    (result,) = alter(node, resource("t", ("log.format", "kafka"), ("preallocate", "false")))
    assert result.error_code == 0
    assert settings(node) == {"log.format": "kafka"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (resource("t", ("log.format", "tank")), KafkaError.INVALID_CONFIG),
        (resource("t", ("no.such", "1")), KafkaError.INVALID_CONFIG),
        (resource("t", ("no.such", None)), KafkaError.INVALID_CONFIG),
        (resource("t", ("retention.ms", "x")), KafkaError.INVALID_CONFIG),
        (resource("t", ("retention.ms", "1"), ("retention.ms", "2")), KafkaError.INVALID_REQUEST),
        (resource("none", ("retention.ms", "1")), KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (resource("1", ("num.partitions", "3"), kind=BROKER), KafkaError.INVALID_CONFIG),
        (resource("", ("num.partitions", "3"), kind=BROKER), KafkaError.INVALID_CONFIG),
        (resource("1", kind=8), KafkaError.INVALID_REQUEST),
    ],
)
def test_a_refusal_changes_nothing(
    node: BenchNode, asked: AlterConfigsResource, expected: KafkaError
) -> None:
    before = settings(node)
    (result,) = alter(node, asked)
    assert result.error_code == expected
    assert result.error_message
    assert settings(node) == before


def test_resources_fail_alone_and_one_that_is_named_twice_fails(node: BenchNode) -> None:
    node.controller.add("twice")
    results = alter(
        node, resource("twice"), resource("none"), resource("t", ("flush.ms", "5")), resource("twice")
    )
    assert [each.error_code for each in results] == [42, 3, 0, 42]


def test_validate_only_changes_nothing(node: BenchNode) -> None:
    asked: list[TopicAlteration] = []

    def only_asked(change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        asked.append(change)
        done(TopicOutcome(ErrorCode.INVALID_SETTING, "why"))

    node.controller.alter_topic = only_asked  # type: ignore[method-assign]
    (result,) = alter(node, resource("t", ("flush.ms", "5")), validate_only=True)
    assert (result.error_code, result.error_message) == (KafkaError.INVALID_CONFIG, "why")
    assert asked[0].validate_only


def test_the_answer_comes_when_the_view_has_the_settings(node: BenchNode) -> None:
    asked: list[Callable[[TopicOutcome], None]] = []
    node.controller.alter_topic = lambda change, done: asked.append(done)  # type: ignore[method-assign]
    line = KafkaLine(node)
    line.send(request(resource("t", ("flush", "disk"))), 2)
    asked[0](TopicOutcome(ErrorCode.NONE))
    assert line.frames() == []
    topic = node.controller.view.topic("t")
    assert topic is not None
    text = {"flush": "disk", "log.format": "kafka"}
    node.controller.publish(ChangeKind.ALTERED, replace(topic, settings_text=text))
    assert len(line.frames()) == 1
