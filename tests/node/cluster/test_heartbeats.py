"""How long no controller that leads was heard: what a broker's metrics say of its line."""

from tank_protos.generated import control_pb2 as pb
from tests.support.nodes.stream_node import Node


def test_it_knows_how_long_no_controller_that_leads_was_heard() -> None:
    node = Node()
    node.clock.pass_ms(1000)
    assert node.stream.silence_ms == 1000
    node.connect()
    node.hear(not_leader=pb.NotLeader(leader=""))
    assert node.stream.silence_ms >= 1000, "one that doesn't lead says nothing that counts"
    node.register()
    assert node.stream.silence_ms == 0
    node.clock.pass_ms(700)
    assert node.stream.silence_ms == 700
    node.view(pb.Delta(index=7))
    assert node.stream.silence_ms == 0
