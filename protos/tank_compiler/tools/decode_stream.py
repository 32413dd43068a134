"""Cuts a captured stream into frames and decodes each: the part that all protocols share. No I/O.

A protocol implements `WireProtocol`, which reads its headers and payloads.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

from tank_compiler.schema.schema import Message
from tank_compiler.tools.dissect import DissectedValue
from tank_protos.wire.errors import WireError

Document: TypeAlias = dict[str, object]
"""The output for one frame, or for bytes that are no frame; for `decode_json.readable`."""


class Side(Enum):
    """The sender of captured bytes."""

    CLIENT = "client"
    BROKER = "broker"


class UnknownMessageId(WireError):
    """A frame whose id, or api key, no definition has."""

    reason = "unknown_message"


@dataclass(frozen=True, slots=True)
class Head:
    """A frame's header."""

    size: int
    """The bytes of the header itself."""
    length: int
    """The bytes of the payload behind it."""
    shown: dict[str, int]
    """The header's other fields, for the document."""
    unknown: str = ""
    """Why the payload's message is unknown; empty: it is known."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that waits for its answer."""

    message: str
    version: int
    offset: int
    fields: dict[str, DissectedValue]


@dataclass(slots=True)
class Exchange:
    """The requests of a connection without an answer, by the key that their answers repeat."""

    _asked: dict[Hashable, deque[Asked]] = field(default_factory=dict)

    def ask(self, key: Hashable, asked: Asked) -> None:
        self._asked.setdefault(key, deque()).append(asked)

    def asked(self, key: Hashable) -> Asked | None:
        """The oldest unanswered request with this key."""
        waiting = self._asked.get(key)
        return waiting[0] if waiting else None

    def answer(self, key: Hashable) -> None:
        waiting = self._asked.get(key)
        if waiting:
            waiting.popleft()
            if not waiting:
                del self._asked[key]


@dataclass(slots=True)
class Reading:
    """A decoded payload."""

    shown: Document
    """The entries of the document: message, version, fields and so on."""
    fields: dict[str, DissectedValue]
    """The decoded fields, which the answer to this request needs."""
    key: Hashable = None
    """The key that request and answer share; None: no answer is expected."""
    version: int = 0
    error: WireError | None = None
    error_at: int = 0
    """The error's offset in the payload."""
    error_field: str = ""
    is_laid_out: bool = True
    """Whether the payload has the layout of the message, though a value inside a field may be wrong."""


class WireProtocol(Protocol):
    """Reads the frames of one protocol."""

    def head(self, data: memoryview, side: Side, exchange: Exchange) -> Head | None:
        """The header at the begin of `data`; None: it is incomplete. Raises WireError."""

    def read(self, payload: memoryview, head: Head, side: Side, exchange: Exchange) -> Reading:
        """Decodes the payload of a known frame. Errors are in the result."""

    def alone(self, message: Message, payload: memoryview, version: int) -> Reading:
        """Decodes a message that came without a frame. Errors are in the result."""


@dataclass(slots=True)
class _Attempt:
    """A frame, decoded on the assumption that `side` sent it."""

    side: Side
    head: Head | None = None
    reading: Reading | None = None
    error: WireError | None = None
    is_whole: bool = True

    @property
    def is_good(self) -> bool:
        return self.reading is not None and self.reading.error is None


def documents(
    protocol: WireProtocol, data: memoryview, side: Side | None, exchange: Exchange
) -> Iterator[Document]:
    """Yields one document for each frame, in order. `side`: the sender; None: guessed for each frame.

    A document with the entry `error` stands for a frame that could not be read, for bytes that were skipped
    before the next frame, or for a stream that ends within a frame.
    """
    return _Stream(protocol, data, side, exchange).documents()


def told_alone(reading: Reading, size: int) -> Document:
    """The document for a message of `size` bytes that came without a frame."""
    told: Document = {"bytes": size, **reading.shown}
    if reading.error is not None:
        told["error"] = _error(reading.error, reading.error_at, reading.error_field)
    return told


class _Stream:
    def __init__(
        self, protocol: WireProtocol, data: memoryview, side: Side | None, exchange: Exchange
    ) -> None:
        self.protocol = protocol
        self.data = data
        self.sides = [side] if side else list(Side)
        self.exchange = exchange

    def documents(self) -> Iterator[Document]:
        at = 0
        while at < len(self.data):
            attempt = self._best(at)
            head = attempt.head
            if head is not None and not head.unknown and not attempt.is_whole:
                yield self._truncated(at, attempt)
                return
            if head is None and attempt.error is None:
                yield self._truncated(at, attempt)
                return
            end = at + head.size + head.length if head is not None else at
            if head is not None and attempt.is_whole and (attempt.is_good or self._may_begin(end)):
                yield self._frame(at, end, attempt)
                at = end
                continue
            found = self._next_frame(at + 1)
            yield self._skipped(at, found, attempt)
            at = len(self.data) if found is None else found

    # The frame at an offset

    def _attempt(self, at: int, side: Side) -> _Attempt:
        attempt = _Attempt(side)
        try:
            attempt.head = self.protocol.head(self.data[at:], side, self.exchange)
        except WireError as error:
            attempt.error = error
            return attempt
        head = attempt.head
        attempt.is_whole = head is not None and at + head.size + head.length <= len(self.data)
        if head is None or not attempt.is_whole:
            return attempt
        if head.unknown:
            attempt.error = UnknownMessageId(head.unknown)
            return attempt
        payload = self.data[at + head.size : at + head.size + head.length]
        attempt.reading = self.protocol.read(payload, head, side, self.exchange)
        return attempt

    def _best(self, at: int) -> _Attempt:
        """The attempt with the likeliest sender: best the answer to a request, then any frame that can be
        read."""

        def rank(attempt: _Attempt) -> tuple[bool, bool, bool, int]:
            reading, head = attempt.reading, attempt.head
            fits = reading is not None and reading.is_laid_out
            answers = fits and attempt.side is Side.BROKER and self._asked(attempt) is not None
            read = reading.error_at if reading is not None else -1
            return answers, fits, head is not None and not head.unknown, read

        return max((self._attempt(at, side) for side in self.sides), key=rank)

    def _asked(self, attempt: _Attempt) -> Asked | None:
        reading = attempt.reading
        return None if reading is None or reading.key is None else self.exchange.asked(reading.key)

    # Where the next frame is

    def _may_begin(self, at: int) -> bool:
        """Whether a frame may begin here: the stream ends, or a header of a known message follows."""
        if at == len(self.data):
            return True
        head = self._best(at).head
        return head is None or not head.unknown

    def _next_frame(self, start: int) -> int | None:
        """The first offset from `start` on with a readable frame behind which another one, or the end,
        follows.

        One frame alone is too little: every second payload has five bytes that look like an empty message.
        """
        for at in range(start, len(self.data)):
            if not self._has_two_heads(at):
                continue
            attempt = self._best(at)
            if not attempt.is_good or attempt.head is None:
                continue
            end = at + attempt.head.size + attempt.head.length
            if end == len(self.data) or self._best(end).is_good:
                return at
        return None

    def _has_two_heads(self, at: int) -> bool:
        """Whether a known header is here, and another one, or the end, behind its payload.

        Cheap, because it runs at each byte of noise: payloads are decoded only where it is true.
        """
        size = len(self.data)
        ends = [at + head.size + head.length for head in self._heads(at)]
        return any(end == size or (end < size and self._heads(end)) for end in ends)

    def _heads(self, at: int) -> list[Head]:
        """The headers of known messages that may be here, one for each possible sender."""
        found = []
        for side in self.sides:
            try:
                head = self.protocol.head(self.data[at:], side, self.exchange)
            except WireError:
                continue
            if head is not None and not head.unknown:
                found.append(head)
        return found

    # Documents

    def _frame(self, at: int, end: int, attempt: _Attempt) -> Document:
        assert attempt.head is not None, "only a frame with a header is told as one"
        head, reading = attempt.head, attempt.reading
        told: Document = {"offset": at, "bytes": end - at, "from": attempt.side.value, **head.shown}
        if reading is None:
            told["payload"] = bytes(self.data[at + head.size : end])
            told["error"] = _error(attempt.error, at)
            return told
        told |= reading.shown
        if reading.error is not None:
            told["error"] = _error(reading.error, at + head.size + reading.error_at, reading.error_field)
        if attempt.side is Side.CLIENT and reading.key is not None:
            asked = Asked(str(reading.shown["message"]), reading.version, at, reading.fields)
            self.exchange.ask(reading.key, asked)
        elif reading.key is not None:
            self.exchange.answer(reading.key)
        return told

    def _truncated(self, at: int, attempt: _Attempt) -> Document:
        told: Document = {"offset": at, "bytes": len(self.data) - at}
        if attempt.head is None:
            what = f"the stream ends {len(self.data) - at} bytes into a frame's header"
        else:
            told |= {"from": attempt.side.value, **attempt.head.shown}
            begun = self.data[at + attempt.head.size :]
            told |= self.protocol.read(begun, attempt.head, attempt.side, self.exchange).shown
            missing = at + attempt.head.size + attempt.head.length - len(self.data)
            whole = attempt.head.length
            what = f"the stream ends inside a frame; {missing} of its payload's {whole} bytes are missing"
        told["error"] = {"reason": "truncated", "offset": len(self.data), "what": what}
        return told

    def _skipped(self, at: int, found: int | None, attempt: _Attempt) -> Document:
        error = attempt.error or (attempt.reading.error if attempt.reading is not None else None)
        because = str(error) if error is not None else "the header is none of a known message"
        to = len(self.data) if found is None else found
        went = "no frame follows: stopped" if found is None else f"the next frame is at byte {found}"
        reason = error.reason if error is not None else UnknownMessageId.reason
        what = f"no frame ({because}); skipped {to - at} bytes, {went}"
        return {
            "offset": at,
            "bytes": to - at,
            "skipped": bytes(self.data[at:to]),
            "error": {"reason": reason, "offset": at, "what": what},
        }


def _error(error: WireError | None, offset: int, place: str = "") -> Document:
    assert error is not None, "a frame that was not read has a reason"
    told: Document = {"reason": error.reason, "offset": offset}
    if place:
        told["field"] = place
    return told | {"what": str(error)}
