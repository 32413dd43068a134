"""What TANK's own questions hear from a broker of a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    AlteredSetting,
    AlterTopicRequest,
    AlterTopicResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DiscoverTopicsRequest,
    DiscoverTopicsResponse,
    StatusRequest,
    StatusResponse,
    TopicSetting,
)
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell


def test_status_and_topics_say_that_it_is_one(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    status = StatusResponse.decode(client.ask(StatusRequest(1)))
    assert (status.cluster_aware, status.cluster_name, status.live_nodes) == (1, "cell", len(cell.nodes))
    listed = DiscoverTopicsResponse.decode(client.ask(DiscoverTopicsRequest(1)))
    view = cell.nodes[2].controller.view
    assert listed.cluster_aware == 1
    assert {topic.name: topic.replication_factor for topic in listed.topics} == {
        topic.name: topic.replication_factor for topic in view.topics()
    }


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def test_settings_are_read_as_the_original_reads_them(node: BenchNode) -> None:
    def create(name: str, config: bytes) -> int:
        request = CreateTopicRequest(1, name, 1, config)
        return CreateTopicResponse.decode(node.client().ask(request)).error

    assert create("b", b"Log.Retention.Secs=2days\nColour=red\n") == 0
    topic = node.controller.view.topic("b")
    assert topic is not None
    assert topic.settings.retention_ms == 2 * 86_400_000
    assert node.metrics.refused["unknown_setting"] == 1
    assert create("c", b"log.retention.secs=2parsecs") == 4


STRICT = [
    ([("colour", "red")], "setting colour=red: unknown"),
    ([("Flush", "disk")], "did you mean flush"),
    ([("log.retention.secs", "2days")], "write a number with one of the units"),
    ([("log.retention.secs", "1h30min")], "write a number with one of the units"),
    ([("flush", "disk"), ("flush", "replicated")], "'flush' is in the request 2 times"),
]


@pytest.mark.parametrize(("settings", "said"), STRICT)
def test_our_own_messages_take_settings_in_one_way_only(
    node: BenchNode, settings: list[tuple[str, str]], said: str
) -> None:
    named = [TopicSetting(*pair) for pair in settings]
    made = CreateTopicsResponse.decode(node.client().ask(CreateTopicsRequest(0, 1, 0, "new", 1, 0, named, 0)))
    assert made.error == ErrorCode.INVALID_SETTING
    assert said in made.message
    assert node.controller.view.topic("new") is None
    before = node.controller.add("there").settings_text
    altered = [AlteredSetting(*pair) for pair in settings]
    changed = AlterTopicResponse.decode(node.client().ask(AlterTopicRequest(0, 1, "there", 0, altered, 0)))
    assert changed.error == ErrorCode.INVALID_SETTING
    assert said in changed.message
    topic = node.controller.view.topic("there")
    assert topic is not None
    assert topic.settings_text == before
