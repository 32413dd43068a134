"""Requests of clients for what another broker leads: what sessions hand over, and to whom.

Sessions make a `Forwarded` for each leader that a request needs; the node's `Forwarding` brings it there. See
docs/decisions/0012-forwarding.md.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.session import Session

FORWARDED_VERSION: Final = 0x101
"""The client version of a forwarded request, which is laid out as version 3."""
PURPOSE: Final = 2
"""Of the connection that carries them, in ReplicaId."""
_REQUEST_ID: Final = slice(7, 11)
"""In a frame of produce or consume: behind its head and the client version."""

_MOST_ENTRIES: Final = 255
"""Of one topic in a message."""

Entry = TypeVar("Entry")


class UnexpectedAnswer(WireError):
    """A frame that no leader sends, or an answer that is none to its request."""

    reason: ClassVar[str] = "unexpected_answer"


class ForwardingPolicy(StrEnum):
    """Which requests of TANK clients for what another broker leads are forwarded to it."""

    AUTO = "auto"
    """Those of clients that know no leaders, or can't be told where this one is."""
    ALWAYS = "always"
    NEVER = "never"


class Forwarded:
    """One request on its way to one leader. Whoever made it is told how it ended, once. Without slots: a
    compiled class inherits from it."""

    def __init__(self, frame: bytearray, deadline_ms: int) -> None:
        """frame: a whole one, of client version 0x101. deadline_ms: when it has failed, monotonic."""
        self.frame = frame
        self.message_id = frame[0]
        self.size_bytes = len(frame)
        self.deadline_ms = deadline_ms

    def take_frame(self, request_id: int) -> bytes:
        """The frame with this request id; it is not kept."""
        frame, self.frame = self.frame, bytearray()
        frame[_REQUEST_ID] = request_id.to_bytes(4, "little")
        return bytes(frame)

    def may_be_sent(self) -> bool:
        """Whether what it waited for the connection with still holds; else it fails, and is not sent."""
        return True

    def answered(self, payload: memoryview) -> None:
        """The leader's answer; the memory is not its own. Raises WireError before anything was done: it is
        no answer to this."""
        raise NotImplementedError

    def failed(self, *, sent: bool) -> None:
        """No answer will come. Not `sent`: the leader has not seen it, and never will."""
        raise NotImplementedError


def by_topic(named: Iterable[tuple[str, Entry]]) -> list[tuple[str, list[Entry]]]:
    """Entries under the names of their topics, in their order, as a message has them: one counts those of a
    topic in a byte, so a topic with more comes again."""
    topics: list[tuple[str, list[Entry]]] = []
    for name, entry in named:
        if not topics or topics[-1][0] != name or len(topics[-1][1]) == _MOST_ENTRIES:
            topics.append((name, []))
        topics[-1][1].append(entry)
    return topics


class Forwarding:
    """How a node forwards; of one without peers: not at all. `forwarder.Forwarder` is that of a cluster's."""

    def __init__(self, policy: ForwardingPolicy = ForwardingPolicy.NEVER) -> None:
        self.policy = policy
        self._taken: dict[int, Session] = {}
        """The connection on which each other broker forwards to this one, by its id."""

    @property
    def is_on(self) -> bool:
        """Whether any request may be forwarded."""
        return self.policy is not ForwardingPolicy.NEVER

    def send(self, leader: int, request: Forwarded, sender: "Session") -> bool:
        """Sends it behind all that went to that broker before. False: it can't be sent, and is forgotten."""
        return False

    def tick(self) -> None:
        """What is due by time. Call `begin_tick` first."""

    def taken(self, broker_id: int, session: "Session") -> None:
        """That broker forwards on this connection from now on. What came on an earlier one and was not looked
        at never will be: its clients have been told that it may not be stored."""
        before = self._taken.get(broker_id)
        self._taken[broker_id] = session
        if before is not None:
            before.hang_up("replaced")

    def left(self, session: "Session") -> None:
        """That connection has ended."""
        for broker_id, taken in self._taken.items():
            if taken is session:
                del self._taken[broker_id]
                return
