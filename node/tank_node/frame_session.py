"""A conversation in TANK's frames: what clients of TANK's protocol and brokers have in common."""

from tank_node.session import Session
from tank_protos.wire.framing import HEADER_BYTES

_PING = b"\x03\x00\x00\x00\x00"


class FrameSession(Session):
    """A frame is one byte of message id, four of length (little-endian), and the payload."""

    __slots__ = ()

    def frame_bytes(self, head: bytes) -> int:
        return (
            HEADER_BYTES + int.from_bytes(head[1:HEADER_BYTES], "little") if len(head) >= HEADER_BYTES else 0
        )

    def take_frame(self, frame: memoryview) -> None:
        self.frame(frame[0], frame[HEADER_BYTES:])

    def frame(self, message_id: int, payload: memoryview) -> None:
        """Takes one whole frame. Raises WireError: the connection is to be closed."""
        raise NotImplementedError

    def opened(self) -> None:
        self.ping()

    def input_ended(self) -> None:
        self.ping()

    def ping(self) -> None:
        """Queues a ping: the first thing that a connection says, and a question whether the other end is
        still there."""
        self.send(_PING)
