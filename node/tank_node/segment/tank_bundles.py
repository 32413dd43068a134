"""The batch format of TANK: bundles, each with its length before it (docs/protocol/bundle.md)."""

from collections.abc import Sequence
from typing import ClassVar

from tank_node.limits import RENUMBERED_BYTES, RENUMBERED_MESSAGES
from tank_node.segment.batch_format import (
    BatchFormat,
    BatchInfo,
    FoundBatch,
    InvalidBatch,
    KeyedEntry,
    NumberedBatch,
    NumberTaken,
    Times,
)
from tank_node.segment.record import SPARSE
from tank_protos import bundle
from tank_protos.wire import varint
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import InvalidBundle, OutOfRange, WireError


class TooLargeToRenumber(InvalidBundle):
    """A dense bundle behind a gap in the numbers that is too large to be written anew as a sparse one. The
    client must send it sparse, or in smaller bundles."""

    reason: ClassVar[str] = "too_large_to_renumber"


class TankBundles(BatchFormat):
    """The batch format of topics that TANK's clients write."""

    __slots__ = ()

    def judge(self, batch: memoryview, walks: bool) -> BatchInfo:
        try:
            header = bundle.validate(batch, walks)
        except InvalidBundle as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid
        timestamp_ms = bundle.first_timestamp_ms(batch, header) or 0
        return BatchInfo(header.messages, timestamp_ms, header.sparse, header.first, header.last)

    def number(
        self, batch: memoryview, info: BatchInfo, first: int | None, end: int, leader_epoch: int
    ) -> NumberedBatch:
        """As `BatchFormat.number`. A sparse bundle's own numbers win over `first`. A dense bundle behind a
        gap is written anew as a sparse one, because readers count the numbers of dense bundles from the start
        of a chunk.
        """
        if info.sparse:
            if info.first <= end:
                raise NumberTaken(f"number {info.first} is not above the end, {end}")
            return batch, info.first, info.last - info.first, SPARSE
        span = info.messages - 1
        if first is None:
            return batch, None, span, 0
        if not end < first <= bundle.MAX_SEQUENCE_NUMBER - span:
            raise NumberTaken(f"number {first} is not above the end, {end}, or too large")
        if first == end + 1:
            return batch, None, span, 0
        try:
            return _made_sparse(batch, info.messages, first), first, span, SPARSE
        except InvalidBundle as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid
        except OutOfRange as invalid:
            raise NumberTaken(str(invalid)) from invalid

    def last_in(self, batch: Buffer) -> int:
        try:
            _, start = varint.read(batch, 0)
            return bundle.read_header(memoryview(batch)[start:]).last
        except WireError as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid

    def entries(self, batch: memoryview, first: int) -> list[KeyedEntry]:
        return [
            KeyedEntry(message.sequence_number, message.key or None, not message.value)
            for message in _decode(batch, first)
        ]

    def times(self, batch: memoryview, first: int, max_bytes: int) -> Times:
        try:
            columns = bundle.decode_columns(batch, first, max_bytes=max_bytes)
        except WireError as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid
        return Times(columns.numbers, columns.timestamps)

    def rewritten(self, batch: memoryview, first: int, kept: Sequence[int], horizon_ms: int = 0) -> bytes:
        messages = _decode(batch, first)
        messages = [messages[place] for place in kept]
        return bundle.as_batch(
            bundle.encode_sparse(
                [message.sequence_number for message in messages],
                [message.value for message in messages],
                timestamps=[message.timestamp_ms for message in messages],
                keys=[message.key for message in messages],
            )
        )

    def horizon_ms(self, batch: memoryview) -> int | None:
        return None

    def given_epoch(self, batch: bytes, leader_epoch: int) -> bytes:
        return batch

    def batch_bytes(self, head: memoryview) -> int:
        try:
            length, start = varint.read(head, 0)
        except WireError as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid
        return start + length

    def find(self, batch: memoryview, last: int) -> FoundBatch:
        try:
            header = bundle.validate(batch)
            first = header.first if header.sparse else last + 1
            _, start = varint.read(batch, 0)
            bundle.decode(batch[start:], first)
            timestamp_ms = bundle.first_timestamp_ms(batch, header) or 0
        except WireError as invalid:
            raise InvalidBatch(str(invalid), invalid.reason) from invalid
        return FoundBatch(first, header.span, header.messages, timestamp_ms, SPARSE if header.sparse else 0)


def _decode(batch: memoryview, first: int) -> list[bundle.Message]:
    try:
        _, start = varint.read(batch, 0)
        return bundle.decode(batch[start:], first)
    except WireError as invalid:
        raise InvalidBatch(str(invalid), invalid.reason) from invalid


def _made_sparse(batch: memoryview, messages: int, first: int) -> memoryview:
    """Writes a dense bundle anew as a sparse one with the numbers from `first` on. Raises
    TooLargeToRenumber."""
    _, start = varint.read(batch, 0)
    header = bundle.read_header(batch, start)
    size = len(batch)
    if header.codec:
        size, _ = varint.read(batch, header.body_offset)
    if messages > RENUMBERED_MESSAGES or size > RENUMBERED_BYTES:
        raise TooLargeToRenumber(
            f"{messages} messages in {size} bytes behind a gap are too many to number anew: "
            "send them sparse, or in smaller bundles"
        )
    return memoryview(bundle.as_batch(bundle.make_sparse(batch[start:], first)))
