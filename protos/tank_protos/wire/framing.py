"""TANK's frames: `u8 id, u32 length (little-endian), payload`, in both directions.

`frame` and `frame_of` make frames; `FrameReader` cuts them out of a stream, for clients and tests (the broker
cuts them out of its receive buffers itself). No I/O. docs/protocol/README.md describes frames.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from tank_protos.wire.errors import OutOfRange, WireError

if TYPE_CHECKING:
    from tank_protos.wire.buffer import Buffer
    from tank_protos.wire.message import Message

FRAME_HEAD: Final = Struct("<BI")
"""The head of every frame: the message id, and the length of the payload."""
HEADER_BYTES: Final = 5
"""The size of FRAME_HEAD."""
# TANK's own limit: its broker drops a connection that announces more.
MAX_FRAME_BYTES = 256 * 1024 * 1024

# Smaller pieces of a frame are joined as they come, so that a stream in tiny pieces makes few objects.
_PIECE_BYTES = 4096


def frame(message_id: int, payload: list[Buffer]) -> list[Buffer]:
    """The frame around `payload` as a list of buffers, the 5-byte header first; nothing is copied.

    Raises OutOfRange when the payload is over MAX_FRAME_BYTES or the id is no u8.
    """
    length = sum(map(len, payload))
    if length > MAX_FRAME_BYTES:
        raise OutOfRange(
            f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}; send less at once"
        )
    if not 0 <= message_id <= 0xFF:
        raise OutOfRange(f"message id {message_id} is no u8")
    return [FRAME_HEAD.pack(message_id, length), *payload]


def frame_of(message: Message, version: int = 0) -> bytes:
    """A message's frame in one piece, which copies the payloads inside: for messages that carry no bundles.
    version: the layout of a message that has several, and doesn't state its own.

    Raises the errors of the message's `encode`.
    """
    payload = message.encode(version)
    return b"".join((FRAME_HEAD.pack(message.ID, sum(map(len, payload))), *payload))


class FrameReader:
    """Cuts a stream of received bytes into frames; for clients and tests. No I/O.

    A header that announces more than `max_frame_bytes` raises at once, and the memory for a frame grows only
    with the bytes that have arrived.
    """

    __slots__ = ("_broken", "_max_frame_bytes", "_needed", "_pending", "_pieces")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        # The pieces of an incomplete frame, joined once when it is complete: appending each piece to one
        # bytes object would copy it again and again. Small pieces are joined earlier: see _keep.
        self._pieces: list[bytes | bytearray] = []
        # Invariant: the size of `_pieces`.
        self._pending = 0
        # How many bytes must be there before the next cut: the incomplete frame, or a header.
        self._needed = HEADER_BYTES
        self._broken: WireError | None = None

    @property
    def pending_bytes(self) -> int:
        """The bytes of an incomplete frame that have come."""
        return self._pending

    def feed(self, data: Buffer) -> list[tuple[int, memoryview]]:
        """Returns the frames that `data` completes, as (message id, payload).

        Payloads are read-only views of immutable memory: they stay valid, and keep it alive. Raises
        OutOfRange when a header announces a frame over the limit; every later call raises the same error,
        because the stream can't be followed any more.
        """
        if self._broken is not None:
            raise self._broken
        if self._pending:
            self._keep(data)
            if self._pending < self._needed:
                return []
            whole = b"".join(self._pieces)
            self._pieces.clear()
            self._pending = 0
        else:
            whole = bytes(data)  # no copy when it is bytes already
        return self._cut(whole)

    def _keep(self, data: Buffer) -> None:
        self._pending += len(data)
        if len(data) >= _PIECE_BYTES:
            self._pieces.append(bytes(data))
        elif self._pieces and isinstance(last := self._pieces[-1], bytearray) and len(last) < _PIECE_BYTES:
            last += data
        else:
            self._pieces.append(bytearray(data))

    def _cut(self, whole: bytes) -> list[tuple[int, memoryview]]:
        frames: list[tuple[int, memoryview]] = []
        view = memoryview(whole)
        offset, available = 0, len(whole)
        self._needed = HEADER_BYTES
        while available - offset >= HEADER_BYTES:
            message_id, length = FRAME_HEAD.unpack_from(whole, offset)
            if length > self._max_frame_bytes:
                self._broken = OutOfRange(
                    f"a frame of {length} bytes is announced; the limit is {self._max_frame_bytes}"
                )
                # Frames before the bad one are good: this call returns them, and the next one raises.
                if frames:
                    return frames
                raise self._broken
            end = offset + HEADER_BYTES + length
            if end > available:
                self._needed = end - offset
                break
            frames.append((message_id, view[offset + HEADER_BYTES : end]))
            offset = end
        if offset < available:
            self._keep(view[offset:])
        return frames
