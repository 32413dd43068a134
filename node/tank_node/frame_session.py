"""A session in TANK's frames: the common part of sessions with TANK's clients and with brokers."""

from tank_node.session import Session
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES

_PING = FRAME_HEAD.pack(3, 0)


class FrameSession(Session):
    """A session whose frames are one byte of message id, four bytes of length (little-endian), and the
    payload."""

    __slots__ = ()

    def frame_bytes(self, head: bytes) -> int:
        if len(head) < HEADER_BYTES:
            return 0
        _, length = FRAME_HEAD.unpack_from(head)
        return HEADER_BYTES + int(length)

    def take_frame(self, frame: memoryview) -> None:
        self.frame(frame[0], frame[HEADER_BYTES:])

    def frame(self, message_id: int, payload: memoryview) -> None:
        """Takes one whole frame. Raises WireError when the connection must be closed."""
        raise NotImplementedError

    def opened(self) -> None:
        self.ping()

    def input_ended(self) -> None:
        self.ping()

    def ping(self) -> None:
        """Queues a ping, which is the first frame on a connection, and later tests whether the other end is
        there."""
        self.send(_PING)
