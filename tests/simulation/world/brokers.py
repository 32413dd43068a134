"""A broker in the simulated world: the real folder, logs, partitions, replication and controller session.

Put together as a node's process does it: the folder is opened, what its disk may claim is said at
registration, and the partitions come once the registration is in the view.
"""

import copy
import json
import uuid
from collections.abc import Callable
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.clock import SteadyClock
from tank_node.cluster.registration import Registration
from tank_node.cluster.stream import ControllerStream
from tank_node.cluster.view import KAFKA
from tank_node.coordinators.groups import Groups, random_member_id
from tank_node.coordinators.groups_at_start import GroupsAtStart
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.iggy.settings import IggySettings
from tank_node.limits import Limits
from tank_node.log.log import LogState
from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_node.peers.forwarder import Forwarder
from tank_node.peers.group_router import router_of
from tank_node.peers.replicator import Replicator
from tank_node.segment.errors import DataFolderError
from tank_node.store.data_folder import DataFolder
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import FlushPolicy
from tests.simulation.books.message_books import Key, MessageBooks, Seen
from tests.simulation.world.clocks import ClockError, SimulatedClock
from tests.simulation.world.controllers import Cluster, Controller
from tests.simulation.world.disks import SimulatedDisk
from tests.simulation.world.flushing import SimulatedFlusher
from tests.simulation.world.iggy_services import serve_iggy
from tests.simulation.world.network import End, Network, Stream
from tests.simulation.world.serving import KAFKA_PORT, PORT, Addresses, Server, SimulatedDialer
from tests.simulation.world.world import MS, SECOND, Life, World

FOLDER = "/data"
TICK_US = 25 * MS
LINE_US = 50 * MS
MAINTENANCE_US = SECOND
LIMITS = Limits(scrub_ms=250, scrub_bytes=2048, scrub_turn_bytes=64 << 10)
"""A broker's, but for the steps of its scrub: as many as a broker makes are a third of a story's work. A turn
is as much shorter: behind a read error the scrub pauses for one, and a story must see its end."""
LET_GO_US = 20 * SECOND
"""A broker that stops waits so long for others to take over what it leads."""
GROUPS = GroupSettings(min_session_ms=500, initial_delay_ms=0, topic_partitions=1)
"""Of a broker, unless its story says others."""


class BrokerMachine:
    """One broker id: its machine with the disk, and its process when it runs."""

    def __init__(
        self, cluster: Cluster, network: Network, addresses: Addresses, books: MessageBooks, broker_id: int
    ) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.network = network
        self.addresses = addresses
        self.books = books
        self.broker_id = broker_id
        self.name = f"b{broker_id}"
        self.host = self.name
        """Its address: another machine may have had it before."""
        self.disk = SimulatedDisk()
        self.life: Life | None = None
        self.link: ControllerStream | None = None
        self.broker: Broker | None = None
        self.server: Server | None = None
        self.rack = ""
        self.slow_until = 0
        """Before that its fsyncs take long."""
        self.proposes: Callable[[pb.ChangeInSync], None] = lambda change: None
        """Told of every in-sync set that it is about to propose."""
        self.limits = LIMITS
        self.levels = feature_levels.OWN
        """The feature levels that the version which its next process runs knows."""
        self.forwarding = ForwardingPolicy.NEVER
        self.default_flush: Callable[[], FlushPolicy] = lambda: FlushPolicy.DISK
        """What its next process is configured with."""
        self.groups = GROUPS
        self.new_member_id: Callable[[str], str] = random_member_id
        """Of members of groups, by their clients' names; a story that has groups says another way."""
        self.iggy: IggySettings | None = None
        """What its processes serve Iggy's clients with; None: they don't."""
        self.new_groups: Callable[[Broker, GroupSettings, Callable[[str], str]], Groups] = Groups
        """Makes its groups; a story that has Iggy's clients has them booked."""
        self.on_look: Callable[[BrokerMachine], None] = lambda machine: None
        """Called after each event of its process, when partitions were looked at."""
        self.fsyncs_overlap = False
        """Whether an fsync covers what was written before it was asked for, and no more."""
        self._boot = 0
        """Starts of the machine."""
        self.clock_error = ClockError(self.world.random.choice((0, 0, -3000, 5000)))
        self.earlier: SimulatedDisk | None = None
        """A copy of its disk, made at an end of a process; None: there is none yet."""
        self._stopped: dict[Key, tuple[int, int]] = {}
        """The marks of the process before, when it stopped in order, and the generations of their books."""
        self._seen: dict[Partition, Seen] = {}
        """A replica that was moved away and back is another one."""

    # --- the process ---

    def start(self) -> None:
        """A new process on the disk that is there."""
        assert self.life is None
        if not self.cluster.founded:
            return  # a broker is told the id of its cluster
        self.world.say(self.name, "starts")
        life = self.life = Life(self.name, self._check, self.end)
        self.disk.is_used = lambda: self.world.acting is life
        self.world.guarded(self.life, self._open)

    def break_streams(self, share: float, late_us: int) -> None:
        """It has none but the network's."""

    def end(self, power: bool) -> None:
        """The process is gone; with its machine's power, what was not synced, too."""
        life = self.life
        if life is not None:
            life.alive = False
            self.network.process_ended(life, power=power)
        if self.server is not None and self.addresses.servers.get(self.host) is self.server:
            del self.addresses.servers[self.host]
        self.life = self.link = self.broker = self.server = None
        self._seen = {}
        self.world.say(self.name, "loses power" if power else "is gone")
        if power:
            self.disk.lose_power(self.world.random)
            self._boot += 1
        else:
            self.disk.kill_process()
        self.disk.recover()
        if self.earlier is None:
            self.earlier = copy.deepcopy(self.disk)

    def stop(self) -> None:
        """An orderly stop: what it leads goes to others, then it closes its logs."""
        life, link = self.life, self.link
        if life is None or link is None or self.broker is None:
            return
        deadline = self.world.now + LET_GO_US

        def look() -> None:
            assert link is not None
            if link.may_stop or self.world.now >= deadline:
                self._close()
            else:
                self.world.after(LINE_US, life, look)

        def begin() -> None:
            link.shut_down()
            look()

        self.world.after(0, life, begin)

    def _close(self) -> None:
        """As `tank_node.app.process` ends: no new requests, then the broker closes everything."""
        assert self.broker is not None
        assert self.server is not None
        for line in list(self.server.lines.values()):
            self.server.close(line)
        partitions = list(self.broker.partitions())
        self.broker.close()
        self.disk.recover()
        self._check()  # the last fsync may have committed something
        was_clean = not json.loads(self.disk.content(f"{FOLDER}/meta.json"))["boot_id"]
        for partition in partitions if was_clean else ():
            key = partition.log.topic_id, partition.number
            if partition.log.state is LogState.CLOSED:
                self._stopped[key] = partition.high_water_mark, self.books.of(key).generation
        self.world.counts["brokers stopped in order"] += 1
        self.end(False)

    def empty(self) -> None:
        """An empty disk in the place of its own."""
        if self.life is not None:
            self.end(True)
        self.disk = SimulatedDisk()
        self._stopped = {}

    def put_back(self, earlier: SimulatedDisk) -> None:
        """An earlier state of its disk in its place."""
        assert self.life is None
        self.disk, self.earlier = earlier, None
        self._stopped = {}

    def _open(self) -> None:
        clock = SteadyClock(SimulatedClock(self.world, self.clock_error))  # as a node's process has it
        try:
            folder = DataFolder.open(
                FOLDER,
                self.disk,
                clock,
                cluster_id=min(self.cluster.founded),
                broker_id=self.broker_id,
                new_uuid=lambda: str(uuid.UUID(bytes=self.world.random_bytes(16))),
                boot_id=lambda: f"boot {self._boot}",
            )
            folder.open_found()
        except (DataFolderError, OSError) as error:
            self.world.say(self.name, "can't start: %s", str(error))
            self.end(False)
            return
        claims = folder.claims()
        self.world.say(self.name, "claims: sure %s, damaged %s", claims.tail_sure, claims.damaged)
        default_flush = self.default_flush()
        registration = Registration(
            incarnation=self.world.random_bytes(16),
            disk_uuid=uuid.UUID(claims.disk_uuid).bytes,
            tail_sure=claims.tail_sure,
            host=self.host,
            port=PORT,
            rack=self.rack,
            damaged=lambda: folder.claims().damaged,
            folder_epoch=lambda: folder.meta.broker_epoch,
            levels=self.levels,
            flush_replicated=default_flush is FlushPolicy.REPLICATED,
            endpoints=[pb.Endpoint(name=KAFKA, host=self.host, port=KAFKA_PORT)],
        )
        controllers = [f"{node.name}:1" for node in self.cluster.nodes.values()]
        link = ControllerStream(
            min(self.cluster.founded),
            self.broker_id,
            controllers,
            registration,
            clock,
            self.world.random.randrange,
        )
        self.link = link
        assert self.life is not None
        self.world.every(LINE_US, self.life, lambda: self._keep_line(folder, clock, default_flush))

    def _serve(
        self, folder: DataFolder, link: ControllerStream, clock: SteadyClock, default_flush: FlushPolicy
    ) -> None:
        """The registration is in the view: the partitions are opened, and clients come in."""
        assert self.life is not None
        world = self.world
        world.say(self.name, "is registered with epoch %s", link.broker_epoch)
        flusher = SimulatedFlusher(world, self.life, self.disk, lambda: world.now < self.slow_until)
        flusher.overlaps = self.fsyncs_overlap
        broker = Broker(folder, link, flusher, clock, self.limits, Metrics(), default_flush)
        server = Server(world, self.network, self.name, self.life, broker)
        replicator = Replicator(broker, SimulatedDialer(server, self.addresses))
        broker.roles.pushers = replicator
        broker.forwarding = Forwarder(broker, SimulatedDialer(server, self.addresses), self.forwarding)
        self.broker, self.server = broker, server
        broker.open()
        broker.groups = self.new_groups(broker, self.groups, self.new_member_id)
        GroupsAtStart(broker, lambda: router_of(broker))
        self.addresses.servers[self.host] = server
        if self.iggy is not None:
            serve_iggy(world, self.life, broker, server, self.iggy)
        link.serve()
        world.every(TICK_US, self.life, self._tick)
        world.every(MAINTENANCE_US, self.life, server.maintain)

    def _tick(self) -> None:
        assert self.broker is not None
        assert self.server is not None
        self.server.begin()
        self.broker.roles.pushers.tick()
        self.server.pass_time()

    def _check(self) -> None:
        broker = self.broker
        if broker is None or self.link is None:
            return
        process = self.broker_id, self.link.broker_epoch
        stopped, self._stopped = self._stopped, {}
        for partition in broker.partitions():
            seen = self._seen.get(partition)
            if seen is None:
                seen = self._seen[partition] = Seen()
                key = partition.log.topic_id, partition.number
                mark, generation = stopped.get(key, (0, 0))
                if generation == self.books.of(key).generation:
                    seen.stopped_at = mark
            self.books.look(self.name, process, partition, seen)
        self.on_look(self)

    def replica(self, key: Key) -> Partition | None:
        """One that is open here."""
        return None if self.broker is None else self.broker.partition_by_id(*key)

    # --- the line to the controllers ---

    def _keep_line(self, folder: DataFolder, clock: SteadyClock, default_flush: FlushPolicy) -> None:
        link = self.link
        assert link is not None
        if link.refused is not None:
            self.world.say(self.name, "is refused: %s", link.refused)
            self.end(False)
            return
        if link.broker_epoch and self.broker is None:
            self._serve(folder, link, clock, default_flush)
        link.tick()
        address = link.target()
        if address is None or self.life is None:
            return
        node = next(node for node in self.cluster.nodes.values() if address == f"{node.name}:1")
        near = End(self.name, self.life)
        self.network.connect(near, partial(_end_of, node), partial(self._joined, link, near, node))

    def _joined(self, link: ControllerStream, near: End, node: Controller, stream: Stream | None) -> None:
        if stream is None:
            link.closed(None, "refused")
            return
        if link.target() is None:  # another attempt was faster
            stream.close(near)
            return
        line = NodeLine(stream, near, self.proposes)
        near.received = lambda data: link.received(line, pb.BrokerDown.FromString(_bytes(data)))
        near.broken = lambda: link.closed(line, "broken")
        life = stream.far.life
        self.world.after(0, life, lambda: node.accept(stream, stream.far))
        link.opened(line)


class NodeLine:
    """A broker's end of its stream to a controller."""

    def __init__(self, stream: Stream, end: End, proposes: Callable[[pb.ChangeInSync], None]) -> None:
        self._stream = stream
        self._end = end
        self._proposes = proposes

    def send(self, message: pb.BrokerUp) -> None:
        """`tank_node.cluster.stream.ControllerLine`."""
        if message.proposal.command.HasField("change_in_sync"):
            self._proposes(message.proposal.command.change_in_sync)
        self._stream.send(self._end, message.SerializeToString())

    def end(self) -> None:
        """The same."""
        self._stream.close(self._end)


def _end_of(node: Controller) -> End | None:
    """A controller's end of a new stream; None when nobody listens there."""
    if node.life is None or node.driver is None:
        return None
    return End(node.name, node.life)


def _bytes(data: object) -> bytes:
    assert isinstance(data, bytes)
    return data
