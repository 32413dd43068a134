"""A leader's connection to a follower: it opens, recognizes the follower by its answer, and pushes. No
I/O."""

from collections.abc import Callable
from typing import ClassVar, Final

from tank_node.peers.connection import PeerConnection
from tank_node.peers.identity import PeerIdentity
from tank_node.purpose import Purpose
from tank_node.replication.push_frame import read_answer
from tank_node.replication.stream import ReplicationStream
from tank_node.segment.segment import FileRange
from tank_protos.generated.tank import PushAnswer, ReplicaIdRequest
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES

_PING: Final = 3
_read_head: Final = FRAME_HEAD.unpack_from
_MOST_ANSWER_BYTES: Final = 4 * 1024 * 1024
"""An answer to the most partitions that one push can name (65,025, of 39 bytes each) is shorter."""
_MOST_FRAMES: Final = 64
"""How many frames one call queues at most; the window bounds them too."""


class UnexpectedFrame(WireError):
    """A frame that no follower sends."""

    reason: ClassVar[str] = "unexpected_frame"


class PushSession(PeerConnection):
    """One outgoing connection to a follower."""

    __slots__ = ("_ended", "_opened", "line")

    def __init__(
        self,
        identity: PeerIdentity,
        line: ReplicationStream,
        *,
        now_ms: Callable[[], int],
        opened: "Callable[[PushSession], None]",
        ended: "Callable[[PushSession], None]",
    ) -> None:
        """now_ms: the monotonic time of the tick. opened: called when the follower is recognized. ended:
        called when the connection has ended, or could not be made."""
        super().__init__(identity, now_ms)
        self.line = line
        self._opened = opened
        self._ended = ended

    @property
    def hears_while_sending(self) -> bool:
        """True: a follower's answers are read while pushes wait to be sent, because producers wait for them;
        the window bounds the pushes."""
        return True

    @property
    def is_done(self) -> bool:
        line = self.line
        all_caught_up = self.identity.purpose is Purpose.CATCH_UP and self.is_open and not line.places
        return all_caught_up or line.is_worn

    def is_silent(self, silence_ms: int) -> bool:
        since_ms = self.line.silent_since_ms()
        return since_ms is not None and self.now_ms() - since_ms >= silence_ms

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        while end - at >= HEADER_BYTES:
            message_id, length = _read_head(buffer, at)
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
            self.recognize(payload)
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
        """Sends whatever is due by time: high-water marks, positions to be confirmed again, a heartbeat."""
        if self.is_open:
            now_ms = self.now_ms()
            self.line.beat(now_ms)
            self.pump()
            if heartbeat := self.line.heartbeat(now_ms):
                self._queue(heartbeat)

    def _queue(self, parts: list[bytes | FileRange]) -> None:
        if not self.out:
            self.ready()
        for part in parts:
            self.out.append(part)
            if isinstance(part, FileRange):
                self.has_chunks = True
            else:
                self.out_bytes += len(part)

    def ping(self) -> None:
        """Does nothing: pushes are this connection's heartbeat."""

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self.is_open = False
        for part in self.out:
            if isinstance(part, FileRange):
                part.file.release()
        self.out = []
        self._ended(self)
