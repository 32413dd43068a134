"""The VSR framing: every frame has a header of 256 bytes, with the frame's size at byte 48, and a body.

Header fields that a client does not fill, and that nobody reads, are zero: checksums, cluster, view, release.
Answers echo what they answer. An eviction ends the session, with a reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tank_protos.iggy.commands import CODES, VsrOperation, operation_of
from tank_protos.iggy.limits import MAX_FRAME_BYTES
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange, Truncated

HEADER_BYTES: Final = 256
_SIZE: Final = Struct("<I")
_SIZE_AT: Final = 48
SIZE_END: Final = _SIZE_AT + _SIZE.size
"""So many bytes of a frame say how long it is."""
_COMMAND_AT: Final = 60
_CLIENT_BYTES: Final = 16

_REQUEST: Final = Struct("<16s16sQQB7xQII56x")
_REPLY: Final = Struct("<16s16s16sQQQQB7xI36x")
_EVICTION: Final = Struct("<16sII103xB")
_BODY_AT: Final = 128
"""Where the part of the header begins that belongs to the command."""

_COUNT: Final = Struct("<I")
_REJECTION: Final = Struct("<III")
_SUCCESS: Final = _COUNT.pack(0)

PROTOCOL_MINOR_BITS: Final = 10
PROTOCOL_MAJOR_BITS: Final = 20
_PART_MASK: Final = 1023


class FrameKind(IntEnum):
    """What a frame is; the header's `command`."""

    REQUEST = 5
    REPLY = 8
    EVICTION = 13


class EvictionReason(IntEnum):
    """Why the server ends a session."""

    NO_SESSION = 1
    INVALID_OPERATION = 4
    INVALID_BODY = 5
    BODY_SIZE = 6
    SESSION_TOO_LOW = 7
    RELEASE_MISMATCH = 8
    INVALID_CREDENTIALS = 9
    INVALID_TOKEN = 10
    USER_INACTIVE = 11
    SESSION_ERROR = 12
    STALE_CLIENT = 13
    INCOMPATIBLE_PROTOCOL = 14
    MALFORMED_LOGIN = 15


def packed_protocol(major: int, minor: int, patch: int) -> int:
    """Returns a version of the protocol as one number."""
    return major << PROTOCOL_MAJOR_BITS | minor << PROTOCOL_MINOR_BITS | patch


def protocol_series(packed: int) -> tuple[int, int]:
    """Returns major and minor of a packed version."""
    return packed >> PROTOCOL_MAJOR_BITS, packed >> PROTOCOL_MINOR_BITS & _PART_MASK


PROTOCOL: Final = packed_protocol(0, 11, 0)
"""The version that we speak, and the lowest that we take."""
PROTOCOL_MAX: Final = packed_protocol(0, 11, _PART_MASK)


@dataclass(frozen=True, slots=True)
class VsrRequest:
    """A request."""

    client: bytes
    """Sixteen bytes, chosen by the client at each connection."""
    checksum: bytes
    """Sixteen bytes, which answers echo."""
    timestamp_us: int
    number: int
    """Counts the session's replicated requests: with `client`, a repeat has the same."""
    operation: int
    session: int
    """0: not logged in."""
    code: int
    """The command: that of the operation, or what the request says for READ. 0: the operation is unknown, or
    READ for a command with one of its own."""
    body: memoryview


class VsrReply(NamedTuple):
    """An answer."""

    checksum: bytes
    client: bytes
    commit: int
    timestamp_us: int
    number: int
    operation: int
    status: int
    """0, or an error."""
    body: memoryview


class VsrEviction(NamedTuple):
    """The end of a session."""

    client: bytes
    protocol_max: int
    protocol_min: int
    reason: int


def frame_bytes(head: Buffer, most_bytes: int = MAX_FRAME_BYTES) -> int | None:
    """Returns the size of the whole frame that begins with `head`; None: SIZE_END bytes are not there yet.

    Raises OutOfRange for a size below that of the header, or above `most_bytes`.
    """
    if len(head) < SIZE_END:
        return None
    (size,) = _SIZE.unpack_from(head, _SIZE_AT)
    if not HEADER_BYTES <= size <= most_bytes:
        raise OutOfRange(f"a frame of {size} bytes; {HEADER_BYTES} to {most_bytes} are possible")
    return int(size)


def _whole(frame: Buffer, kind: FrameKind) -> memoryview:
    view = memoryview(frame)
    if len(view) < HEADER_BYTES or frame_bytes(view, len(view)) != len(view):
        raise Truncated(f"{len(view)} bytes are no whole frame")
    if view[_COMMAND_AT] != kind:
        raise OutOfRange(f"a frame of kind {view[_COMMAND_AT]}, where {kind.name} is wanted")
    return view


def read_request(frame: Buffer) -> VsrRequest:
    """Returns the request in a whole frame. Raises WireError."""
    view = _whole(frame, FrameKind.REQUEST)
    client, checksum, timestamp_us, number, operation, session, _, code = _REQUEST.unpack_from(view, _BODY_AT)
    if operation != VsrOperation.READ:
        code = _CODES.get(operation, 0)
    elif operation_of(code) is not VsrOperation.READ:
        code = 0  # a login, or what a repeat must not do again, is no read
    return VsrRequest(client, checksum, timestamp_us, number, operation, session, code, view[HEADER_BYTES:])


_CODES: Final = {int(operation): int(code) for operation, code in CODES.items()}


def request(
    client: bytes,
    operation: int,
    body: Buffer,
    *,
    code: int = 0,
    number: int = 0,
    session: int = 0,
    checksum: bytes = bytes(_CLIENT_BYTES),
) -> bytes:
    """Returns a request as a client writes it. `code`: the command of a READ."""
    head = _head(FrameKind.REQUEST, len(body))
    return b"".join((head, _REQUEST.pack(client, checksum, 0, number, operation, session, 0, code), body))


def reply(
    asked: VsrRequest, body: Sequence[Buffer], *, commit: int, status: int = 0, timestamp_us: int = 0
) -> bytes:
    """Returns the answer to a request, as one buffer. `commit`: a number that never falls; `status`: an
    error, then without a body."""
    middle = _REPLY.pack(
        asked.checksum,
        bytes(_CLIENT_BYTES),
        asked.client,
        commit,
        commit,
        timestamp_us,
        asked.number,
        asked.operation,
        status,
    )
    return b"".join((_head(FrameKind.REPLY, sum(map(len, body))), middle, *body))


def read_reply(frame: Buffer) -> VsrReply:
    """Returns the answer in a whole frame. Raises WireError."""
    view = _whole(frame, FrameKind.REPLY)
    checksum, _, client, _, commit, timestamp_us, number, operation, status = _REPLY.unpack_from(
        view, _BODY_AT
    )
    return VsrReply(checksum, client, commit, timestamp_us, number, operation, status, view[HEADER_BYTES:])


def eviction(client: bytes, reason: EvictionReason) -> bytes:
    """Returns the frame that ends a session, with the versions that we speak."""
    return _head(FrameKind.EVICTION, 0) + _EVICTION.pack(client, PROTOCOL_MAX, PROTOCOL, reason)


def read_eviction(frame: Buffer) -> VsrEviction:
    """Returns the eviction in a whole frame. Raises WireError."""
    return VsrEviction._make(_EVICTION.unpack_from(_whole(frame, FrameKind.EVICTION), _BODY_AT))


def framed(payload: Sequence[Buffer]) -> list[Buffer]:
    """Returns the body of a successful answer to an operation whose answers are framed."""
    return [_SUCCESS, *payload]


def rejected(error: int) -> bytes:
    """Returns the body that rejects an operation whose answers are framed."""
    return _REJECTION.pack(1, 0, error)


def _head(kind: FrameKind, body_bytes: int) -> bytes:
    head = bytearray(_BODY_AT)
    _SIZE.pack_into(head, _SIZE_AT, HEADER_BYTES + body_bytes)
    head[_COMMAND_AT] = kind
    return bytes(head)
