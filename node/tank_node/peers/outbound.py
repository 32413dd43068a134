"""The leader's end of a peer connection, as a conversation: it opens, is recognized, and pushes. No I/O.

It is dialed with the opening queued. Nothing is pushed before the follower has answered with the same message
(ReplicaId, 4), which tells that it is the broker that was meant, in this cluster, with this process.
"""

from collections.abc import Callable
from struct import Struct
from typing import ClassVar, Final

from tank_node.frame_session import FrameSession
from tank_node.log.segment import Stretch
from tank_node.peers.identity import PeerIdentity
from tank_node.replication.push_frame import read_answer
from tank_node.replication.stream import PushLine
from tank_protos.generated.tank import PushAnswer, ReplicaIdRequest
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import HEADER_BYTES

_PING: Final = 3
_frame_head = Struct("<BI")
_MOST_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""An answer to the most partitions that one push can name (65,025, of 39 bytes each) is shorter."""
_MOST_FRAMES: Final = 64
"""Of one call; the window bounds it too."""


class UnexpectedFrame(WireError):
    """A frame that no follower sends."""

    reason: ClassVar[str] = "unexpected_frame"


class PushSession(FrameSession):
    """One outgoing connection to a follower."""

    __slots__ = ("_ended", "_opened", "identity", "is_open", "line", "now_ms")

    def __init__(
        self,
        identity: PeerIdentity,
        line: PushLine,
        *,
        now_ms: Callable[[], int],
        opened: "Callable[[PushSession], None]",
        ended: "Callable[[PushSession], None]",
    ) -> None:
        """now_ms: the monotonic time of the tick. opened: called when the follower is recognized. ended: when
        the connection is, or never came to be."""
        super().__init__()
        self.identity = identity
        self.line = line
        self.now_ms = now_ms
        self.is_open = False
        self._opened = opened
        self._ended = ended
        self.send(identity.opening())

    @property
    def hears_while_sending(self) -> bool:
        """What a follower has answered is acknowledged to producers whatever it is sent meanwhile, which the
        window bounds."""
        return True

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        while end - at >= HEADER_BYTES:
            message_id, length = _frame_head.unpack_from(buffer, at)
            if length > _MOST_ANSWER_BYTES:
                raise UnexpectedFrame(f"{length} bytes from a follower")
            stop = at + HEADER_BYTES + length
            if stop > end:
                break
            self.frame(message_id, view[at + HEADER_BYTES : stop])
            at = stop
        self.kept = at
        self.pump()
        return at

    def frame(self, message_id: int, payload: memoryview) -> None:
        if message_id == PushAnswer.ID and self.is_open:
            self.line.answered(read_answer(payload), self.now_ms())
        elif message_id == ReplicaIdRequest.ID and not self.is_open:
            self.identity.check(ReplicaIdRequest.decode(payload))
            self.is_open = True
            self._opened(self)
        elif message_id != _PING:
            raise UnexpectedFrame(f"message {message_id} from a follower")

    def pump(self) -> None:
        """Queues the pushes that may leave now."""
        if not self.is_open:
            return
        line, now_ms = self.line, self.now_ms()
        for _ in range(_MOST_FRAMES):
            if not line.news:
                return
            frame = line.next_frame(now_ms)
            if not frame:
                return
            self._queue(frame)

    def beat(self) -> None:
        """What is due by time: marks, followers to ask again, a heartbeat."""
        if self.is_open:
            now_ms = self.now_ms()
            self.line.beat(now_ms)
            self.pump()
            if heartbeat := self.line.heartbeat(now_ms):
                self._queue(heartbeat)

    def _queue(self, parts: list[bytes | Stretch]) -> None:
        if not self.out:
            self.ready()
        for part in parts:
            self.out.append(part)
            if isinstance(part, Stretch):
                self.has_chunks = True
            else:
                self.out_bytes += len(part)

    def ping(self) -> None:
        """Pushes are the heartbeat here."""

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self.is_open = False
        for part in self.out:
            if isinstance(part, Stretch):
                part.file.release()
        self.out = []
        self._ended(self)
