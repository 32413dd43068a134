"""Which controller a broker goes to, and when: the leader that was named, its own, the next in turn."""

import pytest

from tank_node.cluster.controller_choice import BACKOFF_MS, MAX_BACKOFF_MS
from tank_node.cluster.stream import STEADY_MS
from tank_protos.generated import control_pb2 as pb
from tests.support.nodes.stream_node import Node


@pytest.fixture
def node() -> Node:
    return Node()


def test_it_goes_to_the_leader_that_is_named_at_once_and_else_in_turn_later_and_later(node: Node) -> None:
    assert node.stream.target() == "one:1"
    line = node.connect()
    node.hear(not_leader=pb.NotLeader(leader="three:3"))
    assert line.ended
    assert node.stream.target() == "three:3"
    node.stream.closed(None, "can't be reached")
    waits = []
    tried = []
    for _ in range(12):
        began = node.clock.monotonic_ms()
        while (target := node.stream.target()) is None:
            node.clock.pass_ms(1)
        waits.append(node.clock.monotonic_ms() - began)
        tried.append(target)
        node.stream.closed(None, "can't be reached")
    assert set(tried) == {"one:1", "two:2", "three:3"}
    assert waits == sorted(waits)
    assert MAX_BACKOFF_MS // 2 <= waits[-1] <= MAX_BACKOFF_MS


def test_after_a_broken_stream_it_goes_to_the_leader_that_the_next_controller_names_at_once(
    node: Node,
) -> None:
    line = node.register()
    node.stream.closed(line, "it broke")
    node.connect()
    node.hear(not_leader=pb.NotLeader(leader="three:3"))
    assert node.stream.target() == "three:3"


def test_a_stream_that_breaks_is_opened_again_at_once_where_it_was(node: Node) -> None:
    line = node.connect()
    node.hear(not_leader=pb.NotLeader(leader="three:3"))
    line = node.register()
    assert node.stream.target() is None
    node.clock.pass_ms(STEADY_MS)
    node.stream.closed(line, "it broke")
    assert node.stream.target() == "three:3", "it is soon fenced"
    node.stream.closed(None, "it can't be reached")
    assert node.stream.target() is None
    node.clock.pass_ms(2 * BACKOFF_MS)
    assert node.stream.target() in ("one:1", "two:2"), "that one is gone"


def test_a_stream_that_breaks_soon_after_each_registration_is_not_opened_without_end(node: Node) -> None:
    line = node.register()
    node.clock.pass_ms(STEADY_MS - 1)
    node.stream.closed(line, "it broke")
    assert node.stream.target() is None


def test_controllers_that_name_each_other_are_not_asked_without_end(node: Node) -> None:
    node.connect()
    hops = 0
    while node.stream.target() is not None:
        node.connect()
        node.hear(not_leader=pb.NotLeader(leader=f"other:{hops % 2}"))
        hops += 1
        assert hops < 10
