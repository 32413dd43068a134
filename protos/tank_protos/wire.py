"""What generated codecs share: the type of buffers, and the form of a message."""

from typing import ClassVar, Literal, Protocol, Self, TypeAlias

from tank_protos import varint
from tank_protos.errors import OutOfRange, UnsupportedVersion, WireError

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes that somebody else may own. Decoded messages hold slices of the payload that they came from."""


class Message(Protocol):
    """A generated message: a dataclass with slots that decodes and encodes one frame's payload."""

    ID: ClassVar[int]
    """The frame's id. A request and its response share it."""
    VERSIONS: ClassVar[tuple[int, int]]
    """The lowest and the highest version that can be decoded and encoded."""

    @classmethod
    def decode(cls, payload: Buffer, version: int = 0) -> Self:
        """The message that fills `payload`. Raises WireError."""

    @classmethod
    def read(cls, payload: memoryview, offset: int, version: int = 0) -> tuple[Self, int]:
        """The message at `offset` and where it ends. Raises WireError."""

    def encode(self, version: int = 0) -> list[Buffer]:
        """The payload, in pieces; payloads inside are not copied. Raises OutOfRange, UnsupportedVersion."""


def check_prefix(value: Buffer, width: int, order: Literal["little", "big"], name: str) -> None:
    """Raises OutOfRange unless `value` begins with its own length: `width` bytes of it, or a varint when 0."""
    try:
        length, start = (int.from_bytes(value[:width], order), width) if width else varint.read(value, 0)
    except WireError:
        length, start = -1, 0
    if start + length != len(value):
        raise OutOfRange(f"{name} must begin with its own length; put it before the {len(value)} bytes")


def unencodable(message: object, error: Exception) -> OutOfRange:
    """What to raise when a field's value does not fit into its place."""
    return OutOfRange(f"{type(message).__name__}: {error}")


def wrong_size(name: str, size: int, expected: int) -> OutOfRange:
    """A length, count or measure that is not what its place, or the field that states it, says."""
    return OutOfRange(f"{name} has a length of {size}; its place is for {expected}")


def wrong_null(name: str, version: int) -> OutOfRange:
    """Null in a version that knows no null."""
    return OutOfRange(f"{name} is null, but version {version} knows no null; give it a value")


def no_place(name: str, version: int) -> UnsupportedVersion:
    """A field that was set, in a version that does not carry it."""
    return UnsupportedVersion(f"{name} is set, but version {version} has no place for it; leave its default")
