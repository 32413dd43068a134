"""Several brokers in one process, joined by pipes in memory, under a controller that the test plays.

Nothing moves unless told: `run` lets a time pass in steps, in which bytes travel, disks sync and timers fire.
"""

from collections.abc import Callable
from pathlib import Path

from tank_node.broker.broker import Broker
from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.broker.maintenance import Maintenance
from tank_node.cluster.view import BrokerView, ChangeKind, ClusterView, PartitionView, TopicView
from tank_node.dialer import Dialer
from tank_node.disk import OsDisk
from tank_node.limits import Limits
from tank_node.log.log import PartitionLog
from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.peers.forwarder import Forwarder
from tank_node.peers.replicator import Replicator
from tank_node.segment.segment import FileRange
from tank_node.session import Session
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_node.tank.dispatch import open_session
from tank_node.tank.errors import error_code
from tank_protos import topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.wire.errors import WireError
from tests.support.controllers.instant_controller import InstantController
from tests.support.controllers.shown_topics import show
from tests.support.manual_clock import ManualClock
from tests.support.nodes.bench_node import BenchClient, BenchNode

TOPIC = "a"


class PipeEnd:
    """One end of a connection."""

    def __init__(self, node: "CellNode", session: Session) -> None:
        self.node = node
        self.other: PipeEnd | None = None
        self.received = bytearray()
        self.closed = False
        self.attach(session)

    def attach(self, session: Session) -> None:
        before = getattr(self, "session", None)
        self.session = session
        session.become = self.attach
        session.hang_up = lambda reason: self.close()
        if before is not None:
            session.out = before.out + session.out
            before.out = []
            before.close()

    def send(self) -> None:
        """What the session has queued arrives at the other end."""
        out, self.session.out = self.session.out, []
        self.session.out_bytes = 0
        self.session.has_chunks = False
        for part in out:
            if isinstance(part, FileRange):
                data = self.node.data_folder.disk.read_at(part.file.fd, part.length, part.position)
                part.file.release()
            else:
                data = bytes(part)
            if self.other is not None and not self.other.closed:
                self.other.received += data

    def receive(self) -> None:
        if not self.received or self.closed:
            return
        buffer = bytearray(self.received)
        self.node.broker.begin_tick()
        try:
            rest = self.session.receive(buffer, memoryview(buffer), 0, len(buffer))
        except WireError as error:
            self.node.refused.append(error)
            self.close()
            return
        self.node.broker.end_tick()
        del self.received[:rest]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.session.close()
            if self.other is not None:
                self.other.close()


class PipeDialer(Dialer):
    def __init__(self, node: "CellNode") -> None:
        self._node = node

    def dial(self, host: str, port: int, session: Session) -> None:
        cell, own = self._node.cell, self._node.broker_id
        other = cell.nodes.get(port)
        if other is None or (own, port) in cell.cut:
            session.close()
            return
        near, far = PipeEnd(self._node, session), PipeEnd(other, open_session(other.broker))
        near.other, far.other = far, near
        far.session.opened()
        cell.pipes.append((own, port, near, far))

    def hang_up(self, session: Session) -> None:
        for _, _, near, _ in self._node.cell.pipes:
            if near.session is session:
                near.close()
                return
        session.close()


class CellNode(BenchNode):
    """A broker of the cell. `controller` is its line to the test."""

    def __init__(self, cell: "BrokerCell", broker_id: int, folder: Path, epoch: int) -> None:
        self.cell = cell
        self.broker_id = broker_id
        self.refused: list[WireError] = []
        self.clock = cell.clock
        self.controller = InstantController()
        self.controller.view = ClusterView("cell", broker_id, index=epoch)
        self.controller.broker_epoch = epoch
        self.metrics = Metrics()
        self.posted: list[object] = []
        disk = OsDisk()
        self.data_folder = DataFolder.open(str(folder), disk, self.clock)
        self.flusher = Flusher(disk, self.posted.append)
        self.broker = Broker(
            self.data_folder, self.controller, self.flusher, self.clock, cell.limits, self.metrics
        )
        self.maintenance = Maintenance(self.broker)
        self.broker.roles.pushers = Replicator(self.broker, PipeDialer(self))
        self.broker.forwarding = Forwarder(self.broker, PipeDialer(self), cell.forwarding)

    def partition(self, topic: str = TOPIC, number: int = 0) -> Partition:
        return self.broker.topics[topic].partitions[number]

    def log(self, topic: str = TOPIC, number: int = 0) -> PartitionLog:
        return self.partition(topic, number).log

    def client(self, reached_at: str = "127.0.0.1") -> BenchClient:
        """Somebody who reached this broker at that address."""
        client = BenchClient(self)
        client.session.reached_at = lambda: reached_at
        return client


class BrokerCell:
    """Brokers 1 to `brokers`, one clock, and what the controller says of topic "a"."""

    def __init__(
        self,
        folder: Path,
        brokers: int = 2,
        limits: Limits | None = None,
        forwarding: ForwardingPolicy = ForwardingPolicy.NEVER,
    ) -> None:
        self.folder = folder
        self.forwarding = forwarding
        self.limits = limits or Limits()
        self.clock = ManualClock()
        self.nodes: dict[int, CellNode] = {}
        self.pipes: list[tuple[int, int, PipeEnd, PipeEnd]] = []
        self.cut: set[tuple[int, int]] = set()
        self.topics: dict[str, TopicView] = {}
        self._epochs = 100
        self.judge: Callable[[CellNode], None] = self.accept
        """What the controller does with proposals."""
        for broker_id in range(1, brokers + 1):
            self.start(broker_id)

    # --- brokers ---------------------------------------------------------------------------------

    def start(self, broker_id: int) -> CellNode:
        """A process of this broker starts and registers."""
        self._epochs += 1
        node = CellNode(self, broker_id, self.folder / f"broker-{broker_id}", self._epochs)
        self.nodes[broker_id] = node
        for one in self.nodes.values():
            for other in self.nodes.values():
                epoch = other.controller.broker_epoch
                one.controller.view.brokers[other.broker_id] = BrokerView(
                    other.broker_id,
                    epoch,
                    "127.0.0.1",
                    other.broker_id,
                    "",
                    kafka_host="127.0.0.1",
                    kafka_port=9000 + other.broker_id,
                )
            for listener in one.controller.tell_brokers:
                listener()
        show(node.controller.view, *self.topics.values())
        node.data_folder.open_found()  # as a broker of a cluster does before it registers
        node.broker.open()
        return node

    def stop(self, broker_id: int) -> None:
        """The process ends, in order."""
        node = self.nodes.pop(broker_id)
        for pipe in [pipe for pipe in self.pipes if broker_id in pipe[:2]]:
            pipe[2].close()
            self.pipes.remove(pipe)
        node.sync()
        node.broker.close()

    def disconnect(self, one: int, other: int) -> None:
        """No connection between them, until `connect`."""
        self.cut |= {(one, other), (other, one)}
        for pipe in [pipe for pipe in self.pipes if {one, other} == set(pipe[:2])]:
            pipe[2].close()
            self.pipes.remove(pipe)

    def connect(self, one: int, other: int) -> None:
        self.cut -= {(one, other), (other, one)}

    def close(self) -> None:
        for broker_id in list(self.nodes):
            self.stop(broker_id)

    # --- the controller --------------------------------------------------------------------------

    def create(
        self, name: str = TOPIC, partitions: int = 1, leader: int = 1, min_insync: int = 1, **settings: str
    ) -> None:
        """A topic on all brokers, all in sync."""
        pairs = {key.replace("_", "."): value for key, value in settings.items()}
        pairs["min.insync.replicas"] = str(min_insync)
        brokers = tuple(sorted(self.nodes))
        topic_id = 10 + len(self.topics)
        placed = [PartitionView(n, leader, 1, 1, brokers, brokers) for n in range(partitions)]
        parsed = topic_settings.from_pairs(pairs)
        self.publish(TopicView(topic_id, name, len(brokers), parsed, pairs, placed))

    def publish(self, topic: TopicView, brokers: tuple[int, ...] = ()) -> None:
        """The view of these brokers, or of all, has it now."""
        known = topic.name in self.topics
        self.topics[topic.name] = topic
        for broker_id in brokers or tuple(self.nodes):
            node = self.nodes[broker_id]
            kind = ChangeKind.ALTERED if known else ChangeKind.CREATED
            node.controller.publish(kind, topic)

    def change(
        self,
        number: int = 0,
        topic: str = TOPIC,
        brokers: tuple[int, ...] = (),
        **fields: object,
    ) -> PartitionView:
        """The controller changes a partition: epochs rise as they must."""
        old = self.topics[topic]
        before = old.partitions[number]
        values = {name: getattr(before, name) for name in before.__slots__}
        values |= {"partition_epoch": before.partition_epoch + 1} | fields
        if values["leader"] != before.leader and "leader_epoch" not in fields:
            values["leader_epoch"] = before.leader_epoch + 1
        placed = PartitionView(**values)
        partitions = [*old.partitions[:number], placed, *old.partitions[number + 1 :]]
        self.publish(
            TopicView(
                old.topic_id, old.name, old.replication_factor, old.settings, old.settings_text, partitions
            ),
            brokers,
        )
        return placed

    def accept(self, node: CellNode) -> None:
        """Judges what this broker proposes, as the controller's compare-and-set does."""
        proposed, node.controller.proposed = node.controller.proposed, []
        for change, _ in proposed:
            for name, topic in list(self.topics.items()):
                if topic.topic_id != change.topic_id:
                    continue
                placed = topic.partitions[change.partition]
                now = (placed.leader, placed.leader_epoch, placed.partition_epoch)
                if now == (node.broker_id, change.leader_epoch, change.partition_epoch):
                    members = tuple(sorted(broker_id for broker_id, _ in change.in_sync))
                    self.change(change.partition, name, in_sync=members)

    # --- time ------------------------------------------------------------------------------------

    def step(self) -> None:
        """Bytes travel once, disks sync, timers fire; no time passes."""
        for node in self.nodes.values():
            node.broker.begin_tick()
            node.broker.end_tick()
            node.sync()
            node.broker.begin_tick()
            node.broker.roles.pushers.tick()
            node.broker.forwarding.tick()
            node.broker.deadlines.expire()
            self.judge(node)
        for pipe in list(self.pipes):
            _, _, near, far = pipe
            near.send()
            far.send()
            far.receive()
            near.receive()
            if near.closed:
                self.pipes.remove(pipe)

    def run(self, ms: int = 600, step_ms: int = 50) -> None:
        """Lets so much time pass."""
        for _ in range(0, ms, step_ms):
            self.step()
            self.clock.pass_ms(step_ms)


class Told:
    """A producer that remembers what it was told."""

    def __init__(self) -> None:
        self.told: dict[int, tuple[ErrorCode, int, int]] = {}

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        assert token not in self.told
        self.told[token] = error_code(refusal), first, last
