"""Sequence numbers that mean more than themselves, and those that a client chose for its messages. Pure."""

from typing import ClassVar

from tank_node.limits import RENUMBERED_BYTES, RENUMBERED_MESSAGES
from tank_protos import bundle
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle, OutOfRange

FIRST_AVAILABLE = 0
"""A consumer's number that means: the smallest that can be read."""
END = 2**64 - 1
"""A consumer's number that means: what comes next."""


class TooLargeToRenumber(InvalidBundle):
    """A dense bundle behind a gap in the numbers that would cost too much to write anew: send it sparse, or
    in smaller ones."""

    reason: ClassVar[str] = "too_large_to_renumber"


def numbered(
    batch: memoryview, header: bundle.BundleHeader, first: int | None, end: int
) -> tuple[memoryview, int | None, int]:
    """The batch as it is stored behind number `end`, its first number (None: the next one) and its span.

    A sparse bundle's own numbers win over `first`, which a dense one needs. Raises OutOfRange when they are
    not above the end, or too large, InvalidBundle, and TooLargeToRenumber.
    """
    if header.sparse:
        if header.first <= end:
            raise OutOfRange(f"number {header.first} is not above the end, {end}")
        return batch, header.first, header.last - header.first
    assert first is not None
    span = header.messages - 1
    if not end < first <= bundle.MAX_SEQUENCE_NUMBER - span:
        raise OutOfRange(f"number {first} is not above the end, {end}, or too large")
    if first == end + 1:
        return batch, None, span
    # A gap before a dense bundle: stored as it is it would have no numbers of its own, and readers who count
    # from the chunk's base would give it and everything behind it the wrong ones.
    _, start = varint.read(batch, 0)
    size = len(batch)
    if header.codec:
        size, _ = varint.read(batch, header.body_offset)
    if header.messages > RENUMBERED_MESSAGES or size > RENUMBERED_BYTES:
        raise TooLargeToRenumber(f"{header.messages} messages in {size} bytes cannot be numbered anew")
    return memoryview(bundle.as_batch(bundle.make_sparse(batch[start:], first))), first, span
