"""DescribeConfigs: settings of topics and of brokers, with their sources."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.view import ChangeKind
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.kafka.configs.topic_configs import ConfigSource
from tank_node.kafka.errors import KafkaError
from tank_node.kafka.settings import KafkaSettings
from tank_node.limits import Limits
from tank_protos.generated.kafka import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

TOPIC, BROKER = 2, 4


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("t", log_retention_secs="90", log_cleanup_policy="cleanup")
        yield node


def describe(
    node: BenchNode, kind: int, name: str, names: list[str] | None = None, version: int = 4
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(kind, name, names)
    asked = DescribeConfigsRequest(
        [resource], include_synonyms=version >= 1, include_documentation=version >= 3
    )
    (result,) = KafkaLine(node).ask(asked, DescribeConfigsResponse, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def configs(result: DescribeConfigsResult) -> dict[str, DescribeConfigsResourceResult]:
    assert (result.error_code, result.error_message) == (0, None)
    return {each.name: each for each in result.configs}


def values(result: DescribeConfigsResult) -> dict[str, str | None]:
    return {name: each.value for name, each in configs(result).items()}


@pytest.mark.parametrize("version", range(5))
def test_a_topics_configs_come_in_every_version(node: BenchNode, version: int) -> None:
    shown = configs(describe(node, TOPIC, "t", version=version))
    assert (shown["retention.ms"].value, shown["segment.ms"].value) == ("90000", "604800000")
    if version == 0:
        assert (shown["retention.ms"].is_default, shown["segment.ms"].is_default) == (False, True)
    else:
        assert (shown["retention.ms"].config_source, shown["segment.ms"].config_source) == (1, 5)
    if version >= 3:
        assert (shown["retention.ms"].config_type, shown["cleanup.policy"].config_type) == (5, 7)
        assert all(each.documentation for each in shown.values())


def test_connect_finds_a_compacted_topic_to_be_exactly_compact(node: BenchNode) -> None:
    assert values(describe(node, TOPIC, "t", ["cleanup.policy"])) == {"cleanup.policy": "compact"}


def test_synonyms_lead_from_the_topic_to_the_default(node: BenchNode) -> None:
    shown = configs(describe(node, TOPIC, "t"))
    synonyms = [(each.name, each.value, each.source) for each in shown["retention.ms"].synonyms]
    assert synonyms == [("retention.ms", "90000", 1), ("log.retention.ms", "-1", 5)]
    assert [each.name for each in shown["segment.ms"].synonyms] == ["log.roll.ms"]


def test_synonyms_that_nobody_asked_for_are_an_empty_list_and_texts_are_null(node: BenchNode) -> None:
    asked = DescribeConfigsRequest(
        [DescribeConfigsResource(TOPIC, "t", None), DescribeConfigsResource(BROKER, "1", None)]
    )
    for result in KafkaLine(node).ask(asked, DescribeConfigsResponse, 4).results:
        assert result.configs
        assert all(each.synonyms == [] and each.documentation is None for each in result.configs)


def test_named_configs_come_alone_and_an_empty_list_names_all(node: BenchNode) -> None:
    assert values(describe(node, TOPIC, "t", ["segment.bytes", "no.such"])) == {"segment.bytes": str(1024**3)}
    assert values(describe(node, TOPIC, "t", [])) == values(describe(node, TOPIC, "t"))


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (TOPIC, "none", KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", KafkaError.INVALID_TOPIC),
        (BROKER, "2", KafkaError.INVALID_REQUEST),
        (BROKER, "one", KafkaError.INVALID_REQUEST),
        (8, "1", KafkaError.INVALID_REQUEST),
        (32, "group", KafkaError.INVALID_REQUEST),
    ],
)
def test_a_resource_that_is_not_here_has_an_error_and_no_configs(
    node: BenchNode, kind: int, name: str, expected: KafkaError
) -> None:
    result = describe(node, kind, name)
    assert (result.error_code, result.configs) == (expected, [])
    assert result.error_message


def test_resources_fail_alone(node: BenchNode) -> None:
    resources = [DescribeConfigsResource(TOPIC, name, None) for name in ("none", "t")]
    answer = KafkaLine(node).ask(DescribeConfigsRequest(resources), DescribeConfigsResponse, 1)
    assert [each.error_code for each in answer.results] == [3, 0]


def test_an_answer_has_so_many_resources_and_says_that_of_the_others(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "small", Limits(described_resources=2)) as node:
        resources = [DescribeConfigsResource(BROKER, name, None) for name in ("1", "", "1")]
        answer = KafkaLine(node).ask(DescribeConfigsRequest(resources), DescribeConfigsResponse, 4)
        codes = [(each.resource_name, each.error_code, bool(each.configs)) for each in answer.results]
        assert codes == [("1", 0, True), ("", 0, True), ("1", KafkaError.POLICY_VIOLATION, False)]


def test_topics_of_the_same_settings_and_other_replicas_have_values_of_their_own(node: BenchNode) -> None:
    view = node.controller.view.topic("t")
    assert view is not None
    wide = replace(view, topic_id=9, name="wide", replication_factor=3)
    node.controller.publish(ChangeKind.CREATED, wide)
    names = [DescribeConfigsResource(TOPIC, name, ["min.insync.replicas"]) for name in ("t", "wide")]
    answer = KafkaLine(node).ask(DescribeConfigsRequest(names), DescribeConfigsResponse, 4)
    assert [each.configs[0].value for each in answer.results] == ["1", "2"]


def test_a_broker_shows_what_tools_ask_for(node: BenchNode) -> None:
    own = node.controller.view.brokers[1]
    own.kafka_host, own.kafka_port = "broker-1.example", 9092
    shown = values(describe(node, BROKER, "1"))
    assert shown["advertised.listeners"] == "PLAINTEXT://broker-1.example:9092"
    assert shown["broker.id"] == shown["node.id"] == "1"
    assert shown["log.dirs"] == node.data_folder.path
    assert (shown["num.partitions"], shown["default.replication.factor"]) == ("1", "1")
    assert (shown["auto.create.topics.enable"], shown["log.retention.ms"]) == ("true", "-1")
    assert shown["transaction.max.timeout.ms"] == "900000"
    assert shown["message.max.bytes"] == "1048588"
    assert not {"flush", "log.format", "transcode", ""} & shown.keys()
    assert {"min.insync.replicas", "offsets.retention.minutes"} <= shown.keys()
    assert all(each.read_only for each in describe(node, BROKER, "1").configs)


def test_a_broker_shows_the_settings_of_groups(node: BenchNode) -> None:
    node.broker.groups = GroupSettings(min_session_ms=100)
    configs = {each.name: each for each in describe(node, BROKER, "1").configs}
    shown = {name: each.value for name, each in configs.items() if name.startswith(("group.", "offset"))}
    assert shown == {
        "group.consumer.assignors": "uniform,range",
        "group.consumer.heartbeat.interval.ms": "5000",
        "group.consumer.max.size": "2000",
        "group.consumer.migration.policy": "bidirectional",
        "group.consumer.session.timeout.ms": "45000",
        "group.initial.rebalance.delay.ms": "3000",
        "group.max.session.timeout.ms": "1800000",
        "group.max.size": "2000",
        "group.min.session.timeout.ms": "100",
        "offset.metadata.max.bytes": "4096",
        "offsets.retention.minutes": "10080",
        "offsets.topic.num.partitions": "50",
    }
    assert configs["group.min.session.timeout.ms"].config_source == ConfigSource.BROKER
    assert configs["group.max.size"].config_source == ConfigSource.DEFAULT


def test_what_all_brokers_have_in_common_names_no_broker(node: BenchNode) -> None:
    common, own = values(describe(node, BROKER, "")), values(describe(node, BROKER, "1"))
    assert own.keys() - common.keys() == {
        "advertised.listeners", "broker.id", "broker.rack", "log.dirs", "node.id",
    }  # fmt: skip


def test_the_operators_values_come_from_the_brokers_configuration(node: BenchNode) -> None:
    line = KafkaLine(node, settings=KafkaSettings(auto_create=False, default_partitions=8))
    asked = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", None)])
    (result,) = line.ask(asked, DescribeConfigsResponse, 1).results
    shown = configs(result)
    assert (shown["num.partitions"].value, shown["num.partitions"].config_source) == ("8", 4)
    assert (shown["auto.create.topics.enable"].value, shown["broker.id"].config_source) == ("false", 4)
    assert shown["default.replication.factor"].config_source == 5
