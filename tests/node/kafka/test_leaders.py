"""The leader of a partition, and the address of a broker for one client."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.view import BrokerView, ChangeKind, PartitionView
from tank_node.kafka.leaders import endpoint_of, leader_of
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def test_a_partitions_leader_comes_with_its_epoch(node: BenchNode) -> None:
    topic = node.controller.add("one", 2)
    assert leader_of(node.controller.view, topic, 1) == (1, 1)


def test_without_a_leader_the_epoch_is_known_still(node: BenchNode) -> None:
    topic = node.controller.add("one")
    leaderless = replace(topic, partitions=[PartitionView(0, 0, 7, 3, (1, 2), (2,))])
    node.controller.publish(ChangeKind.ALTERED, leaderless)
    assert leader_of(node.controller.view, topic, 0) == (-1, 7)


def test_of_what_does_not_exist_leader_and_epoch_are_unknown(node: BenchNode) -> None:
    topic = node.controller.add("one")
    assert leader_of(node.controller.view, topic, 1) == (-1, -1)
    assert leader_of(node.controller.view, topic, -1) == (-1, -1)
    node.controller.publish(ChangeKind.DELETED, topic)
    assert leader_of(node.controller.view, topic, 0) == (-1, -1)


def test_a_client_gets_the_address_of_its_side(node: BenchNode) -> None:
    brokers = node.controller.view.brokers
    brokers[2] = BrokerView(
        2, 1, "b2", 11011, "", False, False, False, "o2", 31011, "k2", 9092, "out.test", 31092
    )
    brokers[3] = BrokerView(3, 1, "b3", 11011, "", False, False, False, "o3", 31011, "k3", 9092)
    inside, outside = KafkaLine(node).session, KafkaLine(node, is_outside=True).session
    assert [endpoint_of(inside, 2), endpoint_of(outside, 2)] == [("k2", 9092), ("out.test", 31092)]
    assert [endpoint_of(inside, 3), endpoint_of(outside, 3)] == [("k3", 9092), ("k3", 9092)]


def test_brokers_without_the_port_or_fenced_or_gone_have_no_address(node: BenchNode) -> None:
    brokers = node.controller.view.brokers
    brokers[2] = BrokerView(2, 1, "b2", 11011, "")
    brokers[3] = BrokerView(3, 1, "b3", 11011, "", fenced=True, kafka_host="k3", kafka_port=9092)
    session = KafkaLine(node).session
    assert [endpoint_of(session, number) for number in (2, 3, 4)] == [None, None, None]
