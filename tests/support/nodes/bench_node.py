"""A broker with real files, a clock that moves when told, and sessions without sockets."""

from pathlib import Path
from typing import Self

from tank_node.broker.broker import Broker
from tank_node.broker.maintenance import Maintenance
from tank_node.disk import Disk, OsDisk
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.security.gate import Gate
from tank_node.segment.segment import FileRange
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_node.tank.dispatch import open_session
from tank_protos.wire.framing import FrameReader, frame
from tank_protos.wire.message import Message
from tests.support.controllers.instant_controller import InstantController
from tests.support.manual_clock import ManualClock


class BenchNode:
    """All rooms of a node below the server. `client` gives a conversation."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        disk: Disk | None = None,
        controller: InstantController | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.controller = controller or InstantController()
        self.metrics = Metrics()
        self.posted: list[object] = []
        disk = disk or OsDisk()
        self.data_folder = DataFolder.open(str(folder), disk, self.clock)
        self.flusher = Flusher(disk, self.posted.append, clock=lambda: self.clock.monotonic_ms() / 1000)
        self.broker = Broker(
            self.data_folder, self.controller, self.flusher, self.clock, limits or Limits(), self.metrics
        )
        self.broker.open()
        self.maintenance = Maintenance(self.broker)

    def client(self) -> "BenchClient":
        return BenchClient(self)

    def tick(self) -> None:
        """What a server's tick does around its requests."""
        self.broker.end_tick()

    def pass_ms(self, milliseconds: int) -> None:
        """Time passes, and deadlines with it."""
        self.clock.pass_ms(milliseconds)
        self.broker.begin_tick()
        self.broker.deadlines.expire()

    def sync(self) -> None:
        """Waits until the disk has what was asked for, and tells the broker."""
        while any(log.flushing is not None for log in self.data_folder.logs.values()) or self.posted:
            for call in self.posted[:]:
                self.posted.remove(call)
                assert callable(call)
                call()

    def close(self) -> None:
        self.flusher.close()
        self.data_folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BenchClient:
    """A session, fed by hand."""

    def __init__(self, node: BenchNode, gate: Gate | None = None) -> None:
        self.node = node
        self.session = open_session(node.broker, gate)
        self._received = bytearray()
        self._frames = FrameReader()

    def feed(self, data: bytes) -> None:
        """Bytes arrive, as the server hands them over: what is left of an earlier frame goes before them."""
        self._received += data
        buffer = bytearray(self._received)
        rest = self.session.receive(buffer, memoryview(buffer), 0, len(buffer))
        # The broker's tick ends before the buffer may change.
        self.node.tick()
        del self._received[:rest]

    @property
    def pending_bytes(self) -> int:
        """Bytes that are not a whole frame yet."""
        return len(self._received)

    def send(self, message: Message, version: int = 0) -> None:
        self.feed(b"".join(frame(message.ID, message.encode(version))))

    def taken(self) -> bytes:
        """Everything that was answered since the last time, chunks read from their files."""
        parts = []
        for output in self.session.out:
            if isinstance(output, FileRange):
                parts.append(
                    self.node.data_folder.disk.read_at(output.file.fd, output.length, output.position)
                )
                output.file.release()
            else:
                parts.append(output)
        self.session.out.clear()
        return b"".join(parts)

    def answers(self) -> list[tuple[int, memoryview]]:
        """The whole frames answered since the last time, as (id, payload)."""
        return self._frames.feed(self.taken())

    def ask(self, message: Message) -> memoryview:
        """Sends, and gives the payload of the only answer."""
        self.send(message)
        ((message_id, payload),) = self.answers()
        assert message_id in (message.ID, 1)
        return payload
