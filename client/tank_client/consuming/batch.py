"""A batch of messages of one partition, as columns."""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from tank_client.consuming.chunk_readers import BatchColumns, ReadMessages, reader_of
from tank_client.errors import CorruptBundle
from tank_client.model import ConsumedMessage, Headers
from tank_protos.bundle import DamagedPart, SoundPart
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    import pyarrow as pa


class MessageBatch:
    """Messages of one partition, in order, as one fetch brought them. A column is decoded on first access,
    and only `messages()` makes an object for each message.

    `topic`, `partition`: the source of the messages. `next_number`: the number to continue with.
    `high_water_mark`: the greatest committed number of the partition when it was fetched.

    `chunk`: the raw bundles, each with its varint length before it, or with `holds_records` Kafka's record
    batches as they are stored; they can hold more than the batch, whose messages have the numbers `lower` to
    `upper`. `base`: the number of the chunk's first message, without meaning when its first bundle is sparse,
    and for record batches.
    """

    __slots__ = (
        "_on_damage",
        "_read",
        "_reader",
        "base",
        "chunk",
        "high_water_mark",
        "holds_records",
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
        on_damage: Callable[[CorruptBundle], bool],
        holds_records: bool = False,
    ) -> None:
        """`on_damage`: called for each bundle that cannot be read; returns whether to read the messages
        behind it.
        """
        self._on_damage = on_damage
        self.topic = topic
        self.partition = partition
        self.chunk = chunk
        self.base = base
        self.lower = lower
        self.upper = upper
        self.next_number = next_number
        self.high_water_mark = high_water_mark
        self.holds_records = holds_records
        self._reader = reader_of(holds_records)
        self._read: ReadMessages | None = None

    @property
    def columns(self) -> BatchColumns:
        """Numbers, timestamps, keys (None: no message has one) and values. A bundle that cannot be read is
        left out, and so are all messages behind it, unless the consumer skips damaged bundles. Raises
        CorruptBundle when no message is left.
        """
        return self._messages().columns

    def _messages(self) -> ReadMessages:
        """The decoded messages. Raises CorruptBundle, as `columns` says."""
        if self._read is None:
            read = self._reader.read
            try:
                self._read = read(self.chunk, self.base, self.lower, self.upper)
            except WireError:
                self._read = self._reader.join(
                    [read(part.data, part.base, part.lower, part.upper) for part in self._sound()]
                )
        return self._read

    def _sound(self) -> list[SoundPart]:
        """Returns the parts of the batch that are readable and to be read, and shortens the batch to them.
        Raises CorruptBundle.
        """
        sound: list[SoundPart] = []
        for part in self._reader.split(self.chunk, self.base, self.lower, self.upper):
            if isinstance(part, DamagedPart):
                error = CorruptBundle(self.topic, self.partition, part.lower, part.reason, last=part.upper)
                if not self._on_damage(error):
                    if not sound:
                        raise error
                    self.upper, self.next_number = part.lower - 1, part.lower
                    break
            else:
                sound.append(part)
        return sound

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
    def values(self) -> list[bytes | None]:
        """The values; None where a message of a topic of Kafka's format has null. Messages of topics of
        TANK's format always have a value, perhaps an empty one."""
        return self.columns.values

    @property
    def headers(self) -> list[Headers]:
        """The headers, an empty tuple where there are none. Only messages of topics of Kafka's format have
        some."""
        read = self._messages()
        find = read.headers.get
        return [find(place, ()) for place in range(len(read.columns.values))]

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
            f"<MessageBatch {self.topic}/{self.partition} "
            f"{self.lower}-{self.next_number - 1}, {self.size_bytes} bytes>"
        )

    def messages(self) -> Iterator[ConsumedMessage]:
        """The messages as tuples (sequence_number, timestamp_ms, key, value, topic, partition, headers)."""
        (numbers, stamps, keys, values), headers = self._messages()
        rows = zip(
            numbers,
            stamps,
            repeat(None) if keys is None else keys,
            values,
            repeat(self.topic),
            repeat(self.partition),
            self.headers if headers else repeat(()),
            strict=False,  # a repeated value has no end
        )
        return map(tuple.__new__, repeat(ConsumedMessage), rows)

    def to_arrow(self) -> "list[pa.RecordBatch]":
        """Record batches with the columns key, value, offset (the number), timestamp (ms), and in topics of
        Kafka's format headers. Needs pyarrow."""
        to_arrow = self._reader.to_arrow
        try:
            return to_arrow(self.chunk, self.base, self.lower, self.upper)
        except WireError:
            return [
                batch
                for part in self._sound()
                for batch in to_arrow(part.data, part.base, part.lower, part.upper)
            ]

    def starting_at(self, number: int) -> "MessageBatch":
        """Returns the same batch without the messages below `number`."""
        return MessageBatch(
            self.topic,
            self.partition,
            chunk=self.chunk,
            base=self.base,
            lower=max(self.lower, number),
            upper=self.upper,
            next_number=self.next_number,
            high_water_mark=self.high_water_mark,
            on_damage=self._on_damage,
            holds_records=self.holds_records,
        )
