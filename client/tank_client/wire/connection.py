"""The protocol of one connection, sans-I/O: requests go in, frames come out; bytes go in, answers come out.

`transport` runs it. Time enters as milliseconds of any monotonic clock; nothing here waits, reads a clock or
touches a socket. Source: the wire reference, sections 1 to 6.

A connection begins with a request for the broker's version: Status (10). A version of 1000 or more is
followed by Features (0x40). A broker of the old document closes the connection instead: `Negotiation` counts
that per address, and the next connection goes without the question.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from struct import Struct
from typing import Any, ClassVar, Protocol

from tank_client.errors import ConnectionLost, InvalidArgument, Overloaded, ProtocolViolation, TankError
from tank_client.model import Features, Route
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
"""The version of a broker that doesn't know Status."""
OUR_OLDEST_VERSION = 1000
"""A broker of this version or a later one knows the messages from id 0x40 on."""

NO_PARTITION: tuple[Route | None, ...] = (None,)
"""The version of requests that any broker can answer."""
_U32 = Struct("<I")
_LAST_REQUEST_ID = 0xFFFF_FFFF


class TankRequest(Protocol):
    """A generated request: its id goes into `request_id` when it is sent."""

    ID: ClassVar[int]
    request_id: int

    def encode(self, version: int = 0) -> list[Buffer]:
        """The payload."""


class TankAnswer(Protocol):
    """A generated answer."""

    ID: ClassVar[int]

    @classmethod
    def decode(cls, payload: Buffer, version: int = 0) -> "TankAnswer":
        """Out of a payload."""


class State(Enum):
    """The state of a connection."""

    NEGOTIATING = auto()
    READY = auto()
    CLOSED = auto()


@dataclass(slots=True, frozen=True)
class ServerKnown:
    """The broker's version and features are known; requests may be sent."""

    server: Features


@dataclass(slots=True, frozen=True)
class Answered:
    """An answer has come; `message` has the type that was passed when the request was sent."""

    request_id: int
    message: Any


@dataclass(slots=True, frozen=True)
class Lost:
    """The connection is over: close the socket. These requests have no answer; they may have been carried
    out.

    `status_refused`: the broker closed the connection in answer to Status, as one of the old document does.
    """

    error: TankError
    unanswered: tuple[int, ...]
    status_refused: bool = False


Event = ServerKnown | Answered | Lost


class Negotiation:
    """Whether to send Status to one address, by its history.

    Two closed connections in a row, each after the greeting and before the answer, mean a broker of the old
    document: one alone may be a broker that was stopping, and the next connection fails then. An address that
    has answered Status never counts as such a broker, however often it stops. When a connection to a broker
    of the old document ends, the next one sends Status once more.
    """

    __slots__ = ("_has_answered", "_refused")
    ENOUGH: ClassVar[int] = 2

    def __init__(self) -> None:
        self._has_answered = False
        self._refused = 0

    @property
    def asks(self) -> bool:
        """Whether the next connection begins with Status."""
        return self._refused < self.ENOUGH

    @property
    def refusals(self) -> int:
        """How many Status requests in a row were answered by closing the connection."""
        return self._refused

    def ended(self, lost: Lost, server: Features | None) -> None:
        """Notes the end of a connection to the address; `server` is its answer to Status, if there was
        one."""
        if lost.status_refused:
            self._refused += not self._has_answered
        elif server is None:
            return
        elif server.version == OLD_DOCUMENT:
            self._refused = self.ENOUGH - 1
        else:
            self._has_answered = True
            self._refused = 0

    def failed(self) -> None:
        """Notes that no connection to the address was made: a refusal before was that of a stopping
        broker."""
        self._refused = 0


@dataclass(slots=True)
class _Unanswered:
    answer: type[TankAnswer]
    deadline_ms: float
    operation: str
    late_ms: float
    about: Collection[Route | None]
    version: int
    """Of the request and its answer."""


class ClientConnection:
    """One connection's conversation. Every method that can end the connection returns events; after `Lost`
    the object must not be used.
    """

    __slots__ = (
        "_greeted",
        "_output",
        "_reader",
        "_settings",
        "_waiting",
        "next_id",
        "server",
        "state",
    )

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._reader = FrameReader(settings.max_frame_bytes)
        self._output: list[Buffer] = []
        self.next_id = 1
        """Of the next request, unless a request of this id still waits."""
        # Invariant: exactly the requests that were sent and have no answer, in the order they were sent.
        self._waiting: dict[int, _Unanswered] = {}
        self._greeted = False
        self.state = State.NEGOTIATING
        self.server: Features | None = None

    def start(self, now_ms: float, *, ask: bool = True) -> list[Event]:
        """Begins the conversation on a connected socket. Without `ask`, the broker counts as one of the old
        document at once.
        """
        if not ask:
            return self._ready(Features(OLD_DOCUMENT))
        self._put(StatusRequest(), StatusResponse, now_ms + self._settings.connect_timeout_ms, "Status")
        return []

    def send(
        self,
        request: TankRequest,
        answer: type[TankAnswer],
        deadline_ms: float,
        operation: str,
        *,
        late_ms: float = inf,
        about: Collection[Route | None] = NO_PARTITION,
    ) -> int:
        """Sends a request; returns its id, which the answer repeats. From `late_ms` on the answer is `late`.
        Raises Overloaded when too many requests wait already.
        """
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

    def _put(self, request: TankRequest, answer: type[TankAnswer], deadline_ms: float, operation: str) -> int:
        request_id = self.next_id
        while request_id in self._waiting:
            request_id = request_id % _LAST_REQUEST_ID + 1
        self.next_id = request_id % _LAST_REQUEST_ID + 1
        request.request_id = request_id
        # Encoded before it is noted: a value that does not fit leaves nothing behind.
        self._output += frame(request.ID, request.encode())
        self._waiting[request_id] = _Unanswered(
            answer, deadline_ms, operation, inf, NO_PARTITION, getattr(request, "version", 0)
        )
        return request_id

    def data_to_send(self) -> list[Buffer]:
        """Takes the bytes to write now, in order."""
        output, self._output = self._output, []
        return output

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer."""
        return len(self._waiting)

    def receive_data(self, data: Buffer, now_ms: float) -> list[Event]:
        """Handles bytes from the broker."""
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
        """Handles the end of the socket, by the broker or by an error."""
        if self.state is State.CLOSED:
            return []
        refused = self.state is State.NEGOTIATING and self._greeted and self.server is None
        waiting = [waiting.operation for waiting in self._waiting.values()]
        what = f" while {', '.join(waiting[:3])} waited for an answer" if waiting else ""
        return [self._end(ConnectionLost(f"{reason}{what}"), status_refused=refused)]

    def next_deadline_ms(self) -> float | None:
        """When `expire` must be called; None: no request waits."""
        return min((waiting.deadline_ms for waiting in self._waiting.values()), default=None)

    def expire(self, now_ms: float) -> list[Event]:
        """Ends the connection when an answer has not come in time: all answers behind it on the stream are
        stuck, too, and only a new connection shows whether the broker is alive.
        """
        if self.state is State.CLOSED:
            return []
        late = [waiting for waiting in self._waiting.values() if waiting.deadline_ms <= now_ms]
        if not late:
            return []
        return [self._end(ConnectionLost(f"{late[0].operation} was not answered in time"))]

    def late(self, now_ms: float) -> set[Route | None]:
        """Returns the partitions of requests whose answers are late: the broker may be slow, or hang. None
        among them: a request about no partition."""
        return {
            route
            for waiting in self._waiting.values()
            if waiting.late_ms <= now_ms
            for route in waiting.about
        }

    def close(self, reason: str = "the client closed the connection") -> list[Event]:
        """Closes the connection from this side."""
        if self.state is State.CLOSED:
            return []
        return [self._end(ConnectionLost(reason))]

    def _receive_frame(
        self, message_id: int, payload: memoryview, now_ms: float, events: list[Event]
    ) -> None:
        if message_id == Ping.ID:
            self._greeted = True
            return
        # A consume answer has its header's length before the request's id.
        at = 4 if message_id == ConsumeResponse.ID else 0
        if len(payload) < at + 4:
            raise ProtocolViolation(f"an answer of {len(payload)} bytes")
        request_id: int = _U32.unpack_from(payload, at)[0]
        waiting = self._waiting.get(request_id)
        if waiting is None or message_id != waiting.answer.ID:
            raise ProtocolViolation(
                f"an answer {message_id:#04x} to a request {request_id} that was not asked"
            )
        message = waiting.answer.decode(payload, waiting.version)
        # Removed only now: a call whose answer cannot be read fails with the others, when the connection
        # ends.
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
        return [ServerKnown(server)]

    def _end(self, error: TankError, *, status_refused: bool = False) -> Lost:
        unanswered = tuple(self._waiting)
        self._waiting.clear()
        self._output.clear()
        self.state = State.CLOSED
        return Lost(error, unanswered, status_refused)
