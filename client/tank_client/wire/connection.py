"""The protocol of one connection, sans-I/O: requests go in, frames come out; bytes go in, answers come out.

Both faces of the client use it through `transport`. Time enters as milliseconds of any monotonic clock;
nothing here waits, reads a clock or touches a socket. Source: the wire reference, sections 1 to 6.

A connection begins by finding out whom it talks to: Status (10) first; a version of 1000 or more is
followed by Features (0x40). A broker of the old document closes the connection instead: `Negotiation`
counts that per address, and the next connection goes without the question.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from struct import Struct
from typing import Any, ClassVar, Protocol

from tank_client.errors import ConnectionLost, InvalidArgument, Overloaded, ProtocolViolation, TankError
from tank_client.model import Features
from tank_client.routing.routes import Route
from tank_client.settings import ClientSettings
from tank_protos.generated.tank import (
    ConsumeResponse,
    FeaturesRequest,
    FeaturesResponse,
    Ping,
    StatusRequest,
    StatusResponse,
)
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import FrameReader, frame

OLD_DOCUMENT = 0
"""Stands for the version of a broker that knows no Status."""
OUR_OLDEST_VERSION = 1000
"""From this version on a broker knows the messages from 0x40 on."""

NO_PARTITION: tuple[Route | None, ...] = (None,)
"""What a request is about that any broker can answer."""
_U32 = Struct("<I")
_LAST_REQUEST_ID = 0xFFFF_FFFF


class Request(Protocol):
    """A generated request: its id goes into `request_id` when it is sent."""

    ID: ClassVar[int]
    request_id: int

    def encode(self, version: int = 0) -> list[Buffer]:
        """The payload."""


class Answer(Protocol):
    """A generated answer."""

    ID: ClassVar[int]

    @classmethod
    def decode(cls, payload: Buffer, version: int = 0) -> "Answer":
        """Out of a payload."""


class State(Enum):
    """Where a connection stands."""

    NEGOTIATING = auto()
    READY = auto()
    CLOSED = auto()


@dataclass(slots=True, frozen=True)
class Ready:
    """It is known who is on the other side; requests may go."""

    server: Features


@dataclass(slots=True, frozen=True)
class Answered:
    """An answer came; `message` is of the type that was named when the request was sent."""

    request_id: int
    message: Any


@dataclass(slots=True, frozen=True)
class Lost:
    """The connection is over: close the socket. These requests have no answer; they may have been carried
    out.

    `status_refused`: the other side closed it in answer to Status, as a broker of the old document does."""

    error: TankError
    unanswered: tuple[int, ...]
    status_refused: bool = False


Event = Ready | Answered | Lost


class Negotiation:
    """What is known of one address: whether to ask for Status there.

    Two closed connections in a row, each after the greeting and before the answer, mean the old document: one
    alone may be a broker that was just stopping. When a connection to such a broker ends, it is asked once
    more.
    """

    __slots__ = ("_refused",)
    ENOUGH: ClassVar[int] = 2

    def __init__(self) -> None:
        self._refused = 0

    @property
    def asks(self) -> bool:
        """Whether the next connection begins with Status."""
        return self._refused < self.ENOUGH

    @property
    def refusals(self) -> int:
        """Questions that were answered by closing the connection, in a row."""
        return self._refused

    def ended(self, lost: Lost, server: Features | None) -> None:
        """A connection to the address is over; `server` is what it had found out."""
        if lost.status_refused:
            self._refused += 1
        elif server is None:
            return
        elif server.version == OLD_DOCUMENT:
            self._refused = self.ENOUGH - 1
        else:
            self._refused = 0


@dataclass(slots=True)
class _Waiting:
    answer: type[Answer]
    deadline_ms: float
    operation: str
    late_ms: float
    about: Collection[Route | None]


class Connection:
    """One connection's conversation. Every method that can end it returns events; after `Lost` it is used
    up."""

    __slots__ = (
        "_greeted",
        "_next_id",
        "_output",
        "_reader",
        "_settings",
        "_waiting",
        "server",
        "state",
    )

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._reader = FrameReader(settings.max_frame_bytes)
        self._output: list[Buffer] = []
        self._next_id = 1
        # Invariant: exactly the requests that were sent and have no answer, in the order they were sent.
        self._waiting: dict[int, _Waiting] = {}
        self._greeted = False
        self.state = State.NEGOTIATING
        self.server: Features | None = None

    def start(self, now_ms: float, *, ask: bool = True) -> list[Event]:
        """The socket is connected. Without `ask` the other side counts as a broker of the old document at
        once."""
        if not ask:
            return self._ready(Features(OLD_DOCUMENT))
        self._put(StatusRequest(), StatusResponse, now_ms + self._settings.connect_timeout_ms, "Status")
        return []

    def send(
        self,
        request: Request,
        answer: type[Answer],
        deadline_ms: float,
        operation: str,
        *,
        late_ms: float = inf,
        about: Collection[Route | None] = NO_PARTITION,
    ) -> int:
        """Sends a request; its id, by which the answer is matched. From `late_ms` on the answer is `late`.
        Overloaded when too many wait already."""
        if self.state is not State.READY:
            raise ConnectionLost(f"{operation}: the connection is not open")
        if len(self._waiting) >= self._settings.max_in_flight_per_connection:
            raise Overloaded(
                f"{operation}: {len(self._waiting)} requests wait for answers on one connection; "
                "send fewer at once"
            )
        try:
            request_id = self._put(request, answer, deadline_ms, operation)
        except WireError as error:
            raise InvalidArgument(f"{operation} cannot be put on the wire: {error}") from None
        waiting = self._waiting[request_id]
        waiting.late_ms, waiting.about = late_ms, about
        return request_id

    def _put(self, request: Request, answer: type[Answer], deadline_ms: float, operation: str) -> int:
        request_id = self._next_id
        while request_id in self._waiting:
            request_id = request_id % _LAST_REQUEST_ID + 1
        self._next_id = request_id % _LAST_REQUEST_ID + 1
        request.request_id = request_id
        # Encoded before it is noted: a value that does not fit leaves nothing behind.
        self._output += frame(request.ID, request.encode())
        self._waiting[request_id] = _Waiting(answer, deadline_ms, operation, inf, NO_PARTITION)
        return request_id

    def data_to_send(self) -> list[Buffer]:
        """The bytes that are to be written now, in order; each is handed out once."""
        output, self._output = self._output, []
        return output

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self._waiting)

    def receive_data(self, data: Buffer, now_ms: float) -> list[Event]:
        """Bytes came from the other side."""
        events: list[Event] = []
        if self.state is State.CLOSED:
            return events
        try:
            for message_id, payload in self._reader.feed(data):
                self._receive_frame(message_id, payload, now_ms, events)
        except (WireError, ProtocolViolation) as error:
            violation = ProtocolViolation(
                f"the other side does not speak TANK's protocol ({error}): is it a TANK port?"
            )
            events.append(self._end(violation))
        return events

    def receive_eof(self, reason: str = "the other side closed the connection") -> list[Event]:
        """The socket is closed, by the other side or by an error."""
        if self.state is State.CLOSED:
            return []
        refused = self.state is State.NEGOTIATING and self._greeted and self.server is None
        waiting = [waiting.operation for waiting in self._waiting.values()]
        what = f" while {', '.join(waiting[:3])} waited for an answer" if waiting else ""
        return [self._end(ConnectionLost(f"{reason}{what}"), status_refused=refused)]

    def next_deadline_ms(self) -> float | None:
        """When `expire` is to be called; None: nothing waits."""
        return min((waiting.deadline_ms for waiting in self._waiting.values()), default=None)

    def expire(self, now_ms: float) -> list[Event]:
        """Time has passed. An answer that does not come in time ends the connection: on a stream, what
        comes behind a stuck answer is stuck too, and only a new connection tells whether the broker still
        lives."""
        if self.state is State.CLOSED:
            return []
        late = [waiting for waiting in self._waiting.values() if waiting.deadline_ms <= now_ms]
        if not late:
            return []
        return [self._end(ConnectionLost(f"{late[0].operation} was not answered in time"))]

    def late(self, now_ms: float) -> set[Route | None]:
        """What those requests are about whose answers are late: the broker may be slow, or hang. None: one
        about no partition."""
        return {
            route
            for waiting in self._waiting.values()
            if waiting.late_ms <= now_ms
            for route in waiting.about
        }

    def close(self, reason: str = "the client closed the connection") -> list[Event]:
        """We close it."""
        if self.state is State.CLOSED:
            return []
        return [self._end(ConnectionLost(reason))]

    def _receive_frame(
        self, message_id: int, payload: memoryview, now_ms: float, events: list[Event]
    ) -> None:
        if message_id == Ping.ID:
            self._greeted = True
            return
        # A consume answer says its header's length before the request's id.
        at = 4 if message_id == ConsumeResponse.ID else 0
        if len(payload) < at + 4:
            raise ProtocolViolation(f"an answer of {len(payload)} bytes")
        request_id: int = _U32.unpack_from(payload, at)[0]
        waiting = self._waiting.get(request_id)
        if waiting is None or message_id != waiting.answer.ID:
            raise ProtocolViolation(
                f"an answer {message_id:#04x} to a request {request_id} that was not asked"
            )
        message = waiting.answer.decode(payload)
        # Only now: who asked for what cannot be read is told with the others that the connection is over.
        del self._waiting[request_id]
        if self.state is State.NEGOTIATING:
            self._negotiate(message, now_ms, events)
        else:
            events.append(Answered(request_id, message))

    def _negotiate(self, message: Any, now_ms: float, events: list[Event]) -> None:
        if isinstance(message, StatusResponse):
            self.server = Features(message.version)
            if message.version < OUR_OLDEST_VERSION:
                events += self._ready(self.server)
            else:
                deadline_ms = now_ms + self._settings.connect_timeout_ms
                self._put(FeaturesRequest(), FeaturesResponse, deadline_ms, "Features")
            return
        assert isinstance(message, FeaturesResponse)
        assert self.server is not None
        events += self._ready(
            Features(
                version=self.server.version,
                cluster_id=message.cluster_id,
                broker_id=message.broker_id,
                features={f.name: (f.min_version, f.max_version) for f in message.features},
                limits={limit.name: limit.value for limit in message.limits},
            )
        )

    def _ready(self, server: Features) -> list[Event]:
        self.server = server
        self.state = State.READY
        return [Ready(server)]

    def _end(self, error: TankError, *, status_refused: bool = False) -> Lost:
        unanswered = tuple(self._waiting)
        self._waiting.clear()
        self._output.clear()
        self.state = State.CLOSED
        return Lost(error, unanswered, status_refused)
