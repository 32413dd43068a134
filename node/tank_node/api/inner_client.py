"""A client of TANK's protocol within the broker's process: a session without a socket.

So the HTTP API asks what every client may ask, passes the same gate and the same limits, and reaches the
brokers that coordinate groups and lead partitions in the same way.
"""

import asyncio
from collections.abc import Callable
from struct import Struct
from types import TracebackType
from typing import Final, Self, TypeVar

from tank_node.api.errors import overloaded
from tank_node.broker.broker import Broker
from tank_node.output import Output
from tank_node.segment.segment import FileRange
from tank_node.session import Session
from tank_protos.generated.tank import ConsumeResponse
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES, frame_of
from tank_protos.wire.message import Message

A = TypeVar("A", bound=Message)

_read_request_id: Final = Struct("<I").unpack_from


class InnerClient:
    """One conversation, for `async with`. One request at a time."""

    def __init__(self, broker: Broker, session: Session) -> None:
        """session: a new one of TANK's protocol."""
        self._broker = broker
        self._session = session
        self._asked = 0
        """The id of the last request."""
        self._answer: asyncio.Future[bytes] | None = None
        session.ready = self._ready

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()
        _release(self._session.out)

    async def ask(self, make: Callable[[int], Message], answer: type[A], version: int = 0) -> A:
        """Sends a request and returns its answer. make: takes the request's id. version: of the request,
        which the answer has, too. Raises ApiError, and WireError for values that no message can hold.
        """
        self._asked += 1
        buffer = bytearray(frame_of(make(self._asked)))
        self._answer = future = asyncio.get_running_loop().create_future()
        self._broker.begin_tick()
        taken = self._session.receive(buffer, memoryview(buffer), 0, len(buffer))
        self._broker.wake()
        if taken != len(buffer):
            raise overloaded("the broker has too much to do")
        # The buffer stays as it is until then: parts of it may wait in the broker's tick.
        payload = await future
        return answer.decode(payload, version)

    def _ready(self) -> None:
        """Looks at the output soon: now the session is within a call."""
        asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        out, self._session.out = self._session.out, []
        self._session.out_bytes = 0
        data = b"".join(each for each in out if isinstance(each, bytes))
        _release(out)
        at = 0
        while at < len(data):
            message_id, length = FRAME_HEAD.unpack_from(data, at)
            payload = data[at + HEADER_BYTES : at + HEADER_BYTES + length]
            at += HEADER_BYTES + length
            future = self._answer
            id_at = 4 if message_id == ConsumeResponse.ID else 0
            if future is None or future.done() or len(payload) < id_at + 4:
                continue
            if _read_request_id(payload, id_at)[0] == self._asked:
                future.set_result(payload)


def _release(outputs: list[Output]) -> None:
    for output in outputs:
        if isinstance(output, FileRange):
            output.file.release()
