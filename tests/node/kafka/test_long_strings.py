"""Strings of a request as long as the protocol allows: answers repeat some of them, also in sentences, where
there is no room for more."""

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tank_node.kafka.dispatch import APIS
from tank_protos.generated.kafka import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ProduceRequest,
)
from tank_protos.generated.kafka import incremental_alter_configs_request as incremental
from tank_protos.generated.kafka.alter_configs_request import (
    AlterableConfig,
    AlterableConfigCollection,
    AlterConfigsResource,
    AlterConfigsResourceCollection,
)
from tank_protos.generated.kafka.by_id import REQUESTS
from tank_protos.generated.kafka.create_topics_request import (
    CreatableTopic,
    CreatableTopicCollection,
    CreatableTopicConfig,
    CreatableTopicConfigCollection,
)
from tank_protos.generated.kafka.describe_user_scram_credentials_request import UserName
from tank_protos.wire.errors import UnsupportedVersion
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

LONGEST = 32_767
TOPIC = 2
"""The type of a resource."""
SET = 0
"""What is done with a config."""
INVALID_CONFIG = 40
SASL_AUTHENTICATE = 36
"""Closes the connection whatever is sent, because no mechanism was chosen."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", flush="replicated")
        yield node


def filled(kind: Any, text: str, version: int) -> Any:
    """A struct with this text in all its strings, and one element in each of its lists, as far as the version
    has them."""
    made = kind()
    hints = get_type_hints(kind, vars(sys.modules[kind.__module__]))
    for field in fields(kind):
        before = getattr(made, field.name)
        setattr(made, field.name, _value(hints[field.name], text, version, before))
        if kind in REQUESTS.values() and not _fits(made, version):
            setattr(made, field.name, before)
    return made


def _fits(request: Any, version: int) -> bool:
    try:
        request.encode(version)
    except UnsupportedVersion:
        return False
    return True


def _value(hint: Any, text: str, version: int, default: Any) -> Any:
    for part in (hint, *get_args(hint)):
        origin = getattr(part, "__origin__", part)
        if part is str:
            return text
        if origin is list:
            (element,) = get_args(part)
            return (
                [text]
                if element is str
                else [filled(element, text, version)]
                if is_dataclass(element)
                else [0]
            )
        if isinstance(origin, type) and issubclass(origin, list):
            (base,) = part.__orig_bases__
            return part([filled(get_args(base)[0], text, version)])
    return default


@pytest.mark.parametrize("text", ["x" * LONGEST, "\udcff" * LONGEST, "é" * (LONGEST // 2), "'" * LONGEST])
@pytest.mark.parametrize("key", [key for key in APIS if key != SASL_AUTHENTICATE])
def test_every_request_with_long_strings_is_answered(node: BenchNode, key: int, text: str) -> None:
    lowest, highest = REQUESTS[key].VERSIONS
    for version in {lowest, (lowest + highest) // 2, highest}:
        request = filled(REQUESTS[key], text, version)
        if isinstance(request, ProduceRequest):
            request.acks = 1
        line = KafkaLine(node)
        line.send(request, version)
        node.pass_ms(10_000)
        assert len(line.frames()) == 1


@pytest.mark.parametrize("text", ["x" * LONGEST, "\udcff" * LONGEST])
def test_settings_with_long_names_and_values_are_refused(node: BenchNode, text: str) -> None:
    line = KafkaLine(node)
    for name in (text, "retention.ms", "cleanup.policy", "message.timestamp.type"):
        created = CreateTopicsRequest(
            CreatableTopicCollection(
                [
                    CreatableTopic(
                        "b", 1, 1, configs=CreatableTopicConfigCollection([CreatableTopicConfig(name, text)])
                    )
                ]
            )
        )
        (refused,) = line.ask(created, CreateTopicsResponse, 7).topics
        assert refused.error_code == INVALID_CONFIG
        assert refused.error_message
        whole = AlterConfigsRequest(
            AlterConfigsResourceCollection(
                [AlterConfigsResource(TOPIC, "a", AlterableConfigCollection([AlterableConfig(name, text)]))]
            )
        )
        (altered,) = line.ask(whole, AlterConfigsResponse, 2).responses
        assert altered.error_code == INVALID_CONFIG
        config = incremental.AlterableConfig(name, SET, text)
        resource = incremental.AlterConfigsResource(
            TOPIC, "a", incremental.AlterableConfigCollection([config])
        )
        part = IncrementalAlterConfigsRequest(incremental.AlterConfigsResourceCollection([resource]))
        (changed,) = line.ask(part, IncrementalAlterConfigsResponse, 1).responses
        assert changed.error_code == INVALID_CONFIG


def test_a_user_of_any_name_is_unknown(node: BenchNode) -> None:
    for name in ("me", "x" * LONGEST):
        request = DescribeUserScramCredentialsRequest([UserName(name)])
        answer = KafkaLine(node).ask(request, DescribeUserScramCredentialsResponse, 0)
        assert [(result.user, result.error_code) for result in answer.results] == [(name, 91)]
        assert name[:50] in (answer.results[0].error_message or "")
