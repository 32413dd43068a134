"""The whole state on its way into a node's view: part by part, and at one stroke."""

import pytest

from tank_node.cluster import view as cluster_view
from tank_node.cluster.view import TopicView
from tank_protos.generated import control_pb2 as pb
from tests.support.nodes.stream_node import Node, topic


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_whole_state_in_parts_counts_together_and_takes_away_what_is_not_in_it(node: Node) -> None:
    node.register()
    node.view(pb.Delta(index=8, topics=[topic(8, "old")], brokers=[pb.Broker(broker_id=2, epoch=8)]))
    node.stream.closed(node.line, "gone")
    assert node.connect().sent[0].register.view_index == 8
    node.view(pb.Delta(index=20, brokers=[pb.Broker(broker_id=1, epoch=7)]), more=True, whole=True)
    node.view(pb.Delta(index=20, topics=[topic(15, "a")]), more=True, whole=True)
    assert node.stream.view.index == 8
    node.view(pb.Delta(index=20, topics=[topic(16, "b")]), whole=True)
    view = node.stream.view
    assert (view.index, sorted(t.name for t in view.topics()), sorted(view.brokers)) == (20, ["a", "b"], [1])
    assert [c.kind.value for c in node.changes] == ["created", "deleted", "created", "created"]


def test_each_part_of_a_whole_state_is_made_when_it_comes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = cluster_view._topic

    def count(message: pb.Topic) -> TopicView:
        made.append(message.topic_id)
        return make(message)

    monkeypatch.setattr(cluster_view, "_topic", count)
    node.connect()
    for number in (8, 9):
        node.view(pb.Delta(index=20, topics=[topic(number, f"t{number}")]), more=True, whole=True)
        assert made == list(range(8, number + 1)), "the last part's turn is not for all of them"
    node.view(pb.Delta(index=20), whole=True)
    assert len(made) == 2
    assert sorted(each.name for each in node.stream.view.topics()) == ["t8", "t9"]


def test_a_whole_state_of_a_lost_stream_is_not_mixed_with_that_of_the_next(node: Node) -> None:
    node.connect()
    node.view(pb.Delta(index=20, topics=[topic(8, "gone since")]), more=True, whole=True)
    node.stream.closed(node.line, "gone")
    assert not node.stream.updates.is_incomplete, "it may be as large as the view: nothing keeps it"
    node.connect()
    node.view(pb.Delta(index=30, topics=[topic(9, "t")]), whole=True)
    assert [each.name for each in node.stream.view.topics()] == ["t"]


def test_controllers_whose_metadata_went_back_are_not_followed(node: Node) -> None:
    node.register()
    node.view(pb.Delta(index=20, topics=[topic(20, "t")]))
    node.stream.closed(node.line, "gone")
    line = node.connect()
    node.hear(registered=pb.Registered(broker_epoch=7, index=7, peer_key=b"k" * 16))
    node.view(pb.Delta(index=15, brokers=[pb.Broker(broker_id=1, epoch=7)]), whole=True)
    assert "ends at entry 15, and this broker has seen entry 20" in (node.stream.refused or "")
    assert line.ended
    assert node.stream.target() is None
    assert [t.name for t in node.stream.view.topics()] == ["t"], "nothing of two histories is mixed"
