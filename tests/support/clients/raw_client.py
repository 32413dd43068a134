"""The wire by hand: a blocking connection that sends generated messages and reads answers."""

import socket
from types import TracebackType
from typing import Self, TypeAlias

HEADER_BYTES = 5

Buffer: TypeAlias = bytes | bytearray | memoryview
"""As the codecs have it. Nothing is imported from the product: older versions load this, too."""


class RawConnection:
    """One connection to a broker. Pings are read and left out; anything else is given as (id, payload)."""

    def __init__(self, port: int, timeout_s: float = 10.0, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def send(self, message_id: int, payload: list[Buffer]) -> None:
        length = sum(map(len, payload))
        head = bytes((message_id,)) + length.to_bytes(HEADER_BYTES - 1, "little")
        self.socket.sendall(b"".join((head, *payload)))

    def receive(self) -> tuple[int, memoryview]:
        """The next frame that is not a ping. ConnectionError when the broker closed."""
        while True:
            head = self._take(HEADER_BYTES)
            payload = self._take(int.from_bytes(head[1:5], "little"))
            if head[0] != 3:
                return head[0], memoryview(payload)

    def ask(self, message_id: int, payload: list[Buffer]) -> memoryview:
        """Sends, and returns the payload of the next answer."""
        self.send(message_id, payload)
        return self.receive()[1]

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._received += data
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
