"""Forwarding: requests of clients for partitions that another broker leads.

A session makes one `Forwarded` for each leader that a request needs; the node's `Forwarding` sends it there.
See docs/decisions/0012-forwarding.md.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.session import Session

FORWARDED_VERSION: Final = 0x101
"""The client version in a forwarded request; its layout is that of version 3."""
_REQUEST_ID: Final = slice(7, 11)
"""The place of the request id in a frame of produce or consume: behind the frame's head and client
version."""

_MOST_ENTRIES: Final = 255
"""The most partitions under one topic name in a request, which counts them in a byte."""

Entry = TypeVar("Entry")


class UnexpectedAnswer(WireError):
    """A frame that leaders don't send, or an answer that doesn't fit its request."""

    reason: ClassVar[str] = "unexpected_answer"


class ForwardingPolicy(StrEnum):
    """Which requests of TANK clients are forwarded when another broker leads."""

    AUTO = "auto"
    """Those of clients whose protocol version knows no leaders, or which can't be given the leader's
    address."""
    ALWAYS = "always"
    NEVER = "never"


class Forwarded:
    """One request on its way to one leader. Exactly one of `answered` and `failed` ends it. Without slots,
    because a compiled class inherits from it."""

    def __init__(self, frame: bytearray, deadline_ms: int) -> None:
        """frame: the whole request, with client version 0x101. deadline_ms: when it counts as failed
        (monotonic)."""
        self.frame = frame
        self.message_id = frame[0]
        self.size_bytes = len(frame)
        self.deadline_ms = deadline_ms

    def take_frame(self, request_id: int) -> bytes:
        """Returns the frame with this request id, and keeps no copy."""
        frame, self.frame = self.frame, bytearray()
        frame[_REQUEST_ID] = request_id.to_bytes(4, "little")
        return bytes(frame)

    def may_be_sent(self) -> bool:
        """Whether a request that waited for the connection to open is still right to send. If not, it fails
        unsent."""
        return True

    def answered(self, payload: memoryview) -> None:
        """Takes the leader's answer; `payload` is valid only during the call. Raises WireError, before any
        effect, when it is no answer to this request."""
        raise NotImplementedError

    def failed(self, *, sent: bool) -> None:
        """Ends the request without an answer. sent: whether the leader may have received it."""
        raise NotImplementedError


def by_topic(named: Iterable[tuple[str, Entry]]) -> list[tuple[str, list[Entry]]]:
    """Groups entries under their topics' names, in their order, for a request. A topic with more than 255
    entries is named again."""
    topics: list[tuple[str, list[Entry]]] = []
    for name, entry in named:
        if not topics or topics[-1][0] != name or len(topics[-1][1]) == _MOST_ENTRIES:
            topics.append((name, []))
        topics[-1][1].append(entry)
    return topics


class Forwarding:
    """Forwards requests to other brokers. This base class is for a node without a cluster, and forwards
    nothing; `peers.forwarder.Forwarder` is a cluster's."""

    def __init__(self, policy: ForwardingPolicy = ForwardingPolicy.NEVER) -> None:
        self.policy = policy
        self._taken: dict[int, Session] = {}
        """The connection on which each broker forwards requests to this one, by broker id."""

    @property
    def is_on(self) -> bool:
        """Whether requests may be forwarded at all."""
        return self.policy is not ForwardingPolicy.NEVER

    def send(self, leader: int, request: Forwarded, sender: "Session") -> bool:
        """Sends a request behind all earlier ones to that broker. Returns False when it can't be sent: the
        request is dropped."""
        return False

    def tick(self) -> None:
        """Does the work that is due by time. Call `begin_tick` first."""

    def taken(self, broker_id: int, session: "Session") -> None:
        """Notes that a broker forwards on this connection from now on, and closes its earlier one. Requests
        that were not read from the earlier one are dropped: their clients have an answer that they may not be
        stored."""
        before = self._taken.get(broker_id)
        self._taken[broker_id] = session
        if before is not None:
            before.hang_up("replaced")

    def left(self, session: "Session") -> None:
        """Notes that this connection has ended."""
        for broker_id, taken in self._taken.items():
            if taken is session:
                del self._taken[broker_id]
                return
