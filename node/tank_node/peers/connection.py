"""A connection that this broker makes to another one: the base of those for pushes and for requests."""

from collections.abc import Callable

from tank_node.frame_session import FrameSession
from tank_node.peers.identity import PeerIdentity
from tank_protos.generated.tank import ReplicaIdRequest


class PeerConnection(FrameSession):
    """This broker's end of the connection. The opening frame (ReplicaId, 4) is queued before the connection
    is dialed. The connection is open when the other broker has answered with its own opening; nothing else
    may be sent before."""

    __slots__ = ("dialed_ms", "identity", "is_open", "now_ms", "was_open")

    def __init__(self, identity: PeerIdentity, now_ms: Callable[[], int]) -> None:
        """now_ms: the monotonic time of the tick."""
        super().__init__()
        self.identity = identity
        self.now_ms = now_ms
        self.dialed_ms = now_ms()
        self.is_open = self.was_open = False
        self.send(identity.opening())

    def recognize(self, payload: memoryview) -> None:
        """Takes the answer to the opening; the connection is open then. Raises WireError when another broker
        than the intended one has answered."""
        self.identity.check(ReplicaIdRequest.decode(payload))
        self.is_open = self.was_open = True

    @property
    def is_done(self) -> bool:
        """Whether the connection isn't needed any more, so that it may end."""
        raise NotImplementedError

    def is_silent(self, silence_ms: int) -> bool:
        """Whether an answer has been due for `silence_ms`, on an open connection."""
        raise NotImplementedError
