"""Which brokers count as lost, from the connections with them that open and end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.broker.lost_brokers import LostBrokers
from tank_node.limits import Limits
from tests.support.nodes.bench_node import BenchNode

LIMIT_MS = Limits().lost_leader_wait_ms


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.broker.begin_tick()
        yield node


@pytest.fixture
def lost(node: BenchNode) -> LostBrokers:
    return node.broker.lost_brokers


def test_a_broker_is_lost_when_its_last_connection_has_ended(lost: LostBrokers) -> None:
    lost.opened(2)
    lost.opened(2)
    lost.ended(2)
    assert 2 not in lost
    assert not lost
    lost.ended(2)
    assert 2 in lost
    assert lost
    assert 3 not in lost


def test_it_counts_as_lost_for_a_limited_time(node: BenchNode, lost: LostBrokers) -> None:
    lost.opened(2)
    lost.ended(2)
    assert lost.left_ms(2) == LIMIT_MS
    node.pass_ms(LIMIT_MS - 1)
    assert 2 in lost
    node.pass_ms(1)
    assert 2 not in lost
    assert not lost


def test_a_broker_that_connects_again_is_not_lost(lost: LostBrokers) -> None:
    lost.opened(2)
    lost.ended(2)
    lost.opened(2)
    assert 2 not in lost
    assert not lost


def test_waits_look_again_when_a_lost_broker_is_back(node: BenchNode, lost: LostBrokers) -> None:
    ended: list[set[str]] = []
    lost.opened(2)
    lost.ended(2)
    node.broker.topic_waits.begin(["a"], lambda name: 2 not in lost, ended.append, LIMIT_MS, None)
    node.broker.topic_waits.begin(["b"], lambda name: False, ended.append, LIMIT_MS, None)
    lost.opened(3)
    assert not ended
    lost.opened(2)
    assert ended == [set()]


def test_a_broker_that_was_never_connected_is_not_lost(lost: LostBrokers) -> None:
    assert 2 not in lost
    assert lost.left_ms(2) <= 0
