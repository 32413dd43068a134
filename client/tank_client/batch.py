"""A batch of messages of one partition, as columns."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tank_client.errors import CorruptBundle
from tank_protos.bundle import Columns, Message, decode_columns
from tank_protos.errors import InvalidBundle

if TYPE_CHECKING:
    import pyarrow as pa


class MessageBatch:
    """Messages of one partition, in order, as one fetch brought them. Nothing is decoded before a column is
    asked for, and no object is made per message but by `messages()`.

    topic, partition
    chunk              the raw bundles (a memoryview, `{varint length, bundle}*`), which can hold more than
    the batch base               the number of the chunk's first message (meaningless when its first bundle
    is sparse) lower, upper       the batch is the chunk's messages with numbers from lower to upper
    next_number        where to read on
    high_water_mark    the greatest committed number of the partition when it was fetched
    """

    __slots__ = (
        "_columns",
        "base",
        "chunk",
        "high_water_mark",
        "lower",
        "next_number",
        "partition",
        "topic",
        "upper",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        chunk: memoryview,
        base: int,
        lower: int,
        upper: int,
        next_number: int,
        high_water_mark: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.chunk = chunk
        self.base = base
        self.lower = lower
        self.upper = upper
        self.next_number = next_number
        self.high_water_mark = high_water_mark
        self._columns: Columns | None = None

    @property
    def columns(self) -> Columns:
        """Numbers, timestamps, keys (None: no message has one), values. CorruptBundle when the bytes are no
        messages."""
        if self._columns is None:
            try:
                self._columns = decode_columns(self.chunk, self.base, self.lower, self.upper)
            except InvalidBundle as error:
                raise CorruptBundle(self.topic, self.partition, self.lower, str(error)) from None
        return self._columns

    @property
    def numbers(self) -> Sequence[int]:
        """The sequence numbers, rising; a range where none is missing."""
        return self.columns.numbers

    @property
    def timestamps_ms(self) -> list[int]:
        """Milliseconds of the epoch."""
        return self.columns.timestamps

    @property
    def keys(self) -> list[bytes | None]:
        """The keys, None where there is none."""
        keys = self.columns.keys
        return [None] * len(self) if keys is None else keys

    @property
    def values(self) -> list[bytes]:
        """The contents."""
        return self.columns.values

    @property
    def first(self) -> int:
        """The number of the first message."""
        return self.columns.numbers[0]

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.columns.numbers[-1]

    @property
    def size_bytes(self) -> int:
        """The size of the chunk."""
        return len(self.chunk)

    def __len__(self) -> int:
        return len(self.columns.values)

    def __repr__(self) -> str:
        return (
            f"<MessageBatch {self.topic}/{self.partition} {self.lower}-{self.upper}, {self.size_bytes} bytes>"
        )

    def messages(self) -> Iterator[Message]:
        """The messages as tuples (sequence_number, timestamp_ms, key, value)."""
        return iter(self.columns.messages())

    def to_arrow(self) -> "list[pa.RecordBatch]":
        """Record batches with the columns key, value, offset (the number), timestamp (ms). Needs pyarrow."""
        from tank_protos.bundle_arrow import Chunk, decode_arrow

        batches: list[Any] = list(decode_arrow([Chunk(self.base, self.chunk, self.lower, self.upper)]))
        return batches

    def starting_at(self, number: int) -> "MessageBatch":
        """The same batch without what is below `number`."""
        return MessageBatch(
            self.topic,
            self.partition,
            chunk=self.chunk,
            base=self.base,
            lower=max(self.lower, number),
            upper=self.upper,
            next_number=self.next_number,
            high_water_mark=self.high_water_mark,
        )
