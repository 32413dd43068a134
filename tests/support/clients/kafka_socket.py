"""Kafka's wire by hand: a blocking connection that sends generated messages and reads answers."""

import socket
from struct import Struct
from types import TracebackType
from typing import Self, TypeVar

from tank_protos.generated.kafka.headers import request_header_version, response_header_version
from tank_protos.generated.kafka.request_header import RequestHeader
from tank_protos.generated.kafka.response_header import ResponseHeader
from tank_protos.wire.message import Message

_SIZE = Struct(">i")
M = TypeVar("M", bound=Message)


def frame(request: Message, version: int, correlation_id: int, client_id: str = "test") -> bytes:
    """A request's whole frame."""
    header = RequestHeader(request.ID, version, correlation_id, client_id)
    body = b"".join(header.encode(request_header_version(request.ID, version)) + request.encode(version))
    return _SIZE.pack(len(body)) + body


class KafkaSocket:
    """One connection to a broker's Kafka port."""

    def __init__(self, port: int, timeout_s: float = 10.0, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def send(self, request: Message, version: int) -> int:
        """Sends a request; returns its correlation id."""
        self._correlation_id += 1
        self.socket.sendall(frame(request, version, self._correlation_id))
        return self._correlation_id

    def receive(self) -> bytes:
        """The next answer without its size. ConnectionError when the broker closed."""
        (size,) = _SIZE.unpack(self._take(_SIZE.size))
        return self._take(size)

    def ask(self, request: Message, answer: type[M], version: int) -> M:
        """Sends a request and returns the next answer, which must be to it."""
        asked = self.send(request, version)
        correlation_id, response = self.receive_as(answer, version)
        assert correlation_id == asked
        return response

    def receive_as(self, answer: type[M], version: int) -> tuple[int, M]:
        """The next answer, and its correlation id."""
        answered = memoryview(self.receive())
        header, at = ResponseHeader.read(answered, 0, response_header_version(answer.ID, version))
        return header.correlation_id, answer.decode(answered[at:], version)

    def is_closed_by_the_broker(self) -> bool:
        """Whether the broker closes the connection without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            data = self.socket.recv(size - len(taken))
            if not data:
                raise ConnectionError("the broker closed the connection")
            taken += data
        return bytes(taken)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
