"""A task's own connection to a broker: to read a partition that it leads, or to write some. Runs in Spark's
workers.

`tank_client` finds the leader and repeats failed requests. This connection only fetches from that leader and
writes to it, in the thread that handles the rows and without copies: handing chunks from thread to thread
would cost more than reading them. Any unexpected answer ends the connection, and the caller uses the client
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tank_client.errors import ProtocolViolation, TankError
from tank_client.wire.data_operations import (
    BundleToStore,
    Want,
    consume_request,
    produce_request,
    read_consume,
    read_produce,
)
from tank_client.wire.sockets import open_socket
from tank_protos.generated.tank import ConsumeResponse, Ping
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES, frame

if TYPE_CHECKING:
    from tank_client.model import Address, Features, FetchedChunk
    from tank_client.settings import ClientSettings
    from tank_client.wire.connection import TankAnswer, TankRequest
    from tank_protos.wire.buffer import Buffer

_FIRST_BYTES = 64 * 1024


class LeaderConnection:
    """Fetches one after the other, or writes with several under way; not both. Raises OSError when the
    connection is lost, WireError and TankError for any other answer than the one that was asked for. After an
    error it can only be closed."""

    def __init__(self, address: Address, server: Features, settings: ClientSettings) -> None:
        self._server = server
        self._settings = settings
        # Invariant: at most one fetch waits for its answer.
        self._asked: Want | None = None
        self._request_id = 0
        # By request: bundles whose answers have not been read, and answers that `confirm` has not taken yet.
        self._sent: dict[int, tuple[BundleToStore, type[TankAnswer]]] = {}
        self._stored: set[int] = set()
        # Holds the chunk that was handed out last. Grows with the size of the answers.
        self._buffer = memoryview(bytearray(_FIRST_BYTES))
        self._socket = open_socket(address, settings.connect_timeout_ms / 1000)

    def ask(self, want: Want, max_wait_ms: int) -> None:
        """Sends the request; the answer waits in the socket until `answer`."""
        assert self._asked is None
        request = consume_request(
            self._server, [want], max_wait_ms, 0, self._settings.client_id, takes_records=True
        )
        self._request(request, max_wait_ms)
        self._asked = want

    def answer(self) -> FetchedChunk:
        """The chunk that was asked for. It is overwritten by the next answer."""
        asked, self._asked = self._asked, None
        assert asked is not None
        response = self._response({self._request_id: ConsumeResponse})
        result = read_consume(response, [asked])[0].result
        if isinstance(result, TankError):
            raise result
        return result

    def send(self, bundle: BundleToStore) -> int:
        """Sends a bundle; the number is for `confirm`."""
        request, answer = produce_request(self._server, bundle, self._settings.client_id)
        number = self._request(request, bundle.ack_timeout_ms)
        self._sent[number] = bundle, answer
        return number

    def confirm(self, number: int) -> None:
        """Returns when the bundle is stored. Call it once for each bundle, in any order."""
        while number not in self._stored:
            response = self._response({number: answer for number, (_, answer) in self._sent.items()})
            bundle, _ = self._sent.pop(response.request_id)
            result = read_produce(response, bundle)
            if isinstance(result, TankError):
                raise result
            self._stored.add(response.request_id)
        self._stored.remove(number)

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _request(self, request: TankRequest, wait_ms: int) -> int:
        """Sends it under a new number."""
        self._request_id = request.request_id = self._request_id % 0xFFFF_FFFF + 1
        self._socket.settimeout((self._settings.attempt_timeout_ms + wait_ms) / 1000)
        self._send(frame(request.ID, request.encode()))
        return self._request_id

    def _send(self, buffers: Sequence[Buffer]) -> None:
        """Sends all bytes, without copying them."""
        left = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        while left:
            sent = self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def _response(self, awaited: dict[int, type[TankAnswer]]) -> Any:
        """Receives the next answer, which must be to one of these requests."""
        while True:
            message_id, payload = self._frame()
            if message_id != Ping.ID:
                break
        kind = next(iter(awaited.values()))
        if message_id != kind.ID:
            raise ProtocolViolation(f"an answer {message_id:#04x} instead of {kind.ID:#04x}")
        response: Any = kind.decode(payload)
        if response.request_id not in awaited:
            raise ProtocolViolation(
                f"an answer to request {response.request_id} instead of {', '.join(map(str, awaited))}"
            )
        return response

    def _frame(self) -> tuple[int, memoryview]:
        self._receive(HEADER_BYTES)
        message_id, length = FRAME_HEAD.unpack_from(self._buffer)
        if length > self._settings.max_frame_bytes:
            raise ProtocolViolation(
                f"a frame of {length} bytes is announced; the limit is {self._settings.max_frame_bytes}"
            )
        self._receive(length)
        return message_id, self._buffer[:length].toreadonly()

    def _receive(self, size: int) -> None:
        """Receives so many bytes into the beginning of the buffer."""
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
