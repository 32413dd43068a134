"""The interface of generated messages, and the checks and errors that their codecs share."""

import math
from collections.abc import Sized
from dataclasses import fields, is_dataclass
from typing import ClassVar, Final, Literal, Protocol, Self

from tank_protos.wire import varint
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange, TooManyEntries, Truncated, UnsupportedVersion, WireError

MOST_ENTRIES: Final = 65_536
"""The most elements of all lists in one request of a Kafka client: topics, partitions, names and numbers. An
empty topic has three bytes on the wire, and its object with its answer 150 to 300: a request of 2 MiB could
take 200 MB, and the event loop for seconds. Clients name the partitions of one broker, which are
thousands."""


class Message(Protocol):
    """A generated message: a dataclass with slots that decodes and encodes one frame's payload."""

    ID: ClassVar[int]
    """The frame's id. A request and its response share it."""
    VERSIONS: ClassVar[tuple[int, int]]
    """The lowest and the highest version that can be decoded and encoded."""

    @classmethod
    def decode(cls, payload: Buffer, version: int = 0) -> Self:
        """Decodes the message that fills `payload`. Raises WireError."""

    @classmethod
    def read(cls, payload: memoryview, offset: int, version: int = 0) -> tuple[Self, int]:
        """Decodes the message at `offset`; returns it and the offset behind it. Raises WireError."""

    def encode(self, version: int = 0) -> list[Buffer]:
        """Returns the payload, in pieces; bundles and other bytes inside are not copied. Raises OutOfRange,
        UnsupportedVersion."""


def check_prefix(value: Buffer, width: int, order: Literal["little", "big"], name: str) -> None:
    """Raises OutOfRange unless `value` begins with its own length, of `width` bytes (0: a varint)."""
    try:
        length, start = (int.from_bytes(value[:width], order), width) if width else varint.read(value, 0)
    except WireError:
        length, start = -1, 0
    if start + length != len(value):
        raise OutOfRange(f"{name} must begin with its own length; put it before the {len(value)} bytes")


def unencodable(message: object, error: Exception) -> OutOfRange:
    """Makes the error for a value of a generated message that its field can't hold; the text names the
    field."""
    return OutOfRange(_misfit(message) or f"{type(message).__name__} cannot be encoded: {error}")


def _misfit(struct: object) -> str | None:
    """Describes the first field of a generated struct, or of structs inside it, that is outside its LIMITS;
    None: there is none.

    LIMITS has the limits of a list's elements under the list's name and `[]`.
    """
    limits: dict[str, tuple[int, int]] = getattr(struct, "LIMITS", {})
    for field in fields(struct) if is_dataclass(struct) else ():
        value, place = getattr(struct, field.name), f"{type(struct).__name__}.{field.name}"
        found = _outside(value, place, limits.get(field.name))
        of_elements = limits.get(f"{field.name}[]")
        for at, inner in enumerate(value if isinstance(value, list) else (value,)):
            if not found and is_dataclass(inner):
                found = _misfit(inner)
            elif not found and isinstance(value, list):
                found = _outside(inner, f"{place}[{at}]", of_elements)
        if found:
            return found
    return None


def _outside(value: object, place: str, limits: tuple[int, int] | None) -> str | None:
    """Describes how a number, or a value's length, is outside the limits; None: it isn't."""
    if isinstance(value, str):
        try:
            value = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return f"{place} has a lone surrogate, which UTF-8 has no form for; remove it"
    if limits is None:
        return None
    low, high = limits
    is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if is_finite and isinstance(value, int | float) and not low <= value <= high:
        return f"{place} is {value}; the field can hold {low} to {high}"
    if isinstance(value, Sized) and not low <= len(value) <= high:
        return f"{place} has a length of {len(value)}; the field can hold {low} to {high}"
    return None


def wrong_size(name: str, size: int, expected: int) -> OutOfRange:
    """Makes the error for a length, count or measure that differs from its fixed or stated size."""
    return OutOfRange(f"{name} has a length of {size}; the field holds {expected}")


def wrong_null(name: str, version: int) -> OutOfRange:
    """Makes the error for null in a version that has no null."""
    return OutOfRange(f"{name} is null, which version {version} doesn't allow; give it a value")


def no_place(name: str, version: int) -> UnsupportedVersion:
    """Makes the error for a field that was set, in a version that doesn't have it."""
    return UnsupportedVersion(f"{name} is set, but version {version} has no place for it; leave its default")


def wrong_mark(name: str, mark: int) -> OutOfRange:
    """Makes the error for a struct that may be null, whose first byte means neither null nor present."""
    return OutOfRange(
        f"{name} begins with {mark}, which means neither that it is present nor that it is null"
    )


def check_unmarked(name: str, mark: bytes, places: list[int], pieces: list[Buffer]) -> None:
    """Raises OutOfRange when the encoded message has `mark` at one of `places` (in rising order), where
    readers would take it for a marker that was not set."""
    end = places[-1] + len(mark) if places else 0
    wire = bytearray()
    for piece in pieces:
        if len(wire) >= end:
            break
        wire += memoryview(piece)[: end - len(wire)]
    if any(wire.startswith(mark, place) for place in places):
        raise OutOfRange(f"the bytes behind {name} begin with {mark.hex()}, which means that {name} is true")


def wrong_length(message: str, name: str, length: int, most: int | None = None) -> WireError:
    """Makes the error for a length or count below zero, above `most`, or above the rest of the payload."""
    if length < 0:
        return OutOfRange(f"{name} is null, or has a length below zero, which this version doesn't allow")
    if most is not None and length > most:
        return OutOfRange(f"{name} has a length of {length}; the field holds at most {most}")
    return Truncated(f"{message} ends in {name}")


def too_many_entries(message: str) -> TooManyEntries:
    """Makes the error for a request whose lists have more than MOST_ENTRIES elements together."""
    return TooManyEntries(f"{message} has more than {MOST_ENTRIES} topics, partitions and other entries")
