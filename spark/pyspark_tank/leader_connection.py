"""A task's own connection to the leader of the partition that it reads. Runs in Spark's workers.

`tank_client` finds the leader, follows it when it moves, and asks again; this only fetches from it, in the
thread that decodes and into memory that is used again for each chunk: at rates where a row costs less than a
microsecond, handing chunks from thread to thread costs more than reading them. Whatever is not a chunk ends
the connection, and the caller goes back to the client.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import TYPE_CHECKING

from tank_client.data_operations import Want, consume_request, read_consume
from tank_client.errors import ProtocolViolation, TankError
from tank_protos.framing import HEADER_BYTES, frame
from tank_protos.generated.tank import ConsumeResponse, Ping

if TYPE_CHECKING:
    from tank_client.model import Address, Features, FetchedChunk
    from tank_client.settings import ClientSettings

_HEADER = Struct("<BI")
_FIRST_BYTES = 64 * 1024


class LeaderConnection:
    """Fetches one after the other. Raises OSError when the connection is lost, WireError and TankError when
    what comes is no chunk; it is of no use then but to be closed.
    """

    def __init__(self, address: Address, server: Features, settings: ClientSettings) -> None:
        self._server = server
        self._settings = settings
        # Invariant: at most one request waits for its answer.
        self._asked: Want | None = None
        self._request_id = 0
        # The chunk that was handed out last lies in it. Grows with the bytes that come.
        self._buffer = memoryview(bytearray(_FIRST_BYTES))
        self._socket = socket.create_connection(
            (address.host, address.port), settings.connect_timeout_ms / 1000
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, want: Want, max_wait_ms: int) -> None:
        """Sends the request; what comes waits in the socket until `answer`."""
        assert self._asked is None
        request = consume_request(self._server, [want], max_wait_ms, 0, self._settings.client_id)
        self._request_id = request.request_id = self._request_id % 0xFFFF_FFFF + 1
        self._socket.settimeout((self._settings.attempt_timeout_ms + max_wait_ms) / 1000)
        self._socket.sendall(b"".join(frame(request.ID, request.encode())))
        self._asked = want

    def answer(self) -> FetchedChunk:
        """The chunk that was asked for. It is overwritten by the next answer."""
        asked, self._asked = self._asked, None
        assert asked is not None
        while True:
            message_id, payload = self._frame()
            if message_id != Ping.ID:
                break
        if message_id != ConsumeResponse.ID:
            raise ProtocolViolation(f"an answer {message_id:#04x} to a fetch")
        response = ConsumeResponse.decode(payload)
        if response.request_id != self._request_id:
            raise ProtocolViolation(
                f"an answer to request {response.request_id} instead of {self._request_id}"
            )
        result = read_consume(response, [asked])[0].result
        if isinstance(result, TankError):
            raise result
        return result

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _frame(self) -> tuple[int, memoryview]:
        self._receive(HEADER_BYTES)
        message_id, length = _HEADER.unpack_from(self._buffer)
        if length > self._settings.max_frame_bytes:
            raise ProtocolViolation(
                f"a frame of {length} bytes is announced; the limit is {self._settings.max_frame_bytes}"
            )
        self._receive(length)
        return message_id, self._buffer[:length].toreadonly()

    def _receive(self, size: int) -> None:
        """So many bytes, to the beginning of the buffer."""
        got = 0
        while got < size:
            if got == len(self._buffer):
                larger = memoryview(bytearray(min(2 * got, size)))
                larger[:got] = self._buffer
                self._buffer = larger
            received = self._socket.recv_into(self._buffer[got:size])
            if not received:
                raise ConnectionResetError("the broker closed the connection")
            got += received
