"""The batch format: an interface for what a log must know of its batches, apart from any protocol."""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, TypeAlias

from tank_protos.wire.buffer import Buffer

HEAD_BYTES: Final = 64
"""The bytes at a batch's start that are enough to tell its length, in any format."""


class InvalidBatch(Exception):
    """Bytes, of a client or of a disk, that are no batch of their format. reason: a short word for
    counters."""

    def __init__(self, sentence: str, reason: str) -> None:
        super().__init__(sentence)
        self.reason = reason


NumberedBatch: TypeAlias = tuple[memoryview, int | None, int, int]
"""A batch to be stored: its bytes, its first number (None: the log's next), its span (last number minus
first), and the flags of its index record."""


class NumberTaken(Exception):
    """A batch brings its own numbers, and they are not above the log's end, or too large."""


class BatchInfo(NamedTuple):
    """What `BatchFormat.judge` read of a batch that may be stored."""

    messages: int
    """At least 1."""
    timestamp_ms: int
    """The greatest time known without decompressing; 0: none is known."""
    sparse: bool
    """Whether the batch has numbers in its bytes, `first` to `last`, so that `number` must see it. Otherwise
    the log gives the numbers."""
    first: int
    last: int


class FoundBatch(NamedTuple):
    """What `BatchFormat.find` read of a batch without a record: the fields for a new record."""

    first: int
    span: int
    messages: int
    timestamp_ms: int
    flags: int
    producer_id: int = 0
    """0, with the next two: the batch doesn't name its producer."""
    producer_epoch: int = 0
    producer_sequence: int = 0
    append_ms: int = 0
    """The time of its append; 0: the batch doesn't have it."""


class KeyedEntry(NamedTuple):
    """What a compaction must know of a message."""

    number: int
    key: bytes | None
    """None: the message has no key."""
    is_empty: bool
    """Whether the message has no value: with a key it says that the key is deleted."""


class Times(NamedTuple):
    """The messages of a batch: their numbers, which rise, and their timestamps, -1 for an unknown one."""

    numbers: Sequence[int]
    timestamps_ms: Sequence[int]


class BatchFormat:
    """One format of stored batches; `batch_formats.format_of` finds it by the number in records.

    `judge` checks a batch, and `number` gives it its numbers, before a log takes it. All methods are pure,
    and raise InvalidBatch for bytes that are no batch of this format.
    """

    __slots__ = ()

    tells_greatest_time: ClassVar[bool] = False
    """Whether the time that `judge` tells is the greatest of all messages in the batch."""

    def judge(self, batch: memoryview, walks: bool) -> BatchInfo:
        """Checks a batch of a client. walks: whether to check the lengths of its messages too, if it is not
        compressed."""
        raise NotImplementedError

    def number(
        self, batch: memoryview, info: BatchInfo, first: int | None, end: int, leader_epoch: int
    ) -> NumberedBatch:
        """Returns the batch as a leader of this epoch stores it behind number `end`. first: the number that
        the client wants; None: the log's next, unless the format lets clients number their batches. Raises
        NumberTaken."""
        raise NotImplementedError

    def last_in(self, batch: Buffer) -> int:
        """The last number in the bytes of a sparse batch."""
        raise NotImplementedError

    def entries(self, batch: memoryview, first: int) -> list[KeyedEntry]:
        """Decodes all messages of a batch. first: the number of a dense batch's first message."""
        raise NotImplementedError

    def times(self, batch: memoryview, first: int, max_bytes: int) -> "Times":
        """Reads the numbers and timestamps of all messages of a batch. first: as for `entries`. max_bytes:
        the most that a compressed batch may unpack to."""
        raise NotImplementedError

    def rewritten(self, batch: memoryview, first: int, kept: Sequence[int], horizon_ms: int = 0) -> bytes:
        """Encodes a sparse batch with only those messages of a batch that are at these places in its
        `entries`, at their numbers. kept: at least one place; they rise. horizon_ms: the time from which on
        compaction may remove the tombstones, to be written where the format has a place for it; 0: as it is.
        """
        raise NotImplementedError

    def horizon_ms(self, batch: memoryview) -> int | None:
        """The time in the batch from which on compaction may remove its tombstones; 0: none is written yet.
        None: the format has no place for one, and tombstones stay for ever."""
        raise NotImplementedError

    def given_epoch(self, batch: bytes, leader_epoch: int) -> bytes:
        """Returns a stored batch whose record gets another leader epoch."""
        raise NotImplementedError

    def batch_bytes(self, head: memoryview) -> int:
        """The length of the batch that begins with these bytes. head: HEAD_BYTES of them, or all that there
        are."""
        raise NotImplementedError

    def find(self, batch: memoryview, last: int) -> FoundBatch:
        """Decodes a batch that has no record, to its last message, because a valid head alone may be chance.
        last: the number before the batch."""
        raise NotImplementedError
