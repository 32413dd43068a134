"""What TANK's own questions hear from a broker of a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.tank import (
    CreateTopicRequest,
    CreateTopicResponse,
    DiscoverTopicsRequest,
    DiscoverTopicsResponse,
    StatusRequest,
    StatusResponse,
)
from tests.support.bench_node import BenchNode
from tests.support.broker_cell import BrokerCell


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
