"""A broker's side of its connections, in virtual time: what `tank_node.server.server` does with sockets.

Received bytes go to the session, the broker's tick ends, and the answers are sent.
"""

from dataclasses import dataclass
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.broker.maintenance import Maintenance
from tank_node.dialer import Dialer
from tank_node.iggy.dispatch import open_session as open_iggy
from tank_node.iggy.services import IggyServices
from tank_node.kafka.dispatch import open_session as open_kafka
from tank_node.kafka.settings import KafkaSettings
from tank_node.segment.segment import FileRange
from tank_node.session import Session
from tank_node.tank.dispatch import open_session
from tank_protos.wire.errors import WireError
from tests.simulation.world.iggy_meant import IggyAsked, meant_by
from tests.simulation.world.network import End, Frames, Network, Stream
from tests.simulation.world.world import Life, World

PORT = 11011
KAFKA_PORT = 9092
IGGY_PORT = 8090
_KAFKA = KafkaSettings(auto_create=False)
"""A client of old that asks for a topic while it is made again would make one without its settings."""


@dataclass(slots=True, frozen=True)
class Asked:
    """A client's request, as the books know it by what the answer is compared with."""

    request_id: int
    topic: str
    in_partition: int


class Line:
    """One connection of a broker, with the session that talks over it."""

    __slots__ = ("closed", "end", "pending", "session", "stream")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.stream: Stream | None = None
        """None: it is being made."""
        self.end: End | None = None
        self.pending = b""
        """What is no whole frame yet, or waits until the session has room."""
        self.closed = False


class Server:
    """All connections of one broker's process."""

    def __init__(self, world: World, network: Network, machine: str, life: Life, broker: Broker) -> None:
        self.world = world
        self.network = network
        self.machine = machine
        self.life = life
        self.broker = broker
        self.maintenance = Maintenance(broker)
        self.lines: dict[int, Line] = {}
        """In the order in which they were opened."""
        self._numbers = 0
        self._dirty: list[Line] = []
        self._in_tick = False
        self._posted = False
        self.iggy: IggyServices | None = None
        """What sessions with Iggy's clients share; None: there are none in this story."""
        broker.wake = self._wake

    # --- connections ---

    def accept(self, stream: Stream, end: End, port: int) -> None:
        """Somebody has connected to this port."""
        line = self._add(self._session(port))
        self.join(line, stream, end)
        line.session.opened()

    def _session(self, port: int) -> Session:
        if port == KAFKA_PORT:
            return open_kafka(self.broker, settings=_KAFKA)
        if port == IGGY_PORT:
            assert self.iggy is not None
            return open_iggy(self.broker, self.iggy)
        return open_session(self.broker)

    def _add(self, session: Session) -> Line:
        line = Line(session)
        self._numbers += 1
        self.lines[self._numbers] = line
        self._attach(line, session)
        return line

    def dial(self, session: Session) -> Line:
        """A connection of the broker's own that is being made."""
        return self._add(session)

    def join(self, line: Line, stream: Stream, end: End) -> None:
        """The connection is there."""
        line.stream, line.end = stream, end
        end.received = partial(self._received, line)
        end.broken = lambda: self.close(line)
        if line.session.out:
            self._ready(line)

    def _attach(self, line: Line, session: Session) -> None:
        session.ready = partial(self._ready, line)
        session.become = partial(self._attach, line)
        session.hang_up = partial(self._hang_up, line)
        before, line.session = line.session, session
        if session is not before:
            had_some = bool(before.out)
            session.out = before.out + session.out
            session.out_bytes += before.out_bytes
            before.out = []
            before.close()
            if session.out and not had_some:
                self._ready(line)

    def _hang_up(self, line: Line, reason: str) -> None:
        """Its session ends it."""
        self.world.counts[f"connections {reason}"] += 1
        self.close(line)

    def close(self, line: Line) -> None:
        """Ends a connection."""
        if line.closed:
            return
        line.closed = True
        for number, other in self.lines.items():
            if other is line:
                del self.lines[number]
                break
        if line.stream is not None and line.end is not None:
            line.stream.close(line.end)
        line.session.close()
        for output in line.session.out:
            if isinstance(output, FileRange):
                output.file.release()
        line.session.out = []

    # --- ticks ---

    def _received(self, line: Line, data: object) -> None:
        assert isinstance(data, bytes)
        assert line.stream is not None
        for asked in data.notes if isinstance(data, Frames) else ():
            if isinstance(asked, IggyAsked):
                asked.told(meant_by(self.broker, asked))
                continue
            assert isinstance(asked, Asked)
            line.stream.used[asked.request_id] = self._used(asked)
        self.begin()
        self._take(line, line.pending + data)
        self.finish()

    def _used(self, asked: Asked) -> tuple[int, int]:
        """The id that the topic's name has here now, and the leader epoch of the partition; 0: none."""
        topic = self.broker.topics.get(asked.topic)
        if topic is None:
            return 0, 0
        partition = topic.partitions.get(asked.in_partition)
        return topic.view.topic_id, 0 if partition is None else partition.leader_epoch

    def _take(self, line: Line, data: bytes) -> None:
        arena = bytearray(data)
        line.pending = b""
        try:
            rest = line.session.receive(arena, memoryview(arena), 0, len(arena))
        except WireError as error:
            self.world.say(self.machine, "refuses a connection: %s", str(error))
            self.close(line)
            return
        line.pending = bytes(arena[rest:])

    def begin(self) -> None:
        """A tick begins."""
        self.broker.begin_tick()
        self._in_tick = True

    def finish(self) -> None:
        """The tick ends: writes, then answers."""
        self._in_tick = True
        self._posted = False
        broker = self.broker
        while True:
            broker.end_tick()
            dirty, self._dirty = self._dirty, []
            if not dirty and not broker.tick.early:
                break
            for line in dirty:
                if not line.closed:
                    self._flush(line)
            for line in dirty:
                if line.pending and not line.closed and not line.session.is_full:
                    self._take(line, line.pending)
        self._in_tick = False
        if broker.rolled:
            self.maintenance.look_at_rolled()

    def _ready(self, line: Line) -> None:
        self._dirty.append(line)
        self._wake()

    def _wake(self) -> None:
        if not self._in_tick and not self._posted:
            self._posted = True
            self.world.after(1, self.life, self._finish_late)

    def _finish_late(self) -> None:
        if self._posted:
            self.begin()
            self.finish()

    def _flush(self, line: Line) -> None:
        session = line.session
        if line.stream is None or line.end is None or not session.out:
            return
        out, session.out = session.out, []
        session.out_bytes = 0
        session.has_chunks = False
        parts: list[bytes] = []
        lost = False  # a chunk can't be read: what is before it goes, and the connection ends there
        for output in out:
            if isinstance(output, FileRange):
                if not lost:
                    try:
                        parts.append(self._read(output))
                    except OSError:
                        output.file.unreadable = lost = True
                output.file.release()
            elif lost:
                continue
            else:
                parts.append(bytes(output))
        line.stream.send(line.end, b"".join(parts))
        if lost:
            self._hang_up(line, "that lost a chunk")

    def _read(self, chunk: FileRange) -> bytes:
        return chunk.file.files.disk.read_at(chunk.file.fd, chunk.length, chunk.position)

    def pass_time(self) -> None:
        """What is due by the clock."""
        self.begin()
        self.broker.deadlines.expire()
        self.broker.give_up_late()
        self.broker.forwarding.tick()
        self.finish()

    def maintain(self) -> None:
        """Retention, checkpoint, and as many steps of the scrub as come until the next time."""
        self.maintenance.run()
        for _ in range(self.broker.limits.maintenance_ms // self.broker.limits.scrub_ms):
            self.maintenance.scrub()
        self.finish()


class Addresses:
    """Who is reached at a host and port: the process that listens there now."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        """By host: it listens on all ports."""

    def end_at(self, address: tuple[str, int]) -> End | None:
        """The far end of a new connection; None: nobody listens."""
        server = self.servers.get(address[0])
        if server is None or not server.life.alive:
            return None
        return End(server.machine, server.life)

    def accept(self, address: tuple[str, int], stream: Stream) -> None:
        """The process there hears of the connection; if it is frozen, when it goes on."""
        host, port = address
        server = self.servers[host]
        stream.carries_bytes = True
        server.world.after(0, server.life, lambda: server.accept(stream, stream.far, port))


class SimulatedDialer(Dialer):
    """Connects the brokers of the simulated world."""

    def __init__(self, server: Server, addresses: Addresses) -> None:
        self._server = server
        self._addresses = addresses
        self._lines: dict[int, Line] = {}
        """By the session's identity."""

    def dial(self, host: str, port: int, session: Session) -> None:
        """One attempt; refused where nobody is, in vain in a cut."""
        server, address = self._server, (host, port)
        line = server.dial(session)
        self._lines[id(session)] = line
        near = End(server.machine, server.life)

        def joined(stream: Stream | None) -> None:
            if stream is None:
                server.close(line)
            elif line.closed:
                stream.close(near)
            else:
                self._addresses.accept(address, stream)
                server.join(line, stream, near)

        server.network.connect(near, lambda: self._addresses.end_at(address), joined)

    def hang_up(self, session: Session) -> None:
        """Ends it."""
        line = self._lines.pop(id(session), None)
        if line is not None:
            self._server.close(line)
