"""The connection to a broker that leads, as a conversation: requests of clients go out in order, and answers
come back. No I/O.

Nothing is sent before the other end has answered the opening with its own, which tells that it is the broker
that was meant. What was handed to the connection and is unanswered when that ends may have been done, and is
never sent again.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from tank_node.broker.forwarding import Forwarded, UnexpectedAnswer
from tank_node.frame_session import FrameSession
from tank_node.limits import MIB, Limits
from tank_node.metrics import OK, Metrics
from tank_node.peers.identity import PeerIdentity
from tank_node.session import Session
from tank_protos.generated.tank import ReplicaIdRequest
from tank_protos.wire.framing import HEADER_BYTES

NOT_SENT: Final = "not_sent"
NOT_ANSWERED: Final = "not_answered"
"""Outcomes in the metrics."""
_PRODUCE: Final = 1
_CONSUME: Final = 2
_PING: Final = 3
_HEAD_BYTES: Final = 4 * MIB
"""More than the head of any consume answer: 255 topics with 255 partitions each."""
_LEAST_BYTES: Final = {_PRODUCE: 4, _CONSUME: 8}
"""Up to the request id."""
_REQUEST_IDS: Final = 2**32
_read_frame: Final = Struct("<BI").unpack_from
_read_two: Final = Struct("<II").unpack_from
_read_one: Final = Struct("<I").unpack_from


class ForwardSession(FrameSession):
    """One outgoing connection to a broker that leads.

    Invariant: `pending_bytes` is what the requests in `_waiting`, `_sent` and `_late` take together.
    """

    __slots__ = (
        "_ended", "_held_back", "_late", "_late_since_ms", "_limits", "_metrics", "_next_id", "_sent",
        "_waiting", "dialed_ms", "heard_ms", "identity", "is_open", "now_ms", "pending_bytes", "used_ms",
        "was_open",
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
        """now_ms: the monotonic time of the tick. ended: called when the connection is, or never came to
        be."""
        super().__init__()
        self.identity = identity
        self.now_ms = now_ms
        self.is_open = self.was_open = False
        self.dialed_ms = self.heard_ms = self.used_ms = now_ms()
        """When it was dialed, anything came, and a request was last under way."""
        self.pending_bytes = 0
        self._limits = limits
        self._metrics = metrics
        self._ended = ended
        self._waiting: deque[Forwarded] = deque()
        """Until it is open."""
        self._sent: dict[int, Forwarded] = {}
        """By request id, and in their order."""
        self._late: dict[int, int] = {}
        """The same of those whose time was over, and how many bytes: they may still lie unsent in this
        connection, and count until the answer comes or the connection ends."""
        self._late_since_ms = 0
        """When the first of those became late."""
        self._next_id = 1
        self._held_back: list[Session] = []
        """Clients that are not read until less is pending."""
        self.send(identity.opening())

    # --- requests --------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many requests are not answered."""
        return len(self._waiting) + len(self._sent) + len(self._late)

    @property
    def silent_ms(self) -> int:
        """For how long answers are overdue and nothing at all was heard; 0: none are."""
        return self.now_ms() - max(self.heard_ms, self._late_since_ms) if self._late else 0

    def forward(self, request: Forwarded, sender: Session) -> None:
        """Sends it when all before it are. A sender that brings more than flows away is held back."""
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
        """It is pending no more."""
        self._metrics.forwarded[request.message_id, outcome] += 1
        self.pending_bytes -= request.size_bytes
        self.used_ms = self.now_ms()

    def _let_go(self) -> None:
        """Reads those again that were held back, when there is room."""
        if self._held_back and (self.closed or self.pending_bytes < self._limits.forwarded_bytes):
            held_back, self._held_back = self._held_back, []
            for sender in held_back:
                sender.go_on()

    def expire(self) -> None:
        """Ends those whose time is over. An answer that still comes is not looked at."""
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
            message_id, length = _read_frame(buffer, at)
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
        if message_id not in (_PRODUCE, _CONSUME, _PING, ReplicaIdRequest.ID) or length > most:
            raise UnexpectedAnswer(f"message {message_id} of {length} bytes from a leader")

    def frame(self, message_id: int, payload: memoryview) -> None:
        self._check(message_id, len(payload))
        self.heard_ms = self.now_ms()
        if message_id == ReplicaIdRequest.ID and not self.is_open:
            self.identity.check(ReplicaIdRequest.decode(payload))
            self.is_open = self.was_open = True
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
        request_id = _read_one(payload)[0] if message_id == _PRODUCE else _read_two(payload)[1]
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
