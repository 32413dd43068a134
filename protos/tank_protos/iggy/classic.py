"""The classic framing: `u32 length, u32 code, payload`, answered by `u32 status, u32 length, payload`.

The request's length counts the code, the answer's does not. An error has no payload. Header and payload of an
answer are one buffer, because a client of 2023 reads once for each answer.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tank_protos.iggy.limits import MAX_FRAME_BYTES
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange, Truncated

_LENGTH: Final = Struct("<I")
_HEAD: Final = Struct("<II")
HEAD_BYTES: Final = _HEAD.size
LENGTH_BYTES: Final = _LENGTH.size
CODE_BYTES: Final = 4
_LARGE_BYTES: Final = 32 * 1024
_MOST_PIECES: Final = 8
"""A copy of fewer bytes, or of more pieces, costs less than what the system takes for each piece."""


class ClassicRequest(NamedTuple):
    """A request."""

    code: int
    payload: memoryview


class ClassicResponse(NamedTuple):
    """An answer; `status` is 0, or an error."""

    status: int
    payload: memoryview


def request_bytes(head: Buffer, most_bytes: int = MAX_FRAME_BYTES) -> int | None:
    """Returns the size of the whole frame that begins with `head`; None: its length is not there yet.

    Raises OutOfRange for a length below that of a code, or above `most_bytes`.
    """
    if len(head) < LENGTH_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(head)
    if not CODE_BYTES <= length <= most_bytes - LENGTH_BYTES:
        raise OutOfRange(
            f"a request of {length} bytes; {CODE_BYTES} to {most_bytes - LENGTH_BYTES} are possible"
        )
    return LENGTH_BYTES + int(length)


def read_request(frame: Buffer) -> ClassicRequest:
    """Returns the request in a whole frame. Raises WireError."""
    view = memoryview(frame)
    if request_bytes(view, max(len(view), HEAD_BYTES)) != len(view):
        raise Truncated(f"{len(view)} bytes are no whole request")
    return ClassicRequest(_HEAD.unpack_from(view)[1], view[HEAD_BYTES:])


def request(code: int, payload: Sequence[Buffer]) -> bytes:
    """Returns a request as a client writes it."""
    body = b"".join(payload)
    return _HEAD.pack(CODE_BYTES + len(body), code) + body


def response(payload: Sequence[Buffer]) -> bytes:
    """Returns a successful answer with this payload, in pieces, as one buffer."""
    return b"".join((_HEAD.pack(0, sum(map(len, payload))), *payload))


def response_pieces(payload: Sequence[Buffer]) -> list[bytes]:
    """Returns what `response` returns, in pieces where these are few and large: they are not copied."""
    size = sum(map(len, payload))
    if size < _LARGE_BYTES or len(payload) > _MOST_PIECES:
        return [response(payload)]
    return [b"".join((_HEAD.pack(0, size), payload[0])), *map(bytes, payload[1:])]


def error_response(status: int) -> bytes:
    """Returns the answer with an error."""
    return _HEAD.pack(status, 0)


def response_bytes(head: Buffer) -> int | None:
    """Returns the size of the whole answer that begins with `head`; None: its length is not there yet."""
    return HEAD_BYTES + int(_HEAD.unpack_from(head)[1]) if len(head) >= HEAD_BYTES else None


def read_response(frame: Buffer) -> ClassicResponse:
    """Returns the whole answer in `frame`. Raises Truncated."""
    view = memoryview(frame)
    if response_bytes(view) != len(view):
        raise Truncated(f"{len(view)} bytes are no whole answer")
    return ClassicResponse(_HEAD.unpack_from(view)[0], view[HEAD_BYTES:])
