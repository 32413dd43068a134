"""A send's parts but its messages, and its answer.

In the first eras messages follow the partitioning to the end. Since B1 `u32 size of all before the messages`
stands first, and a count before them.
"""

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from tank_protos.generated.iggy import Identifier, SendMessagesResponse
from tank_protos.generated.iggy.send_messages_response import PlacedMessages
from tank_protos.iggy import partitioning
from tank_protos.iggy.eras import Era, Framing
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.limits import MAX_SENT_MESSAGES
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange, Truncated

_U32: Final = Struct("<I")
_NONE: Final = Identifier()
_MOST_HEAD_BYTES: Final = _U32.size + 3 * (2 + 255)
"""The longest beginning that there can be: stream, topic and partitioning are a kind, a length and up to 255
bytes each."""


class SendRequest(NamedTuple):
    """A send, whose messages are not looked at yet."""

    stream: Identifier
    topic: Identifier
    partitioning: Partitioning
    messages_count: int | None
    """How many messages it has; None: they say so themselves."""
    messages: memoryview
    """The messages, with the indexes before them that some eras have."""


def read(payload: Buffer, era: Era) -> SendRequest:
    """Returns the parts of a send. Raises WireError."""
    view = memoryview(payload)
    start = 0 if era.is_old else _U32.size
    stream, at = Identifier.read(view, start, era.version)
    topic, at = Identifier.read(view, at, era.version)
    chosen, at = partitioning.read(view, at)
    if era.is_old:
        return SendRequest(stream, topic, chosen, None, view[at:])
    try:
        (size,) = _U32.unpack_from(view)
        (count,) = _U32.unpack_from(view, at)
    except StructError:
        raise _no_count() from None
    at += _U32.size
    if size != at - start:
        raise OutOfRange(f"a send says that {size} bytes are before its messages, where {at - start} are")
    return SendRequest(stream, topic, chosen, _checked(count), view[at:])


def head_bytes(payload: memoryview, era: Era) -> int:
    """Returns how many bytes are before the count of a send's messages, as it says itself; 0: it doesn't, or
    there can't be so many, or so few."""
    if era.is_old or len(payload) < _U32.size:
        return 0
    (size,) = _U32.unpack_from(payload)
    return int(size) if _U32.size < size <= min(len(payload), _MOST_HEAD_BYTES) else 0


def read_again(payload: memoryview, head: int, chosen: Partitioning) -> SendRequest:
    """Returns the parts of a send whose first `head` bytes are those of another one, which was read, and had
    this partitioning; without stream and topic. Raises WireError."""
    try:
        (count,) = _U32.unpack_from(payload, head)
    except StructError:
        raise _no_count() from None
    return SendRequest(_NONE, _NONE, chosen, _checked(count), payload[head + _U32.size :])


def _no_count() -> Truncated:
    return Truncated("a send ends before the count of its messages")


def _checked(count: int) -> int:
    if not count:
        raise IggyRefusal(IggyError.INVALID_MESSAGES_COUNT, "a send of no messages")
    if count > MAX_SENT_MESSAGES:
        raise too_many(count)
    return count


def too_many(count: int) -> IggyRefusal:
    """Returns the error for a send of more messages than are possible."""
    return IggyRefusal(IggyError.TOO_MANY_MESSAGES, f"a send of {count} messages or more")


def answer(stream: int, topic: int, partition: int, base_offset: int, era: Era) -> list[Buffer]:
    """Returns the payload of the answer to a send that is committed; all numbers are those of the state."""
    if era.framing is Framing.CLASSIC:
        return []
    place = PlacedMessages(stream + era.base, topic + era.base, partition + era.base, base_offset)
    return SendMessagesResponse([place]).encode(era.version)


def request(stream: Identifier, topic: Identifier, chosen: Partitioning, count: int, era: Era) -> bytes:
    """Returns what stands before the messages of a send, as a client writes it."""
    parts = (*stream.encode(era.version), *topic.encode(era.version), chosen.encode())
    if era.is_old:
        return b"".join(parts)
    head = b"".join((*parts, _U32.pack(count)))
    return _U32.pack(len(head)) + head
