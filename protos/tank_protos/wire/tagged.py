"""Tagged fields, which end each struct in the flexible versions of the Kafka project's messages (KIP-482).

They are a count, then each field's tag, size and value, in rising order of tags. A reader skips unknown tags.
Counts, tags and sizes are varints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tank_protos.wire import varint
from tank_protos.wire.errors import OutOfRange, Truncated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tank_protos.wire.buffer import Buffer


class UnknownTag(NamedTuple):
    """A tagged field of a newer version of the message, kept so that it can be encoded again."""

    tag: int
    data: bytes | bytearray


def read_tag(payload: memoryview, at: int, previous: int) -> tuple[int, int, int]:
    """Returns the tag at `at`, and the offsets of its value's begin and end.

    Raises OutOfRange when the tag is not above the `previous` one, Truncated when the value is incomplete.
    """
    tag, at = varint.read(payload, at)
    if tag <= previous:
        raise OutOfRange(f"the tag {tag} follows {previous}; tags must rise")
    size, at = varint.read(payload, at)
    if size > len(payload) - at:
        raise Truncated(f"the payload ends in the tagged field {tag}")
    return tag, at, at + size


def read_unknown(payload: memoryview, at: int, count: int, keep: bool) -> tuple[tuple[UnknownTag, ...], int]:
    """Skips `count` tagged fields, or keeps them; returns them and the offset behind them. Raises like
    `read_tag`."""
    found = []
    tag = -1
    while count:
        count -= 1
        tag, at, end = read_tag(payload, at, tag)
        if keep:
            found.append(UnknownTag(tag, payload[at:end].tobytes()))
        at = end
    return tuple(found), at


def write_tags(known: Sequence[tuple[int, Buffer]], unknown: Sequence[tuple[int, Buffer]]) -> bytes:
    """Encodes all tagged fields of a struct, known and unknown ones in rising order of tags.

    Raises OutOfRange when a tag occurs twice or is below 0.
    """
    out = bytearray(varint.encode(len(known) + len(unknown)))
    previous = -1
    for tag, data in sorted([*known, *unknown], key=lambda pair: pair[0]):
        if tag <= previous:
            raise OutOfRange(f"the tag {tag} occurs twice, or is below 0; keep one field with it")
        previous = tag
        out += varint.encode(tag)
        out += varint.encode(len(data))
        out += data
    return bytes(out)


def wrong_tag(name: str, tag: int, excess: int) -> OutOfRange:
    """Makes the error for a tagged field whose value is longer or shorter than its stated size."""
    return OutOfRange(f"the tagged field {tag} of {name} ends {excess:+} bytes from its stated end")
