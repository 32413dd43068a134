"""A Kafka client's conversation with a bench node, fed by hand."""

from struct import Struct
from typing import TypeVar

from tank_node.kafka.dispatch import open_session
from tank_node.kafka.settings import KafkaSettings
from tank_node.security.gate import Gate
from tank_node.segment.segment import FileRange
from tank_protos.generated.kafka.headers import request_header_version, response_header_version
from tank_protos.generated.kafka.request_header import RequestHeader
from tank_protos.generated.kafka.response_header import ResponseHeader
from tank_protos.wire.message import Message
from tests.support.nodes.bench_node import BenchNode

_SIZE = Struct(">i")
M = TypeVar("M", bound=Message)


class KafkaLine:
    """One connection. `ask` is a whole conversation; `send` and `answers` are its halves."""

    def __init__(
        self,
        node: BenchNode,
        gate: Gate | None = None,
        *,
        is_outside: bool = False,
        settings: KafkaSettings | None = None,
    ) -> None:
        self.node = node
        self.session = open_session(
            node.broker, gate, is_outside=is_outside, settings=settings or KafkaSettings()
        )
        self._received = bytearray()
        self._unread = b""
        self._correlation_id = 0

    def feed(self, data: bytes) -> None:
        """Bytes arrive, and a tick ends. As a server does, feeds the frames that a full session left, until
        the session takes no more."""
        self._received += data
        while True:
            buffer = bytearray(self._received)
            self.node.broker.begin_tick()
            rest = self.session.receive(buffer, memoryview(buffer), 0, len(buffer))
            self.node.tick()
            del self._received[:rest]
            if not rest or not self._received:
                return

    @property
    def pending_bytes(self) -> int:
        """Bytes that the session has left."""
        return len(self._received)

    def frame(self, request: Message, version: int, client_id: str = "test") -> bytes:
        """Returns a request's frame, with the next correlation id."""
        self._correlation_id += 1
        header = RequestHeader(request.ID, version, self._correlation_id, client_id)
        pieces = header.encode(request_header_version(request.ID, version)) + request.encode(version)
        frame = b"".join(pieces)
        return _SIZE.pack(len(frame)) + frame

    def send(self, request: Message, version: int) -> int:
        """Sends a request; returns its correlation id."""
        self.feed(self.frame(request, version))
        return self._correlation_id

    def taken(self) -> bytes:
        """Everything that was answered since the last time, ranges read from their files."""
        parts = []
        for output in self.session.out:
            if isinstance(output, FileRange):
                disk = self.node.data_folder.disk
                parts.append(disk.read_at(output.file.fd, output.length, output.position))
                output.file.release()
            else:
                parts.append(output)
        self.session.out.clear()
        self.session.out_bytes = 0
        return b"".join(parts)

    def frames(self) -> list[bytes]:
        """The whole answers since the last time, without their sizes."""
        self._unread += self.taken()
        found = []
        while len(self._unread) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._unread)
            if len(self._unread) < _SIZE.size + size:
                break
            found.append(self._unread[_SIZE.size : _SIZE.size + size])
            self._unread = self._unread[_SIZE.size + size :]
        return found

    def correlation_ids(self) -> list[int]:
        """The correlation ids of the answers since the last time."""
        return [_SIZE.unpack_from(frame)[0] for frame in self.frames()]

    def read(self, frame: bytes, answer: type[M], version: int) -> tuple[int, M]:
        """Decodes an answer; returns its correlation id, and the answer."""
        header, at = ResponseHeader.read(memoryview(frame), 0, response_header_version(answer.ID, version))
        return header.correlation_id, answer.decode(memoryview(frame)[at:], version)

    def ask(self, request: Message, answer: type[M], version: int) -> M:
        """Sends a request and returns the only answer, which must be to it."""
        asked = self.send(request, version)
        (frame,) = self.frames()
        correlation_id, response = self.read(frame, answer, version)
        assert correlation_id == asked
        return response
