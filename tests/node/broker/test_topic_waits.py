"""Requests that wait for topics: what ends them, and what they are told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.broker.topic_waits import TopicWait
from tank_node.cluster.view import NO_LEADER, ChangeKind, PartitionView, TopicView
from tank_protos.topic_settings import TopicSettings
from tests.support.nodes.bench_node import BenchNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def begin(node: BenchNode, *names: str) -> tuple[TopicWait, list[set[str]]]:
    """A wait of 1 s until these topics exist and are led, and what it is told at its end."""
    ended: list[set[str]] = []

    def is_led(name: str) -> bool:
        topic = node.controller.view.topic(name)
        return topic is not None and all(placed.leader != NO_LEADER for placed in topic.partitions)

    return node.broker.topic_waits.begin(names, is_led, ended.append, 1000, None), ended


def test_a_wait_ends_when_the_last_topic_is_there(node: BenchNode) -> None:
    _, ended = begin(node, "a", "b")
    node.controller.add("other")
    node.controller.add("b")
    assert not ended
    node.controller.add("a")
    assert ended == [set()]
    assert node.broker.deadlines.entries == node.metrics.waiting == 0
    node.pass_ms(2000)
    assert ended == [set()]


def test_at_the_deadline_it_is_told_what_is_missing(node: BenchNode) -> None:
    _, ended = begin(node, "a", "b")
    node.controller.add("b")
    node.pass_ms(1000)
    assert not ended
    node.pass_ms(1)
    assert ended == [{"a"}]
    node.controller.add("a")
    assert ended == [{"a"}]


def test_a_topic_is_looked_at_whenever_it_changes(node: BenchNode) -> None:
    _, ended = begin(node, "a")
    unled = TopicView(9, "a", 1, TopicSettings(), {}, [PartitionView(0, NO_LEADER, 1, 1, (2,), (2,))])
    node.controller.publish(ChangeKind.CREATED, unled)
    assert not ended
    led = TopicView(9, "a", 1, TopicSettings(), {}, [PartitionView(0, 2, 2, 2, (2,), (2,))])
    node.controller.publish(ChangeKind.ALTERED, led)
    assert ended == [set()]


def test_a_wait_that_was_ended_hears_nothing_more(node: BenchNode) -> None:
    wait, ended = begin(node, "a", "b")
    node.broker.topic_waits.end(wait)
    node.controller.add("a")
    node.controller.add("b")
    node.pass_ms(2000)
    assert not ended
    assert node.broker.deadlines.entries == 0


def test_a_wait_without_time_ends_soon_and_not_in_the_call_that_begins_it(node: BenchNode) -> None:
    ended: list[set[str]] = []
    node.broker.begin_tick()
    node.broker.topic_waits.begin(["a"], lambda name: False, ended.append, -5, None)
    assert not ended
    node.pass_ms(1)
    assert ended == [{"a"}]


def test_a_wait_whose_request_fails_does_not_stop_the_others(node: BenchNode) -> None:
    def fail(missing: set[str]) -> None:
        raise RuntimeError("a handler with a bug")

    node.broker.topic_waits.begin(["a"], lambda name: True, fail, 1000, None)
    _, ended = begin(node, "a")
    node.controller.add("a")
    assert ended == [set()]
