"""A node's end of its stream to the controllers, with a controller that the test plays."""

from tank_node.cluster.registration import Registration
from tank_node.cluster.stream import ControllerStream
from tank_node.cluster.view import TopicChange
from tank_protos.generated import control_pb2 as pb
from tests.support.manual_clock import ManualClock


class Line:
    """A stream's wire: what the session sent."""

    def __init__(self) -> None:
        self.sent: list[pb.BrokerUp] = []
        self.ended = False

    def send(self, message: pb.BrokerUp) -> None:
        assert not self.ended
        self.sent.append(message)

    def end(self) -> None:
        self.ended = True

    def all(self, kind: str) -> list[pb.BrokerUp]:
        return [message for message in self.sent if message.WhichOneof("message") == kind]


class Node:
    """A stream, and a controller that the test plays."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        registration = Registration(b"i" * 16, b"d" * 16, True, "here", 11011, damaged=lambda: [(5, 0)])
        addresses = ["one:1", "two:2", "three:3"]
        self.stream = ControllerStream("c", 1, addresses, registration, self.clock, lambda below: 0)
        self.registered: list[int] = []
        self.changes: list[TopicChange] = []
        self.stream.on_registered(lambda: self.registered.append(self.stream.broker_epoch))
        self.stream.on_change(self.changes.append)
        self.line = Line()
        self.reached = ""
        """The controller of the last stream."""

    def connect(self) -> Line:
        """A stream to whoever it wants."""
        while (target := self.stream.target()) is None:
            self.clock.pass_ms(10)
        self.reached = target
        self.line = Line()
        self.stream.opened(self.line)
        return self.line

    def hear(self, **message: object) -> None:
        self.stream.received(self.line, pb.BrokerDown(**message))  # type: ignore[arg-type]

    def register(self, epoch: int = 7, index: int = 7) -> Line:
        """A stream on which the controller has taken it, with a view that has reached that."""
        line = self.connect()
        self.hear(registered=pb.Registered(broker_epoch=epoch, index=index, peer_key=b"k" * 16))
        self.view(pb.Delta(index=index, brokers=[pb.Broker(broker_id=1, epoch=epoch)]), whole=True)
        return line

    def view(self, delta: pb.Delta, *, more: bool = False, whole: bool = False) -> None:
        self.hear(view=pb.ViewUpdate(delta=delta, more=more, whole=whole))


def topic(number: int, name: str) -> pb.Topic:
    partition = pb.Partition(replicas=[1], in_sync=[1], leader=1, leader_epoch=1, partition_epoch=1)
    return pb.Topic(topic_id=number, name=name, replication_factor=1, partitions=[partition])
