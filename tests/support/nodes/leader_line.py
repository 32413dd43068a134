"""A leader's connection to one node, played by a test, and what it pushes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tank_node.cluster.view import BrokerView, ChangeKind, PartitionView, TopicView
from tank_node.disk import Disk
from tank_node.peers.inbound import FollowerSession
from tank_node.purpose import Purpose
from tank_node.session import Session
from tank_protos import topic_settings
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProduceWithBaseSeqNumRequest,
    PushAnswer,
    PushedPartition,
    ReplicaIdRequest,
)
from tank_protos.storage.stretch import PUSH_VERSION, Stretch
from tank_protos.wire.framing import FrameReader, frame
from tank_protos.wire.message import Message
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.replicas import stretch_of
from tests.support.storage.logs import Folder, append

OWN, LEADER, OTHER = 1, 2, 3
LEADER_EPOCH = 40
"""The broker epoch of the leader's process."""
KEY = bytes(range(16))


class Line:
    """A leader's connection to the node, played by the test."""

    def __init__(self, node: BenchNode) -> None:
        self.node = node
        self.closed = ""
        self._frames = FrameReader()
        self._received = bytearray()
        self.client = node.client()
        self.session: Session = self.client.session
        self._attach(self.session)

    def _attach(self, session: Session) -> None:
        session.become = self._attach
        session.hang_up = self._hang_up
        self.session = session

    def _hang_up(self, reason: str) -> None:
        self.closed = reason
        self.session.close()

    def send(self, message: Message) -> list[Message]:
        """Sends a frame, and gives what was answered."""
        return self.feed(b"".join(frame(message.ID, message.encode())))

    def feed(self, data: bytes) -> list[Message]:
        self._received += data
        self.node.broker.begin_tick()
        buffer = bytearray(self._received)
        end = self.session.receive(buffer, memoryview(buffer), 0, len(buffer))
        self.node.broker.end_tick()
        del self._received[:end]
        return self.answers()

    def answers(self) -> list[Message]:
        out, self.session.out = self.session.out, []
        self.session.out_bytes = 0
        kinds: dict[int, type[Message]] = {1: PushAnswer, 4: ReplicaIdRequest}
        joined = b"".join(part for part in out if isinstance(part, bytes))
        return [kinds[message_id].decode(payload) for message_id, payload in self._frames.feed(joined)]


def opening(**changes: object) -> ReplicaIdRequest:
    fields: dict[str, object] = {
        "replica_id": LEADER,
        "cluster_id": "test-cluster",
        "broker_epoch": LEADER_EPOCH,
        "meant_broker": OWN,
        "purpose": Purpose.LIVE,
        "key": KEY,
    }
    return ReplicaIdRequest(**(fields | changes))  # type: ignore[arg-type]


def place(node: BenchNode, name: str, topic_id: int, **changes: object) -> None:
    """The view has this topic, led by broker 2, with all in sync but us."""
    fields: dict[str, object] = {
        "leader": LEADER,
        "leader_epoch": 5,
        "in_sync": (LEADER, OTHER),
        "replicas": (OWN, LEADER, OTHER),
    }
    fields |= changes
    placed = PartitionView(
        partition=0,
        partition_epoch=1,
        **fields,  # type: ignore[arg-type]
    )
    topic = TopicView(topic_id, name, 3, topic_settings.from_pairs({}), {}, [placed])
    node.controller.publish(ChangeKind.ALTERED, topic)


@contextmanager
def following(folder: Path, disk: Disk | None = None) -> Iterator[BenchNode]:
    """A node that is registered, and follows broker 2 in partition 0 of topic a, whose id is 10."""
    with BenchNode(folder, disk=disk) as node:
        view = node.controller.view
        node.controller.peer_key = KEY
        node.controller.broker_epoch = 30
        view.index = 50
        view.brokers[LEADER] = BrokerView(LEADER, LEADER_EPOCH, "127.0.0.1", 11012, "")
        place(node, "a", 10)
        yield node


def opened(node: BenchNode, **changes: object) -> Line:
    line = Line(node)
    line.send(opening(**changes))
    assert isinstance(line.session, FollowerSession)
    return line


def leader_log(count: int = 3, epoch: int = 5) -> Folder:
    folder = Folder()
    for number in range(count):
        append(folder.log(), b"value-%d" % number, epoch=epoch)
    return folder


def push_of(
    request_id: int,
    *stretches: tuple[int, Stretch],
    version: int = PUSH_VERSION,
    topic: str = "a",
    number: int = 0,
) -> Message:
    """A push of (start, stretch) of a partition."""
    entries = []
    for start, stretch in stretches:
        content = b"".join(stretch.encode(number, start))
        entries.append(ProduceBasePartition(number, len(content), start, content))
    topics = [ProduceBaseTopic(topic, entries)] if entries else []
    return ProduceWithBaseSeqNumRequest(version, request_id, "", 0, 0, topics)


def all_of(
    folder: Folder, start: int = 1, mark: int = 0, epoch: int = 5, topic_id: int = 10
) -> tuple[int, Stretch]:
    pushed = stretch_of(folder.log(), start, epoch=epoch)
    return start, Stretch(topic_id, epoch, pushed.previous_epoch, mark, 1, pushed.records, pushed.batches)


def the_answer(answers: list[Message]) -> PushedPartition:
    [answer] = answers
    assert isinstance(answer, PushAnswer)
    [told] = answer.partitions
    return told
