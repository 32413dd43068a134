"""Requests that clients write in several ways, or wrongly, and what they mean."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeVar

from tank_protos.generated.iggy import (
    CreateTopicRequest,
    GetTopicRequest,
    Identifier,
    LoginSessionRequest,
    LoginSessionWithTokenRequest,
    LoginUserRequest,
)
from tank_protos.iggy.eras import A1, A2, A3, SEED, V11, Era
from tank_protos.iggy.identifiers import NAME
from tank_protos.iggy.limits import MAX_SDK_VERSION_CHARS
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import Truncated, WireError
from tank_protos.wire.message import Message

_Asked = TypeVar("_Asked", bound=Message)

_U32: Final = Struct("<I")
_IDENTIFIER_HEAD_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class ClassicLogin:
    """A login by name and password of a classic client."""

    name: str
    password: str
    sdk_version: str | None
    """None: the client's library says nothing of itself; empty: it has no version. Cut to
    MAX_SDK_VERSION_CHARS."""


def read_login(payload: Buffer) -> ClassicLogin:
    """Returns a login with or without the fields that came with A3. Raises WireError."""
    try:
        request = LoginUserRequest.decode(payload, A3.version)
    except Truncated:
        request = LoginUserRequest.decode(payload, A1.version)
        return ClassicLogin(request.name, request.password, None)
    return ClassicLogin(request.name, request.password, request.sdk_version[:MAX_SDK_VERSION_CHARS])


def read_session_login(body: Buffer) -> LoginSessionRequest | LoginSessionWithTokenRequest:
    """Returns a login of a VSR client, which doesn't say whether it is one by password or by token: the form
    that ends where the body does. Raises WireError."""
    try:
        return LoginSessionRequest.decode(body, V11.version)
    except WireError:
        return LoginSessionWithTokenRequest.decode(body, V11.version)


def read_request(request: type[_Asked], payload: Buffer, era: Era) -> _Asked:
    """Returns the request in a payload; clients of the seed may write more bytes than it has. Raises
    WireError."""
    if era is not SEED:
        return request.decode(payload, era.version)
    return request.read(memoryview(payload), 0, era.version)[0]


def read_create_topic(payload: Buffer, era: Era) -> CreateTopicRequest:
    """Returns a request to create a topic. Raises WireError.

    Clients of the seed may leave out the expiry, as its document says, or write more bytes than the request
    has. Of both readings the one counts that ends where the payload does, else the one with the expiry, else
    the one without.
    """
    if era is not SEED:
        return CreateTopicRequest.decode(payload, era.version)
    found: CreateTopicRequest | None = None
    try:
        found, end = CreateTopicRequest.read(memoryview(payload), 0, era.version)
        if end == len(payload):
            return found
    except WireError:
        pass
    bare = _without_expiry(memoryview(payload), must_end=found is not None)
    if bare is not None:
        return bare
    if found is None:
        raise Truncated("a request to create a topic ends too early")
    return found


def _without_expiry(payload: memoryview, *, must_end: bool) -> CreateTopicRequest | None:
    """Reads the request as if four bytes of 0 stood where the expiry is left out."""
    try:
        stream, at = Identifier.read(payload, 0, SEED.version)
        at += 2 * _U32.size
        mended = b"".join((payload[:at], bytes(_U32.size), payload[at:]))
        found, end = CreateTopicRequest.read(memoryview(mended), 0, SEED.version)
    except WireError:
        return None
    return found if found.stream == stream and (end == len(mended) or not must_end) else None


def read_get_topic(payload: Buffer, era: Era) -> tuple[GetTopicRequest, bool]:
    """Returns a request for a topic, and whether the last byte of the topic's name may be lacking, as in
    those of the first client in Go. Raises WireError."""
    if era is not SEED:
        return GetTopicRequest.decode(payload, era.version), False
    view = memoryview(payload)
    try:
        return GetTopicRequest.read(view, 0, era.version)[0], True
    except Truncated:
        stream, at = Identifier.read(view, 0, era.version)
        start = at + _IDENTIFIER_HEAD_BYTES
        if len(view) <= start or view[at] != NAME or start + view[at + 1] != len(view) + 1:
            raise
        return GetTopicRequest(stream, Identifier(NAME, view[start:])), True


def era_of_create_topic(payload: Buffer) -> Era | None:
    """Returns which of A1 and A2 writes this request to create a topic; None: neither."""
    for era in (A2, A1):
        try:
            CreateTopicRequest.decode(payload, era.version)
        except WireError:
            continue
        return era
    return None
