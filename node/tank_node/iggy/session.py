"""The protocol state of one connection with a client of Iggy's protocol: requests in, calls to the broker,
answers out in the requests' order. No I/O, no clock.

Source: Apache Iggy's clients and servers from 2023 on; docs/protocol/iggy.md says what this broker does.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from struct import Struct
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.client_facts import NO_VERSION, ClientFacts
from tank_node.iggy.access import CommandAccess
from tank_node.iggy.last_change import LastChange
from tank_node.iggy.learned import LearnedHeads
from tank_node.iggy.refusals import IggyFault
from tank_node.iggy.services import IggyServices
from tank_node.iggy.waits import Farewell
from tank_node.limits import Limits
from tank_node.metrics import OK, Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.session import Session
from tank_node.users.logins import ANONYMOUS_USER, LoggedIn
from tank_node.users.rights import IggyAction
from tank_protos.error_codes import ConnectionProtocol
from tank_protos.iggy import classic, vsr
from tank_protos.iggy.commands import IggyCode, is_framed
from tank_protos.iggy.era_detector import EraDetector, NeedMore
from tank_protos.iggy.eras import B3, ERA_NAMES, ERAS, SEED, V11, Era, Framing
from tank_protos.iggy.errors import IggyError, IggyRefusal, IggyTrouble, closes, code_of
from tank_protos.iggy.vsr import EvictionReason, VsrRequest
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import WireError

_FIRST_BYTES: Final = 4
"""The bytes of a connection that show its framing."""
_read_u32: Final = Struct("<I").unpack_from
_INTERNAL_ERROR: Final = "internal_error"
_REPEAT: Final = "repeat"
_UNKNOWN: Final = "unknown"
"""Stands for all commands that there are not."""
_NO_BODY: Final = memoryview(b"")
_FAREWELL_MS: Final = 100
"""How long an answer has to leave before its connection is closed."""
_TRANSIENT: Final = frozenset({IggyError.TRANSIENT_NOT_COMMITTED, IggyError.TRANSIENT_NOT_ACCEPTED})
_DENIALS: Final = frozenset(
    {
        IggyError.UNAUTHENTICATED,
        IggyError.UNAUTHORIZED,
        IggyError.ALREADY_AUTHENTICATED,
        IggyError.REQUEST_ALREADY_APPLIED,
    }
)
"""Errors from before a request is looked at, which a framed answer has in its header."""
_LEAVES: Final = -1
"""In the place of how many requests may be unanswered: the connection is about to be closed."""

EVERY_ERA: Final = range(len(ERAS))
"""The versions of all eras."""
_LATEST_CLASSIC: Final = B3


class Carries(Enum):
    """What a command's frame may bring."""

    FIELDS = 0
    MESSAGES = 1
    """Its frame may be as long as `Limits.frame_bytes`."""


@dataclass(slots=True, eq=False)
class IggyCommand:
    """The handler of one command, and the checks before it."""

    code: IggyCode
    handle: "Callable[[IggyCall, memoryview], None]"
    """Takes the call and the request's payload, which is valid during the handler's call. Raises WireError
    for one that it can't read, IggyRefusal with an error. The first request may replace it."""
    access: CommandAccess | IggyAction
    """Who may send the command; what it is about is checked by the handler."""
    eras: range = EVERY_ERA
    """The versions of the eras that know the command."""
    carries: Carries = Carries.FIELDS
    is_change: bool = False
    """It changes or removes what it names: it begins when the broker's view has all that was committed before
    it came, so that a name is never that of something else in the meantime."""

    @property
    def name(self) -> str:
        """For metrics and logs."""
        return self.code.name.lower()


class IggyCall:
    """A request that was taken and is not answered, or whose answer waits for those before it.

    The handler calls one of `answer` and `fail` once, during its own call or later. The session sends the
    answers in the order of the requests.
    """

    __slots__ = ("began_us", "command", "era", "is_answered", "on_close", "out", "request", "session")

    def __init__(
        self, session: "IggySession", command: IggyCommand | None, era: Era, request: VsrRequest | None
    ) -> None:
        self.session = session
        self.command = command
        """None: there is no command of the request's code."""
        self.era = era
        self.request = request
        """The header of a framed request, without its body; None: the framing is classic."""
        self.began_us = session.broker.tick.monotonic_us
        self.is_answered = False
        self.out: Sequence[bytes] = ()
        """The answer's pieces, while it waits for those before it."""
        self.on_close: Callable[[], None] | None = None
        """Called when the connection ends before the answer: the handler ends its waits there."""

    @property
    def is_send(self) -> bool:
        """Whether the request sends messages."""
        return self.command is not None and self.command.code is IggyCode.SEND_MESSAGES

    def answer(self, payload: Sequence[Buffer] = (), outcome: str = OK) -> None:
        """Sends an answer without an error."""
        self._end(self._frame(payload), outcome)

    def fail(self, fault: IggyFault) -> None:
        """Sends an error, as the client's era knows it; or closes the connection, where that era has none."""
        outcome = fault.name.lower()
        if not closes(fault, self.era):
            self._end([self._error_frame(code_of(fault, self.era))], outcome)
            return
        self.session.leave(outcome)
        is_told = fault is IggyTrouble.NOT_ACKNOWLEDGED and self.request is None
        self._end([self._error_frame(code_of(fault, self.era))] if is_told else (), outcome)

    def repeat(self, answer: bytes) -> None:
        """Sends the answer that the same request got before."""
        self._end([answer], _REPEAT)

    def evict(self, reason: EvictionReason) -> None:
        """Ends the session of a framed client with the frame for that, and its connection."""
        request = self.request
        assert request is not None
        self.session.leave("evicted")
        self._end([vsr.eviction(request.client, reason)], reason.name.lower())

    def _frame(self, payload: Sequence[Buffer]) -> Sequence[bytes]:
        request = self.request
        if request is None:
            return classic.response_pieces(payload)
        body = vsr.framed(payload) if is_framed(request.operation) else payload
        return [self.session.framed_reply(request, body)]

    def _error_frame(self, code: IggyError) -> bytes:
        request = self.request
        if request is None:
            return classic.error_response(code)
        if is_framed(request.operation) and code not in _TRANSIENT and code not in _DENIALS:
            return self.session.framed_reply(request, [vsr.rejected(code)])
        return self.session.framed_reply(request, (), code)

    def _end(self, out: Sequence[bytes], outcome: str) -> None:
        assert not self.is_answered, "a request is answered twice"
        self.is_answered = True
        self.on_close = None
        self.out = out
        self.session.answered(self, outcome)


class IggySession(Session):
    """The session of one Iggy client. `dispatch.open_session` makes it.

    Invariant: all requests in `_line` are sends, or there is one: the effects of requests come in their
    order, so a request begins when all before it are answered, but that sends of classic clients may follow
    one another.
    """

    __slots__ = (
        "_blocked", "_commands", "_detector", "_first", "_line", "access", "broker", "endings", "era",
        "last_change", "learned", "limits", "metrics", "most", "principal", "requests", "services",
        "session_number", "settings", "software", "turns",
    )  # fmt: skip

    def __init__(self, broker: Broker, commands: Mapping[int, IggyCommand], services: IggyServices) -> None:
        super().__init__()
        self.broker = broker
        self.settings = services.settings
        self.access = services.access
        self.services = services
        self._commands = commands
        self.limits: Limits = broker.limits
        self.metrics: Metrics = broker.metrics
        self.most = self.limits.in_flight
        """How many requests may be unanswered before no more are read; 0 while the session is held back,
        _LEAVES at its end."""
        self._line: deque[IggyCall] = deque()
        """The requests that were taken and whose answers have not gone to `out`, in order."""
        self._blocked = False
        """Whether the next frame may not begin before those in `_line` are answered."""
        self._first = b""
        """The connection's first bytes, which show its framing; empty: they have not come."""
        self._detector = self._new_detector()
        self.era: Era | None = None
        """None: the client has shown nothing but pings."""
        self.principal: LoggedIn | None = None
        """The user that is logged in."""
        self.software = ""
        """The version of the client's library, if it has said so."""
        self.session_number = 0
        """The number that a framed client's session got at its login; 0: there was none."""
        self.last_change = LastChange()
        self.learned = LearnedHeads()
        self.requests: dict[str, int] = {}
        """The commands that came."""
        self.turns: dict[int, int] = {}
        """How many sends went to each topic whose partition this session chose, by the topic's id."""
        self.endings: dict[str, Callable[[], None]] = {}
        """What is called when the connection has ended, by what it is about."""

    def _new_detector(self) -> EraDetector:
        return EraDetector(ERA_NAMES.get(self.settings.era))

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
    def client_number(self) -> int:
        """The number of this connection, as Iggy's clients see it: brokers in a cluster have different ones.
        A u32 with room for 4,095 brokers and a million connections each, after which numbers come again."""
        return (self.broker.link.view.broker_id & 0xFFF) << 20 | self.serial & 0xFFFFF

    def client_facts(self) -> ClientFacts:
        era = self.era
        return ClientFacts(
            ConnectionProtocol.IGGY,
            "" if self.principal is None else self.principal.name,
            "" if era is None else f"iggy {era.name}",
            self.software,
            dict.fromkeys(self.requests, NO_VERSION),
        )

    def unused_ms(self, limits: Limits) -> int:
        return limits.kafka_unused_connection_ms

    # --- input -----------------------------------------------------------------------------------

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        self.kept = at  # no handler leaves bytes of a frame to the end of the tick
        while not self.is_full:
            size = self._size(view[at:end])
            if not size or size > end - at or self._must_wait(view[at:end]):
                break
            self._frame(view[at : at + size])
            at += size
        return at

    def frame_bytes(self, head: bytes) -> int:
        return self._size(head)

    def take_frame(self, frame: memoryview) -> None:
        self._size(frame)
        self._frame(frame)

    def may_take(self, head: memoryview) -> bool:
        return not self.is_full and not self._must_wait(head)

    def hold_back(self) -> None:
        self.most = min(self.most, 0)

    def go_on(self) -> None:
        if self.most != _LEAVES:
            self.most = self.limits.in_flight
            self.ready()

    def leave(self, reason: str) -> None:
        """Takes no more requests, and closes the connection when its answers had time to leave."""
        self.most = _LEAVES
        Farewell(self.broker.deadlines, self, reason).begin(_FAREWELL_MS)

    @property
    def is_framed(self) -> bool:
        """Whether the client's requests have headers of 256 bytes."""
        return self._detector.framing is Framing.VSR

    def _size(self, head: Buffer) -> int:
        """The size of the frame that begins with these bytes; 0: they are too few to tell. Raises WireError
        for one that is too short or too long."""
        if len(head) < _FIRST_BYTES:
            return 0
        if not self._first:
            self._first = bytes(head[:_FIRST_BYTES])
            self._detector.feed(self._first)
        most_bytes = self.limits.frame_bytes
        if self.is_framed:
            return vsr.frame_bytes(head, most_bytes) or 0
        return classic.request_bytes(head, most_bytes) or 0

    def _must_wait(self, head: Buffer) -> bool:
        """Whether the next request has to wait for those before it."""
        line = self._line
        if not line:
            return False
        is_send = (
            not self.is_framed
            and len(head) >= classic.HEAD_BYTES
            and _read_u32(head, classic.LENGTH_BYTES)[0] == IggyCode.SEND_MESSAGES
        )
        self._blocked = not (is_send and line[-1].is_send)
        return self._blocked

    def _frame(self, frame: memoryview) -> None:
        """Takes a whole request."""
        request = None
        if self.is_framed:
            request = vsr.read_request(frame)
            code, payload = request.code, request.body
            request = replace(request, body=_NO_BODY)  # the frame's buffer is used again
        else:
            code, payload = classic.read_request(frame)
        command = self._commands.get(code)
        may_be_long = command is not None and command.carries is Carries.MESSAGES
        is_too_long = not may_be_long and len(payload) > self.limits.iggy_request_bytes
        try:
            era = (self.era or self._era_before_login) if is_too_long else self._era_of(frame)
        except IggyRefusal:
            self._refuse_protocol(request)
            return
        call = IggyCall(self, command, era, request)
        self._line.append(call)
        self.in_flight += 1
        if command is None or era.version not in command.eras:
            call.fail(IggyTrouble.UNKNOWN_COMMAND)
        elif is_too_long:
            call.fail(IggyTrouble.MALFORMED)
        elif request is None or not self._is_repeat(call, request):
            self._carry_out(call, command, payload)

    @property
    def _era_before_login(self) -> Era:
        """Stands for an era that is not known yet: what may come then is the same in all of a framing."""
        return V11 if self.is_framed else _LATEST_CLASSIC

    def _era_of(self, frame: memoryview) -> Era:
        """The era of the client that sent this frame."""
        era = self.era
        if era is not None and era is not SEED:
            return era
        found = self._detector.feed(self._first, frame)
        if isinstance(found, NeedMore):
            return self._era_before_login
        if found is era:
            return found
        if found is SEED and not self.settings.anonymous:
            self._detector = self._new_detector()  # the client may log in after all
            self._detector.feed(self._first)
            return found
        self._note_era(found)
        return found

    def _note_era(self, era: Era) -> None:
        before, self.era = self.era, era
        self.software = self._detector.sdk_version or ""
        if before is None:
            self.metrics.begin_iggy_session(era.name)
        else:
            self.metrics.narrow_iggy_session(before.name, era.name)
        if self._detector.is_unknown_sdk:
            self.metrics.count_unknown_sdk(self.software)
        self.principal = ANONYMOUS_USER if era is SEED else None

    def narrow(self, payload: memoryview) -> Era:
        """Tells era A1 from A2 by a request to create a topic; returns the era."""
        era, narrowed = self.era, self._detector.narrow(payload)
        assert era is not None
        if narrowed is not era:
            self.metrics.narrow_iggy_session(era.name, narrowed.name)
            self.era = narrowed
        return narrowed

    def _refuse_protocol(self, request: VsrRequest | None) -> None:
        assert request is not None
        self.metrics.refused["iggy_protocol"] += 1
        self.send(vsr.eviction(request.client, EvictionReason.INCOMPATIBLE_PROTOCOL))
        self.leave("incompatible_protocol")

    def _is_repeat(self, call: IggyCall, request: VsrRequest) -> bool:
        """Whether a framed request was sent again that was answered: it gets the same answer."""
        answer = self.last_change.answer_to(request)
        if answer is None:
            return False
        if answer:
            call.repeat(answer)
        else:
            call.fail(IggyError.REQUEST_ALREADY_APPLIED)
        return True

    def _carry_out(self, call: IggyCall, command: IggyCommand, payload: memoryview) -> None:
        self.requests[command.name] = 1
        denied = self._denial(command)
        if denied is not None:
            call.fail(denied)
        elif command.is_change:
            kept = memoryview(bytes(payload))  # the frame's buffer is used again
            begin = partial(self._begin_change, call, command, kept)
            self.broker.link.requests.await_view(begin, of_client=True)
        else:
            self._handle(call, command, payload)

    def _begin_change(self, call: IggyCall, command: IggyCommand, payload: memoryview, is_new: bool) -> None:
        """is_new: whether the view has all that was committed before the request came."""
        if self.closed:
            return
        if is_new:
            self._handle(call, command, payload)
        else:
            call.fail(IggyTrouble.LEADER_UNKNOWN)

    def _handle(self, call: IggyCall, command: IggyCommand, payload: memoryview) -> None:
        try:
            command.handle(call, payload)
        except IggyRefusal as refused:
            call.fail(refused.error)
        except WireError as error:
            self.broker.refusals.note(error.reason, f"{command.name}: {error}", self.broker.tick.monotonic_ms)
            call.fail(IggyTrouble.MALFORMED)
        except Exception as error:  # a bug: the server logs it and closes the connection
            self.metrics.iggy_requests[command.name, call.era.name, _INTERNAL_ERROR] += 1
            error.add_note(f"while an Iggy client's {command.name} of era {call.era.name} was handled")
            raise

    def _denial(self, command: IggyCommand) -> IggyError | None:
        if command.access is CommandAccess.PUBLIC:
            return None
        principal = self.principal
        if principal is None or not self.access.logins.is_current(principal):
            self.principal = None
            return IggyError.UNAUTHENTICATED
        needed = command.access
        may = isinstance(needed, CommandAccess) or self.access.authorizer.allows(principal, needed)
        return None if may else IggyError.UNAUTHORIZED

    # --- output ----------------------------------------------------------------------------------

    def framed_reply(self, request: VsrRequest, body: Sequence[Buffer], status: int = 0) -> bytes:
        """Returns an answer to a framed request, and keeps it for the request's repeat."""
        timestamp_us = self.broker.tick.now_ms * 1000
        reply = vsr.reply(request, body, commit=request.number, status=status, timestamp_us=timestamp_us)
        self.last_change.keep(request, reply, status)
        return reply

    def answered(self, call: IggyCall, outcome: str) -> None:
        """Counts a request's outcome, and sends its answer and those that waited for it."""
        metrics, name = self.metrics, _UNKNOWN if call.command is None else call.command.name
        metrics.iggy_requests[name, call.era.name, outcome] += 1
        metrics.count_iggy_time(name, self.broker.tick.monotonic_us - call.began_us)
        if self.closed:
            return
        line = self._line
        while line and line[0].is_answered:
            first = line.popleft()
            self.in_flight -= 1
            for piece in first.out:
                self.send(piece)
        if not line and self._blocked:
            self._blocked = False
            self.ready()  # the server looks at the connection, for the frame that waits

    # --- waits -----------------------------------------------------------------------------------

    def may_wait(self, partitions: tuple[Partition, ...], entries: int) -> bool:
        """Whether a request that names this many partitions may wait, within the limits."""
        limits = self.limits
        if self.broker.deadlines.entries + entries <= limits.all_wait_entries and all(
            len(partition.waiters) < limits.waits_per_partition for partition in partitions
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
        """Ends all requests. Appended messages stay; their answers are dropped."""
        if self.era is not None and not self.closed:
            self.metrics.iggy_connections[self.era.name] -= 1
        super().close()
        line, self._line = self._line, deque()
        for call in line:
            if call.on_close is not None:
                call.on_close()
        for end in self.endings.values():
            end()
