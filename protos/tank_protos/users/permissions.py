"""Iggy's document of a user's rights: ten for the whole server, six for each stream named, four for each
topic named. Pure.

Streams and topics have numbers in it. In memory, and where the cluster keeps a document, they count from 0;
clients of some eras count from 1, which `base` says. Apart from that a document comes back byte for byte.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from struct import Struct
from typing import ClassVar, Final

from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import WireError

MAX_BYTES: Final = 64 * 1024
"""The greatest document: room for 5,000 streams, or 7,000 topics of one."""
_MAX_NUMBER: Final = 0xFFFF_FFFE
"""Any number has a form on the wire, also for clients that count from 1."""
_NUMBER: Final = Struct("<I")


class PermissionsError(WireError):
    """Bytes that are no document of rights."""

    reason: ClassVar[str] = "permissions"


class GlobalRight(IntFlag):
    """Rights that hold for all streams and topics; in the order of the document."""

    MANAGE_SERVERS = 1
    READ_SERVERS = 2
    MANAGE_USERS = 4
    READ_USERS = 8
    MANAGE_STREAMS = 16
    READ_STREAMS = 32
    MANAGE_TOPICS = 64
    READ_TOPICS = 128
    POLL_MESSAGES = 256
    SEND_MESSAGES = 512


class StreamRight(IntFlag):
    """Rights in one stream and its topics; in the order of the document."""

    MANAGE_STREAM = 1
    READ_STREAM = 2
    MANAGE_TOPICS = 4
    READ_TOPICS = 8
    POLL_MESSAGES = 16
    SEND_MESSAGES = 32


class TopicRight(IntFlag):
    """Rights in one topic; in the order of the document."""

    MANAGE_TOPIC = 1
    READ_TOPIC = 2
    POLL_MESSAGES = 4
    SEND_MESSAGES = 8


_GLOBAL_BYTES: Final = len(GlobalRight)
_STREAM_BYTES: Final = len(StreamRight)
_TOPIC_BYTES: Final = len(TopicRight)
_EVERY_GLOBAL: Final = GlobalRight((1 << _GLOBAL_BYTES) - 1)


@dataclass(slots=True, frozen=True)
class TopicPermissions:
    """The rights in one topic."""

    topic: int
    """Its number, from 0."""
    rights: TopicRight


@dataclass(slots=True, frozen=True)
class StreamPermissions:
    """The rights in one stream."""

    stream: int
    """Its number, from 0."""
    rights: StreamRight
    topics: tuple[TopicPermissions, ...] | None = None
    """In the order of the document, each once; None and none are two forms of the same."""


@dataclass(slots=True, frozen=True)
class Permissions:
    """All rights of a user."""

    rights: GlobalRight
    streams: tuple[StreamPermissions, ...] | None = None
    """In the order of the document, each once; None and none are two forms of the same."""

    def encode(self, base: int = 0) -> bytes:
        """The document, for clients whose numbers begin with `base`."""
        out = bytearray(_flags(self.rights, _GLOBAL_BYTES))
        if self.streams is None:
            out.append(0)
            return bytes(out)
        out.append(1)
        for at, stream in enumerate(self.streams, 1):
            out += _NUMBER.pack(stream.stream + base)
            out += _flags(stream.rights, _STREAM_BYTES)
            out.append(stream.topics is not None)
            topics = stream.topics or ()
            for place, topic in enumerate(topics, 1):
                out += _NUMBER.pack(topic.topic + base)
                out += _flags(topic.rights, _TOPIC_BYTES)
                out.append(place < len(topics))
            out.append(at < len(self.streams))
        return bytes(out)

    def places(self) -> Iterator[tuple[int, int | None]]:
        """What the document names, in its order: (stream, None) for a stream, then (stream, topic) for each
        of its topics.
        """
        for stream in self.streams or ():
            yield stream.stream, None
            for topic in stream.topics or ():
                yield stream.stream, topic.topic


ALL_RIGHTS: Final = Permissions(_EVERY_GLOBAL)
"""The root user's."""


def decode(data: Buffer, base: int = 0) -> Permissions:
    """Reads a whole document of a client whose numbers begin with `base`. Raises PermissionsError."""
    if len(data) > MAX_BYTES:
        raise PermissionsError(f"a document of permissions has at most {MAX_BYTES} bytes, not {len(data)}")
    return _PermissionsReader(memoryview(data), base).read()


class _PermissionsReader:
    """Reads one document from its first byte to its last."""

    __slots__ = ("_at", "_base", "_data")

    def __init__(self, data: memoryview, base: int) -> None:
        self._data = data
        self._base = base
        self._at = 0

    def read(self) -> Permissions:
        """The document. Raises PermissionsError."""
        rights = GlobalRight(self._rights(_GLOBAL_BYTES))
        streams = self._streams() if self._flag() else None
        if self._at != len(self._data):
            raise PermissionsError(f"{len(self._data) - self._at} bytes follow the permissions")
        return Permissions(rights, streams)

    def _streams(self) -> tuple[StreamPermissions, ...]:
        found: dict[int, StreamPermissions] = {}
        more = self._at < len(self._data)  # a client with an empty list says that there is one
        while more:
            number = self._number()
            rights = StreamRight(self._rights(_STREAM_BYTES))
            topics = self._topics() if self._flag() else None
            if number in found:
                raise PermissionsError("a stream is in the permissions twice")
            found[number] = StreamPermissions(number, rights, topics)
            more = self._flag()
        return tuple(found.values())

    def _topics(self) -> tuple[TopicPermissions, ...]:
        found: dict[int, TopicPermissions] = {}
        more = len(self._data) - self._at > 1  # as above: then one byte follows, for the streams
        while more:
            number = self._number()
            rights = TopicRight(self._rights(_TOPIC_BYTES))
            if number in found:
                raise PermissionsError("a topic is in the permissions of its stream twice")
            found[number] = TopicPermissions(number, rights)
            more = self._flag()
        return tuple(found.values())

    def _take(self, size: int) -> memoryview:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise PermissionsError("the permissions end too early")
        self._at += size
        return taken

    def _flag(self) -> bool:
        return self._rights(1) == 1

    def _rights(self, count: int) -> int:
        rights = 0
        for at, byte in enumerate(self._take(count)):
            if byte > 1:
                raise PermissionsError(f"a right is 0 or 1, not {byte}")
            rights |= byte << at
        return rights

    def _number(self) -> int:
        number = int(_NUMBER.unpack(self._take(_NUMBER.size))[0]) - self._base
        if not 0 <= number <= _MAX_NUMBER:
            raise PermissionsError("the permissions name a stream or topic that there can't be")
        return number


def _flags(rights: int, count: int) -> bytes:
    return bytes(rights >> at & 1 for at in range(count))
