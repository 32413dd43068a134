"""Tagged fields: what ends each struct in the flexible versions of the Kafka project's messages.

A count, then for each field its tag, its size and its value; tags rise. A reader passes over those it does
not know. Counts, tags and sizes are varints. Source: KIP-482.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tank_protos.wire import varint
from tank_protos.wire.errors import OutOfRange, Truncated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tank_protos.wire.buffer import Buffer


class UnknownTag(NamedTuple):
    """A tagged field of a newer version of the message: kept so that it can be handed on."""

    tag: int
    data: bytes | bytearray


def read_tag(payload: memoryview, at: int, previous: int) -> tuple[int, int, int]:
    """The tag at `at`, where its value begins and where it ends.

    Raises OutOfRange when the tag is not above the `previous` one, Truncated when the value is not all there.
    """
    tag, at = varint.read(payload, at)
    if tag <= previous:
        raise OutOfRange(f"the tag {tag} follows {previous}; tags must rise")
    size, at = varint.read(payload, at)
    if size > len(payload) - at:
        raise Truncated(f"the payload ends in the tagged field {tag}")
    return tag, at, at + size


def read_unknown(payload: memoryview, at: int, count: int, keep: bool) -> tuple[tuple[UnknownTag, ...], int]:
    """Passes over `count` tagged fields, or keeps them; and where they end. Raises as `read_tag`."""
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
    """All tagged fields of a struct, those with unknown tags among the others.

    Raises OutOfRange when a tag is there twice or is none.
    """
    out = bytearray(varint.encode(len(known) + len(unknown)))
    previous = -1
    for tag, data in sorted([*known, *unknown], key=lambda pair: pair[0]):
        if tag <= previous:
            raise OutOfRange(f"the tag {tag} is there twice, or is below 0; keep one")
        previous = tag
        out += varint.encode(tag)
        out += varint.encode(len(data))
        out += data
    return bytes(out)


def wrong_tag(name: str, tag: int, excess: int) -> OutOfRange:
    """A tagged field whose value does not end where its size says."""
    return OutOfRange(f"the tagged field {tag} of {name} ends {excess:+} bytes from where its size says")
