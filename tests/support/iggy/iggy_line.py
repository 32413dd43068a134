"""An Iggy client's conversation with a broker in memory, fed by hand, in any era."""

from typing import Protocol, Self, TypeVar

import xxhash

from tank_node.iggy.dispatch import open_session
from tank_node.iggy.services import IggyServices
from tank_node.iggy.session import IggySession
from tank_node.segment.segment import FileRange
from tank_protos.generated.iggy import (
    LoginSessionRequest,
    LoginSessionResponse,
    LoginUserRequest,
    LoginUserResponse,
)
from tank_protos.iggy import classic, vsr
from tank_protos.iggy.commands import VsrOperation, is_framed, is_replicated, operation_of
from tank_protos.iggy.eras import A3, B1, B2, B3, SEED, V11, Era, Framing
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.message import Message
from tests.support.iggy.iggy_node import IggyNode

SDK = {A3.name: "0.6.202", B1.name: "0.7.0", B2.name: "0.8.0", B3.name: "0.9.0"}
"""The version that a client's library names as it logs in, by era; the others name none."""


class Decoded(Protocol):
    """What an answer is read as: a message, or a record that several answers have."""

    @classmethod
    def decode(cls, payload: Buffer, version: int = 0) -> Self:
        """Reads the whole payload."""


M = TypeVar("M", bound=Decoded)


class IggyStatus(Exception):
    """An answer that is an error."""

    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code


class IggyEvicted(Exception):
    """The frame that ends a session."""

    def __init__(self, reason: int) -> None:
        super().__init__(f"evicted for {reason}")
        self.reason = reason


class IggyLine:
    """One connection. `ask` is a whole conversation; `send` and `answers` are its halves."""

    def __init__(self, node: IggyNode, era: Era, services: IggyServices | None = None) -> None:
        self.node = node
        self.era = era
        self.session: IggySession = open_session(node.broker, services or node.services())
        self.session.hang_up = self._hung_up
        self.session.reached_at = lambda: "127.0.0.1"
        self.session.came_from = lambda: "127.0.0.1"
        self.closed_for = ""
        """Why the broker closed the connection."""
        self.session_number = 0
        self._changes = 0
        self._received = bytearray()
        self._unread = b""
        self._client = int(self.session.serial).to_bytes(16, "little")

    def _hung_up(self, reason: str) -> None:
        self.closed_for = reason
        self.session.close()

    @property
    def is_framed(self) -> bool:
        return self.era.framing is Framing.VSR

    @property
    def has_half_a_frame(self) -> bool:
        """Whether bytes came that are no whole request yet."""
        return bool(self._received)

    # --- halves ----------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Bytes arrive, and a tick ends. As a server does, feeds the frames that a full session left, until
        the session takes no more."""
        self._received += data
        while not self.closed_for:
            buffer = bytearray(self._received)
            self.node.broker.begin_tick()
            rest = self.session.receive(buffer, memoryview(buffer), 0, len(buffer))
            self.node.tick()
            del self._received[:rest]
            if not rest or not self._received:
                return

    def frame(self, code: int, payload: bytes) -> bytes:
        """Returns a request's frame; a change has the next number."""
        if not self.is_framed:
            return classic.request(code, [payload])
        operation = operation_of(code)
        if is_replicated(operation):
            self._changes += 1
        return self.frame_again(code, payload)

    def frame_again(self, code: int, payload: bytes, number: int | None = None) -> bytes:
        """Returns a framed request with the number of the last change, or another one."""
        operation = operation_of(code)
        is_read = operation is VsrOperation.READ
        checksum = xxhash.xxh3_64_intdigest(payload).to_bytes(16, "little")
        return vsr.request(
            self._client,
            operation,
            payload,
            code=code if is_read else 0,
            number=self._changes if number is None else number,
            session=self.session_number,
            checksum=bytes(16) if is_read else checksum,
        )

    def send(self, code: int, payload: bytes = b"") -> None:
        self.feed(self.frame(code, payload))

    def taken(self) -> bytes:
        """Everything that was answered since the last time."""
        parts = []
        for output in self.session.out:
            assert not isinstance(output, FileRange)
            parts.append(output)
        self.session.out.clear()
        self.session.out_bytes = 0
        return b"".join(parts)

    def answers(self) -> list[bytes | int]:
        """The payloads of the whole answers since the last time, and the codes of those that are errors.
        Raises IggyEvicted."""
        self._unread += self.taken()
        found: list[bytes | int] = []
        while True:
            framing = vsr if self.is_framed else None
            size = (
                vsr.frame_bytes(self._unread) if framing is not None else classic.response_bytes(self._unread)
            )
            if size is None or size > len(self._unread):
                return found
            frame, self._unread = self._unread[:size], self._unread[size:]
            found.append(framed_answer(frame) if self.is_framed else classic_answer(frame))

    # --- conversations ---------------------------------------------------------------------------

    def raw(self, code: int, payload: bytes = b"") -> bytes:
        """Sends a request and returns the payload of its answer, which may take disks and timers. Raises
        IggyStatus, IggyEvicted."""
        self.send(code, payload)
        return self.answer()

    def answer(self) -> bytes:
        """The payload of the one answer that is owed."""
        found = self.answers()
        for _ in range(40):
            if found or self.closed_for:
                break
            self.node.settle(50)
            self.feed(b"")
            found = self.answers()
        (answer,) = found
        if isinstance(answer, int):
            raise IggyStatus(answer)
        return answer

    def ask(self, request: Message, answer: type[M], code: int | None = None) -> M:
        """Sends a message and returns its answer."""
        return answer.decode(memoryview(self.tell(request, code)), self.era.version)

    def tell(self, request: Message, code: int | None = None) -> bytes:
        """Sends a message and returns its answer's bytes."""
        payload = b"".join(request.encode(self.era.version))
        return self.raw(request.ID if code is None else code, payload)

    def refused(self, request: Message, code: int | None = None) -> int:
        """Sends a message and returns the error of its answer."""
        try:
            self.tell(request, code)
        except IggyStatus as status:
            return status.code
        raise AssertionError("the request was not refused")

    def login(self, name: str = "iggy", password: str = "iggy") -> int:
        """Logs in; returns the user's id."""
        if self.era is SEED:
            return 0
        request = self.login_request(name, password)
        if self.is_framed:
            response = self.ask(request, LoginSessionResponse)
            self.session_number = response.session
            return response.user_id
        return self.ask(request, LoginUserResponse).user_id

    def login_request(self, name: str = "iggy", password: str = "iggy") -> Message:
        """The request of a login."""
        if self.is_framed:
            return LoginSessionRequest(vsr.PROTOCOL, "test", "0.9.0", name, password, "")
        return LoginUserRequest(name, password, SDK.get(self.era.name, ""), "")

    def begin_anew(self) -> None:
        """Counts changes from 1 under another name, as libraries do at a second login."""
        self._changes = 0
        self._client = self._client[::-1]

    def close(self) -> None:
        self.session.close()


def logged_in(node: IggyNode, era: Era, services: IggyServices | None = None) -> IggyLine:
    """A connection of the root user."""
    line = IggyLine(node, era, services)
    line.login()
    return line


def classic_answer(frame: bytes) -> bytes | int:
    """The payload of a whole answer, or its error."""
    status, payload = classic.read_response(frame)
    assert not (status and payload)
    return status or bytes(payload)


def framed_answer(frame: bytes) -> bytes | int:
    """The payload of a whole answer of VSR framing, or its error. Raises IggyEvicted."""
    if frame[60] == vsr.FrameKind.EVICTION:
        raise IggyEvicted(vsr.read_eviction(frame).reason)
    reply = vsr.read_reply(frame)
    if reply.status:
        assert not reply.body
        return reply.status
    body = bytes(reply.body)
    if not is_framed(reply.operation):
        return body
    count = int.from_bytes(body[:4], "little")
    if count:
        return int.from_bytes(body[8:12], "little")
    return body[4:]


__all__ = ["V11", "IggyEvicted", "IggyLine", "IggyStatus", "logged_in"]
