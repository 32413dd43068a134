"""An Iggy client's connection in the simulated world: era B3, one request under way."""

from struct import Struct
from typing import Final

from tank_protos.iggy import classic
from tank_protos.iggy.eras import B3
from tank_protos.wire.message import Message
from tests.simulation.clients.client_lines import ClientLine
from tests.simulation.world.iggy_meant import IggyAsked
from tests.simulation.world.network import Frames
from tests.simulation.world.serving import IGGY_PORT

_HEAD: Final = Struct("<II")
"""Of an answer: its status, and the bytes behind it."""


class IggyWire(ClientLine):
    """One client's way to the brokers. What it hears is the status of an answer, and its payload."""

    port = IGGY_PORT
    _received_bytes = b""

    def tell(self, request: Message, asked: IggyAsked) -> None:
        """Sends a request; and for the books, what it names."""
        self.tell_bytes(request.ID, b"".join(request.encode(B3.version)), asked)

    def tell_bytes(self, code: int, payload: bytes, asked: IggyAsked) -> None:
        """Sends a request whose payload is made already."""
        if self._stream is None or self._end is None:
            return
        data = Frames(classic.request(code, [payload]))
        data.notes = (asked,)
        self._stream.send(self._end, data)

    def connect(self) -> None:
        self._received_bytes = b""
        super().connect()

    def _received(self, data: object) -> None:
        assert isinstance(data, bytes)
        stream = self._stream
        whole = self._received_bytes + data
        self._received_bytes = b""
        at = 0
        while len(whole) - at >= _HEAD.size and self._stream is stream:
            status, size = _HEAD.unpack_from(whole, at)
            stop = at + _HEAD.size + size
            if stop > len(whole):
                break
            payload = memoryview(whole)[at + _HEAD.size : stop]
            at = stop
            self._heard(status, payload)
        if self._stream is stream:
            self._received_bytes = whole[at:]
