"""The protocol state of one connection with a client of Kafka's protocol: requests in, calls to the broker,
answers out in the requests' order. No I/O, no clock.

Source: Apache Kafka's protocol guide; docs/protocol/kafka.md says what this broker does with it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Final

from tank_node.broker.broker import Broker
from tank_node.client_facts import ClientFacts
from tank_node.kafka.frame_size import wrong_size
from tank_node.kafka.settings import KafkaSettings
from tank_node.limits import Limits
from tank_node.metrics import OK, ClientBytes, Metrics
from tank_node.output import Output
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.security.gate import ANONYMOUS, Gate, NotAllowed, Operation, Resource
from tank_node.segment.segment import FileRange
from tank_node.session import Session
from tank_protos.error_codes import ConnectionProtocol
from tank_protos.generated.kafka.headers import request_header_version, response_header_version
from tank_protos.generated.kafka.request_header import RequestHeader
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message

_PRODUCE: Final = 0
_FETCH: Final = 1
API_VERSIONS: Final = 18
SIZE_BYTES: Final = 4
"""The bytes of a frame's size, which stands before the frame and does not count itself."""
_HEAD_BYTES: Final = 8
"""Those of a size, key and version; also the least of a frame: key, version and correlation id."""

_read_head: Final = Struct(">ihh").unpack_from
_read_correlation_id: Final = Struct(">i").unpack_from
_read_size: Final = Struct(">i").unpack_from
_ANSWER_HEAD: Final = Struct(">ii")
"""An answer's size without these four bytes, and the correlation id."""
_INTERNAL_ERROR: Final = "internal_error"
"""The outcome of a request in which the broker has a bug."""
_CORRELATION_BYTES: Final = 4
_NO_TAGS: Final = b"\0"


class UnknownRequest(WireError):
    """A request of an api key that this broker doesn't serve, or in a version that it doesn't serve."""

    reason: ClassVar[str] = "unknown_request"


@dataclass(slots=True, eq=False)
class KafkaApi:
    """The handler of one api key, its versions, and the checks before it."""

    key: int
    name: str
    """For metrics and logs, in Kafka's spelling."""
    lowest: int
    highest: int
    """The versions that the broker serves, without gaps."""
    handle: "Callable[[KafkaCall, memoryview], None]"
    """Takes the call and the request's body, which is valid during the handler's call; a record batch in it
    until the tick's end. Raises WireError when the connection has to be closed. The first request may
    replace it."""
    operation: Operation
    resource: Resource
    """The operation and the resource that the gate checks before the handler is called."""
    carries_records: bool = False
    """Whether a frame may be as long as `Limits.frame_bytes`; else `Limits.request_bytes` bounds it."""


class KafkaCall:
    """A request that was taken and is not answered, or whose answer waits for those before it.

    The handler calls one of `answer`, `answer_ranges` and `end_silently` once, during its own call or later.
    The session sends the answers in the order of the requests.
    """

    __slots__ = (
        "api", "began_us", "client_id", "correlation_id", "has_ranges", "has_tags", "is_answered",
        "on_close", "out", "requests", "session", "version",
    )  # fmt: skip

    def __init__(
        self,
        session: "KafkaSession",
        api: "KafkaApi",
        version: int,
        correlation_id: int,
        client_id: str | None,
        *,
        has_tags: bool,
    ) -> None:
        self.session = session
        self.api = api
        self.began_us = session.broker.tick.monotonic_us
        """The time of the tick that took the request (monotonic)."""
        self.version = version
        """The version of the request, and of its answer."""
        self.correlation_id = correlation_id
        self.client_id = client_id
        """The name that the client gives itself."""
        self.has_tags = has_tags
        """Whether the answer's header ends in tagged fields."""
        self.requests = 1
        """The number of requests for which this one stands: they follow one another, and have one result."""
        self.is_answered = False
        self.out: list[Output] = []
        """The answer, while it waits for those before it."""
        self.has_ranges = False
        """Whether `out` holds file ranges."""
        self.on_close: Callable[[], None] | None = None
        """Called when the connection ends before the answer: the handler ends its waits there."""

    def answer(self, response: Message, outcome: str = OK) -> None:
        """Sends an answer, and counts it as `outcome`."""
        self._end([self.frame(response)], outcome, has_ranges=False)

    def frame(self, response: Message, following: int = 0) -> bytes:
        """Returns the whole answer as bytes, or its beginning if `following` bytes come behind it."""
        body = b"".join(response.encode(self.version))
        return self.frame_of(body, following)

    def frame_of(self, body: bytes, following: int = 0) -> bytes:
        """As `frame`, for an answer whose body is encoded."""
        tags = _NO_TAGS if self.has_tags else b""
        size = _CORRELATION_BYTES + len(tags) + len(body) + following
        return _ANSWER_HEAD.pack(size, self.correlation_id) + tags + body

    def answer_pieces(self, body: Sequence[Output], outcome: str = OK) -> None:
        """Sends an answer whose encoded body is bytes, beginning with some, and file ranges. The ranges'
        files are released here or by the server."""
        following = 0
        has_ranges = False
        for piece in body[1:]:
            if isinstance(piece, FileRange):
                following += piece.length
                has_ranges = True
            else:
                following += len(piece)
        first = body[0]
        assert isinstance(first, bytes), "an answer begins with a range"
        self._end([self.frame_of(first, following), *body[1:]], outcome, has_ranges=has_ranges)

    def answer_ranges(self, out: Sequence[Output], outcome: str = OK) -> None:
        """Sends a whole answer of bytes and file ranges, which begins as `frame_of` returns it. The ranges'
        files are released here or by the server."""
        self._end(list(out), outcome, has_ranges=True)

    def answer_frame(self, frame: bytes) -> None:
        """Sends a whole answer without an error, which begins as `frame_of` returns it."""
        self._end([frame], OK, has_ranges=False)

    def end_with(self, frames: bytes, outcome: str) -> None:
        """As `answer_frame`, with any outcome."""
        self._end([frames], outcome, has_ranges=False)

    def end_silently(self, outcome: str = OK) -> None:
        """Ends a request that has no answer: a produce request with acks 0."""
        self._end([], outcome, has_ranges=False)

    def _end(self, out: list[Output], outcome: str, *, has_ranges: bool) -> None:
        assert not self.is_answered, "a request is answered twice"
        self.is_answered = True
        self.on_close = None
        self.out = out
        self.has_ranges = has_ranges
        self.session.answered(self, outcome)


class LearnedRequests:
    """The forms of requests that a connection repeats, as an interface: the session knows no handler."""

    __slots__ = ()

    def take(self, session: "KafkaSession", frame: memoryview) -> bool:
        """Carries out a request, without its size, of a learned form. False: its handler has to look."""
        raise NotImplementedError

    def take_run(self, session: "KafkaSession", view: memoryview, at: int, end: int) -> int:
        """Carries out the produce requests from `at` on, as many as have the learned form of the first one.
        Returns where the rest begins; -1: nothing is done, and the first one must be looked at alone. Sets
        the session's `kept` if bytes must stay unchanged."""
        raise NotImplementedError


class KafkaSession(Session):
    """The session of one Kafka client. `dispatch.open_session` makes it.

    Invariant: all requests in `_line` are of Produce, or there is one. Clients take answers out of order for
    a fatal error, and the effects of requests come in their order, too: so a request begins when all before
    it are answered, but that produce requests may follow one another.
    """

    __slots__ = (
        "_apis", "_blocked", "_bytes", "_gate", "_line", "broker", "client_id", "fetch_session_id",
        "is_outside", "learned", "learned_forms", "limits", "metrics", "most", "principal", "settings",
        "software_name", "software_version", "versions",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        apis: Mapping[int, KafkaApi],
        gate: Gate,
        settings: KafkaSettings,
        *,
        is_outside: bool = False,
    ) -> None:
        super().__init__()
        self.broker = broker
        self.settings = settings
        self._apis = apis
        """By api key."""
        self._gate = gate
        self.principal = ANONYMOUS
        self.is_outside = is_outside
        """Whether the client connected at the outside address, and gets brokers' outside addresses."""
        self.limits: Limits = broker.limits
        self.metrics: Metrics = broker.metrics
        self.most = self.limits.in_flight
        """How many requests may be unanswered before no more are read; 0 while the session is held back."""
        self._line: deque[KafkaCall] = deque()
        """The requests that were taken and whose answers have not gone to `out`, in order."""
        self._blocked = False
        """Whether the next frame is of a request that may not begin before those in `_line` are answered."""
        self.client_id: str | None = None
        """The name that the client gave itself in its last request."""
        self._bytes: ClientBytes | None = None
        """The bytes of the clients with this name; None: there was no request."""
        self.software_name = self.software_version = ""
        """The client's library, if it has said so."""
        self.versions: dict[int, int] = {}
        """The version in which each kind of request came last, by api key."""
        self.fetch_session_id = 0
        """The id of the fetch session that this connection made last; 0: none."""
        self.learned: LearnedRequests | None = None
        """The forms of produce requests that need no decoder; None: none is known."""
        self.learned_forms: dict[int, LearnedRequests] = {}
        """Those of other requests, by api key; only their `take` is called."""

    @property
    def is_full(self) -> bool:
        return self._blocked or self.in_flight >= self.most or self.out_bytes >= self.limits.unsent_bytes

    @property
    def is_peer(self) -> bool:
        return False

    @property
    def is_client(self) -> bool:
        return True

    @property
    def apis(self) -> Mapping[int, KafkaApi]:
        """What the broker serves, by api key."""
        return self._apis

    def may(self, operation: Operation, resource: Resource) -> bool:
        """Whether the client may do this operation on resources of this kind."""
        return self._gate.allows(self.principal, operation, resource)

    @property
    def gate_version(self) -> int:
        """See `Gate.version`."""
        return self._gate.version

    def client_facts(self) -> ClientFacts:
        apis = self._apis
        requests = {apis[key].name: version for key, version in self.versions.items()}
        client_id, software = self.client_id or "", self.software_name
        return ClientFacts(ConnectionProtocol.KAFKA, client_id, software, self.software_version, requests)

    def unused_ms(self, limits: Limits) -> int:
        return limits.kafka_unused_connection_ms

    # --- input -----------------------------------------------------------------------------------

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        self.kept = at
        while end - at >= _HEAD_BYTES and not self.is_full:
            size, key, version = _read_head(buffer, at)
            stop = at + SIZE_BYTES + size
            self._check(size, key, version)
            if not self._may_begin(key):
                self._blocked = True
                break
            if stop > end:
                return at
            if key == _PRODUCE and self.learned is not None:
                taken = self.learned.take_run(self, view, at, end)
                if taken > 0:
                    at = taken
                    continue
            self._frame(view[at + SIZE_BYTES : stop])
            self.kept = at = stop
        if SIZE_BYTES <= end - at < _HEAD_BYTES:
            self._check_size(_read_size(buffer, at)[0], self.limits.frame_bytes)
        return at

    def frame_bytes(self, head: bytes) -> int:
        if len(head) < SIZE_BYTES:
            return 0
        return SIZE_BYTES + int(_read_size(head, 0)[0])

    def take_frame(self, frame: memoryview) -> None:
        size, key, version = _read_head(frame, 0)
        self._check(size, key, version)
        if (
            key == _PRODUCE
            and self.learned is not None
            and self.learned.take_run(self, frame, 0, len(frame)) > 0
        ):
            return
        self._frame(frame[SIZE_BYTES:])

    def may_take(self, head: memoryview) -> bool:
        may = self._has_turn(_read_head(head, 0)[1])
        self._blocked = not may
        return may

    def hold_back(self) -> None:
        self.most = 0

    def go_on(self) -> None:
        self.most = self.limits.in_flight
        self.ready()

    def _may_begin(self, key: int) -> bool:
        line = self._line
        if line and not (key == _PRODUCE and line[-1].api.key == _PRODUCE):
            return False
        return self._has_turn(key)

    def _has_turn(self, key: int) -> bool:
        """Whether a request may begin in this tick. Those that may have to unpack batches wait for another
        one when the room of this one is used up."""
        if key > _FETCH:
            return True
        return self.broker.unpacking.may_begin(self, self._take_turn)

    def _take_turn(self) -> None:
        """Asks the server to look at the frame that waits."""
        self._blocked = False
        self.ready()

    def _check(self, size: int, key: int, version: int) -> None:
        """Raises WireError for a frame of the wrong size, or of a request that the broker doesn't serve."""
        api = self._apis.get(key)
        if api is None:
            self._check_size(size, self.limits.frame_bytes)
            raise UnknownRequest(f"api key {key} is not served")
        self._check_size(size, self.limits.frame_bytes if api.carries_records else self.limits.request_bytes)
        if not api.lowest <= version <= api.highest and key != API_VERSIONS:
            raise UnknownRequest(
                f"{api.name} is served in versions {api.lowest}-{api.highest}, not {version}"
            )

    def _check_size(self, size: int, most: int) -> None:
        if not _HEAD_BYTES <= size <= most:
            raise wrong_size(size, _HEAD_BYTES, most)

    def _frame(self, frame: memoryview) -> None:
        """Calls the handler of a request, whose size, key and version are checked."""
        key, version = frame[0] << 8 | frame[1], frame[2] << 8 | frame[3]
        if key == _PRODUCE and self.learned is not None and self.learned.take(self, frame):
            return
        self.versions[key] = version
        api = self._apis[key]
        try:
            forms = self.learned_forms.get(key)
            if forms is not None and forms.take(self, frame):
                return
            if version > api.highest:  # of ApiVersions alone: its body can't be read, and needn't be
                (correlation_id,) = _read_correlation_id(frame, 4)
                call = KafkaCall(self, api, version, correlation_id, None, has_tags=False)
                body = frame[len(frame) :]
            else:
                header, at = RequestHeader.read(frame, 0, request_header_version(key, version))
                has_tags = response_header_version(key, version) > 0
                call = KafkaCall(
                    self, api, version, header.correlation_id, header.client_id, has_tags=has_tags
                )
                body = frame[at:]
            self.count_received(call.client_id, SIZE_BYTES + len(frame))
            if not self.may(api.operation, api.resource):
                raise NotAllowed(f"{api.name}: {api.operation.value} of {api.resource.value}")
            self.begin(call)
            api.handle(call, body)
        except WireError as error:
            self.metrics.kafka_requests[api.name, version, error.reason] += 1
            raise
        except Exception as error:  # a bug: the server logs it and closes the connection
            self.metrics.kafka_requests[api.name, version, _INTERNAL_ERROR] += 1
            error.add_note(f"while a Kafka client's {api.name}, version {version}, was handled")
            raise

    def count_received(self, client_id: str | None, size: int) -> None:
        """Counts the bytes of a request from a client of this name."""
        found = self._bytes
        if found is None or client_id != self.client_id:
            self.client_id = client_id
            found = self._bytes = self.metrics.client_bytes(client_id, self.settings.counted_client_ids)
        found.received += size

    def begin(self, call: KafkaCall) -> None:
        """Puts a request into the line of those that are not answered."""
        self._line.append(call)
        self.in_flight += call.requests

    # --- output ----------------------------------------------------------------------------------

    def answered(self, call: KafkaCall, outcome: str) -> None:
        """Counts a request's outcome, and sends its answer and those that waited for it."""
        metrics, name = self.metrics, call.api.name
        metrics.kafka_requests[name, call.version, outcome] += call.requests
        metrics.count_kafka_time(name, self.broker.tick.monotonic_us - call.began_us, call.requests)
        if self.closed:
            _release(call.out)
            return
        line = self._line
        while line and line[0].is_answered:
            first = line.popleft()
            self.in_flight -= first.requests
            self._send(first)
        if not line and (self._blocked or not call.out):
            # The server looks at the connection: for the frame that waits, or because it may be done.
            self._blocked = False
            self.ready()

    def _send(self, call: KafkaCall) -> None:
        if not call.out:
            return
        if not self.out:
            self.ready()
        self.out += call.out
        if call.has_ranges:
            self.has_chunks = True
        size = ranges = 0
        for output in call.out:
            if isinstance(output, FileRange):
                ranges += output.length
            else:
                size += len(output)
        self.out_bytes += size
        if self._bytes is not None:
            self._bytes.sent += size + ranges

    # --- waits -----------------------------------------------------------------------------------

    def may_wait(self, partitions: tuple[Partition, ...], entries: int) -> bool:
        """Whether a request that names this many partitions may wait, within the limits; else it is answered
        at once."""
        limits = self.limits
        if (
            entries <= limits.wait_entries
            and self.broker.deadlines.entries + entries <= limits.all_wait_entries
            and all(len(partition.waiters) < limits.waits_per_partition for partition in partitions)
        ):
            return True
        self.metrics.refused["too_many_waits"] += 1
        return False

    def begin_wait(
        self, waiter: Waiter[Partition], partitions: tuple[Partition, ...], max_wait_ms: int
    ) -> None:
        """Registers a waiting request, whose `waiter.entries` is set already."""
        waiter.asked_by = self
        self.broker.deadlines.wait(waiter, partitions, max_wait_ms)

    def end_wait(self, waiter: Waiter[Partition]) -> None:
        """Removes a waiting request, before its answer is sent."""
        self.broker.deadlines.forget(waiter)

    def close(self) -> None:
        """Ends all requests. Appended records stay; their answers are dropped."""
        super().close()
        self.broker.unpacking.leave(self)
        line, self._line = self._line, deque()
        for call in line:
            _release(call.out)
            if call.on_close is not None:
                call.on_close()


def _release(outputs: list[Output]) -> None:
    for output in outputs:
        if isinstance(output, FileRange):
            output.file.release()
