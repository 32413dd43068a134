"""A connection on which this broker forwards clients' requests, in order, to a broker that leads partitions,
and gets the answers. No I/O.

A request that was sent and has no answer when the connection ends may have been carried out, and is never
sent again.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from tank_node.broker.forwarding import Forwarded, UnexpectedAnswer
from tank_node.limits import MIB, Limits
from tank_node.metrics import OK, Metrics
from tank_node.peers.connection import PeerConnection
from tank_node.peers.identity import PeerIdentity
from tank_node.session import Session
from tank_protos.generated.tank import (
    AppendStoredRequest,
    FetchStoredRequest,
    GroupRequest,
    PartitionControlRequest,
    PartitionSizesRequest,
    ReplicaIdRequest,
)
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES

NOT_SENT: Final = "not_sent"
NOT_ANSWERED: Final = "not_answered"
"""Outcomes of forwarded requests, as the metrics name them."""
_PRODUCE: Final = 1
_CONSUME: Final = 2
_PING: Final = 3
_GROUPS: Final = GroupRequest.ID
_HEAD_BYTES: Final = 4 * MIB
"""More than the head of any consume answer: 255 topics with 255 partitions each."""
_STORED: Final = FetchStoredRequest.ID
_LEAST_BYTES: Final = {
    _PRODUCE: 4,
    _CONSUME: 8,
    _GROUPS: 4,
    _STORED: 4,
    AppendStoredRequest.ID: 4,
    PartitionControlRequest.ID: 4,
    PartitionSizesRequest.ID: 4,
}
"""How long an answer is at least, by message id: up to its request id."""
_REQUEST_IDS: Final = 2**32
_read_head: Final = FRAME_HEAD.unpack_from
_read_two: Final = Struct("<II").unpack_from
_read_one: Final = Struct("<I").unpack_from


class ForwardSession(PeerConnection):
    """One outgoing connection to a broker that leads.

    Invariant: `pending_bytes` is the size of all requests in `_waiting`, `_sent` and `_late`.
    """

    __slots__ = (
        "_ended", "_held_back", "_late", "_late_since_ms", "_limits", "_metrics", "_next_id", "_sent",
        "_waiting", "heard_ms", "pending_bytes", "used_ms",
    )  # fmt: skip

    def __init__(
        self,
        identity: PeerIdentity,
        limits: Limits,
        metrics: Metrics,
        *,
        now_ms: Callable[[], int],
        ended: "Callable[[ForwardSession], None]",
    ) -> None:
        """now_ms: the monotonic time of the tick. ended: called when the connection has ended, or could not
        be made."""
        super().__init__(identity, now_ms)
        self.heard_ms = self.used_ms = self.dialed_ms
        """When the last frame came, and when a request was last under way."""
        self.pending_bytes = 0
        self._limits = limits
        self._metrics = metrics
        self._ended = ended
        self._waiting: deque[Forwarded] = deque()
        """Requests that wait until the connection is open."""
        self._sent: dict[int, Forwarded] = {}
        """Requests without an answer, by request id and in the order of sending."""
        self._late: dict[int, int] = {}
        """The sizes, by request id, of requests that failed because their time was over. Their bytes may
        still lie in this connection's buffers, so they count until the answer comes or the connection
        ends."""
        self._late_since_ms = 0
        """When the first request in `_late` became late."""
        self._next_id = 1
        self._held_back: list[Session] = []
        """Sessions of clients that are not read until fewer bytes are pending."""

    # --- requests --------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many requests are not answered."""
        return len(self._waiting) + len(self._sent) + len(self._late)

    @property
    def silent_ms(self) -> int:
        """How long an answer has been overdue while no frame came; 0: no answer is overdue."""
        return self.now_ms() - max(self.heard_ms, self._late_since_ms) if self._late else 0

    @property
    def is_done(self) -> bool:
        idle_ms = self.now_ms() - self.used_ms
        return not self.pending and idle_ms >= self._limits.forwarded_idle_ms

    def is_silent(self, silence_ms: int) -> bool:
        if self.silent_ms >= silence_ms:
            return True  # clients that are held back for this connection would wait in vain
        return self.now_ms() - self.heard_ms >= self._limits.forwarded_silence_ms

    def forward(self, request: Forwarded, sender: Session) -> None:
        """Sends a request after those before it, once the connection is open. Holds the sender's session back
        while too many bytes are pending."""
        self.pending_bytes += request.size_bytes
        self.used_ms = self.now_ms()
        if self.is_open:
            self._write(request)
        else:
            self._waiting.append(request)
        if self.pending_bytes >= self._limits.forwarded_bytes:
            sender.hold_back()
            self._held_back.append(sender)

    def _write(self, request: Forwarded) -> None:
        request_id = self._next_id
        self._next_id = request_id % (_REQUEST_IDS - 1) + 1
        self._sent[request_id] = request
        self.send(request.take_frame(request_id))

    def _over(self, request: Forwarded, outcome: str) -> None:
        """Counts a request's outcome; the request is pending no more."""
        self._metrics.forwarded[request.message_id, outcome] += 1
        self.pending_bytes -= request.size_bytes
        self.used_ms = self.now_ms()

    def _let_go(self) -> None:
        """Lets the held back sessions be read again, when few enough bytes are pending."""
        if self._held_back and (self.closed or self.pending_bytes < self._limits.forwarded_bytes):
            held_back, self._held_back = self._held_back, []
            for sender in held_back:
                sender.go_on()

    def expire(self) -> None:
        """Fails the requests whose time is over. Their answers are dropped if they still come."""
        now_ms = self.now_ms()
        if late := [request for request in self._waiting if request.deadline_ms <= now_ms]:
            self._waiting = deque(request for request in self._waiting if request.deadline_ms > now_ms)
            for request in late:
                self._over(request, NOT_SENT)
                request.failed(sent=False)
        for request_id, request in [one for one in self._sent.items() if one[1].deadline_ms <= now_ms]:
            if not self._late:
                self._late_since_ms = now_ms
            self._late[request_id] = self._sent.pop(request_id).size_bytes
            self._metrics.forwarded[request.message_id, NOT_ANSWERED] += 1
            request.failed(sent=True)
        self._let_go()

    # --- answers ---------------------------------------------------------------------------------

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        while end - at >= HEADER_BYTES:
            message_id, length = _read_head(buffer, at)
            self._check(message_id, length)
            stop = at + HEADER_BYTES + length
            if stop > end:
                break
            self.frame(message_id, view[at + HEADER_BYTES : stop])
            at = stop
        self.kept = at
        return at

    def _check(self, message_id: int, length: int) -> None:
        limits = self._limits
        most = limits.request_bytes
        if message_id == _CONSUME:
            most = limits.forwarded_answer_bytes + limits.bundle_bytes + _HEAD_BYTES
        elif message_id == _GROUPS:
            most = limits.forwarded_answer_bytes + HEADER_BYTES + limits.request_bytes
        elif message_id == _STORED:
            most = limits.iggy_poll_bytes + limits.bundle_bytes + _HEAD_BYTES
        is_known = message_id in _LEAST_BYTES or message_id in (_PING, ReplicaIdRequest.ID)
        if not is_known or length > most:
            raise UnexpectedAnswer(f"message {message_id} of {length} bytes from a leader")

    def frame(self, message_id: int, payload: memoryview) -> None:
        self._check(message_id, len(payload))
        self.heard_ms = self.now_ms()
        if message_id == ReplicaIdRequest.ID and not self.is_open:
            self.recognize(payload)
            waiting, self._waiting = self._waiting, deque()
            for request in waiting:
                if request.may_be_sent():
                    self._write(request)
                else:
                    self._over(request, NOT_SENT)
                    request.failed(sent=False)
            self._let_go()
        elif message_id == _PING:
            return
        elif self.is_open and len(payload) >= _LEAST_BYTES.get(message_id, len(payload) + 1):
            self._answer(message_id, payload)
        else:
            raise UnexpectedAnswer(f"message {message_id} of {len(payload)} bytes from a leader")

    def _answer(self, message_id: int, payload: memoryview) -> None:
        request_id = _read_two(payload)[1] if message_id == _CONSUME else _read_one(payload)[0]
        request = self._sent.get(request_id)
        if request is None:  # its time was over
            self.pending_bytes -= self._late.pop(request_id, 0)
            self._let_go()
            return
        request.answered(payload)
        if self._sent.pop(request_id, None) is not None:
            self._over(request, OK)
        self._let_go()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self.is_open = False
        waiting, self._waiting = self._waiting, deque()
        sent, self._sent = self._sent, {}
        self.pending_bytes -= sum(self._late.values())
        self._late.clear()
        self._ended(self)
        for request in sent.values():
            self._over(request, NOT_ANSWERED)
            request.failed(sent=True)
        for request in waiting:
            self._over(request, NOT_SENT)
            request.failed(sent=False)
        self._let_go()
