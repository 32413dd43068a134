"""What generated codecs share: the form of a message, and checks."""

import math
from collections.abc import Sized
from dataclasses import fields, is_dataclass
from typing import ClassVar, Literal, Protocol, Self

from tank_protos.wire import varint
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange, Truncated, UnsupportedVersion, WireError


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
    """Raises OutOfRange unless `value` begins with its own length, of `width` bytes (0: a varint)."""
    try:
        length, start = (int.from_bytes(value[:width], order), width) if width else varint.read(value, 0)
    except WireError:
        length, start = -1, 0
    if start + length != len(value):
        raise OutOfRange(f"{name} must begin with its own length; put it before the {len(value)} bytes")


def unencodable(message: object, error: Exception) -> OutOfRange:
    """What to raise when a value of a generated message does not fit into its place: names the field."""
    return OutOfRange(_misfit(message) or f"{type(message).__name__} cannot be encoded: {error}")


def _misfit(struct: object) -> str | None:
    """The first field of a generated struct, or of those inside it, that is outside of its LIMITS.

    Those of a list's elements stand under the list's name and `[]`.
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
    """What is wrong with a number, or with the length of something; None: nothing that can be told."""
    if isinstance(value, str):
        try:
            value = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return f"{place} holds a lone surrogate, which UTF-8 has no form for; remove it"
    if limits is None:
        return None
    low, high = limits
    is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if is_finite and isinstance(value, int | float) and not low <= value <= high:
        return f"{place} is {value}; its place holds {low} to {high}"
    if isinstance(value, Sized) and not low <= len(value) <= high:
        return f"{place} has a length of {len(value)}; its place holds {low} to {high}"
    return None


def wrong_size(name: str, size: int, expected: int) -> OutOfRange:
    """A length, count or measure that is not what its place, or the field that states it, says."""
    return OutOfRange(f"{name} has a length of {size}; its place is for {expected}")


def wrong_null(name: str, version: int) -> OutOfRange:
    """Null in a version that knows no null."""
    return OutOfRange(f"{name} is null, but version {version} knows no null; give it a value")


def no_place(name: str, version: int) -> UnsupportedVersion:
    """A field that was set, in a version that does not carry it."""
    return UnsupportedVersion(f"{name} is set, but version {version} has no place for it; leave its default")


def wrong_mark(name: str, mark: int) -> OutOfRange:
    """A struct that may be null, behind a byte that says neither that it is nor that it is there."""
    return OutOfRange(f"{name} begins with {mark}, which says neither that it is there nor that it is null")


def check_unmarked(name: str, mark: bytes, places: list[int], pieces: list[Buffer]) -> None:
    """Checks an encoded message for a marker where none was meant: what was written at one of `places`, in
    rising order, must not look like it. Raises OutOfRange."""
    end = places[-1] + len(mark) if places else 0
    wire = bytearray()
    for piece in pieces:
        if len(wire) >= end:
            break
        wire += memoryview(piece)[: end - len(wire)]
    if any(wire.startswith(mark, place) for place in places):
        raise OutOfRange(f"what follows {name} begins with {mark.hex()}, which says that {name} is true")


def wrong_length(message: str, name: str, length: int, most: int | None = None) -> WireError:
    """A length or count that is below zero, above what its kind can have, or more than the payload holds."""
    if length < 0:
        return OutOfRange(f"{name} is null, or has a length below zero, which this version knows not")
    if most is not None and length > most:
        return OutOfRange(f"{name} has a length of {length}; its place is for {most}")
    return Truncated(f"{message} ends in {name}")
