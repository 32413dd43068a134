"""Reads fetched chunks: of bundles, and of Kafka's record batches as they are stored."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast

from tank_client.model import Headers
from tank_protos.bundle import (
    DamagedPart,
    SoundPart,
    bundles,
    decode_columns,
    join_columns,
    read_header,
    split_damaged,
)
from tank_protos.wire.errors import InvalidBundle, WireError

if TYPE_CHECKING:
    import pyarrow as pa

    from tank_protos.kafka.stored_chunk import StoredColumns


class BatchColumns(NamedTuple):
    """Messages by column; all columns are of one length, but `keys` is None when no message has a key."""

    numbers: Sequence[int]
    """Rising; a range where no number is missing."""
    timestamps: list[int]
    keys: list[bytes | None] | None
    values: list[bytes | None]


class ReadMessages(NamedTuple):
    """Decoded messages. `headers`: of those that have some, by their place in the columns."""

    columns: BatchColumns
    headers: dict[int, Headers]


class Reached(NamedTuple):
    """How far a chunk goes."""

    last: int
    """The last number that may be handed out."""
    whole: bool
    """Whether the chunk holds a whole batch."""
    is_empty: bool
    """Whether none of its numbers belongs to a message: transactions end there, or compaction took them."""


ChunkParts: TypeAlias = list[SoundPart | DamagedPart]


class ChunkReader(Protocol):
    """Reads the chunks of one stored format. `base` has a meaning for bundles alone; the numbers `lower` to
    `upper`, both included, are wanted."""

    def reach(self, chunk: memoryview, base: int, sparse: bool, lower: int, upper: int) -> Reached:
        """How far the chunk goes, at most to `upper`. Raises WireError when nothing of it can be read."""

    def read(self, chunk: memoryview, base: int, lower: int, upper: int) -> ReadMessages:
        """The messages. Raises WireError at a bad batch."""

    def split(self, chunk: memoryview, base: int, lower: int, upper: int) -> ChunkParts:
        """The readable and unreadable parts of a chunk with a bad batch."""

    def join(self, parts: list[ReadMessages]) -> ReadMessages:
        """Joins the messages of readable parts."""

    def to_arrow(self, chunk: memoryview, base: int, lower: int, upper: int) -> "list[pa.RecordBatch]":
        """The messages as Arrow's record batches. Raises WireError at a bad batch."""


class BundleReader:
    """Reads TANK's bundles."""

    def reach(self, chunk: memoryview, base: int, sparse: bool, lower: int, upper: int) -> Reached:
        number, last, whole = base, 0, False
        try:
            for bundle in bundles(chunk):
                header = read_header(bundle)
                first = header.first if header.sparse else number
                if not whole and sparse and not header.sparse:
                    raise InvalidBundle(
                        "the answer says that the first bundle has its own numbers, and it has none"
                    )
                whole = True
                if first > upper:
                    break
                number = first + header.span + 1
                last = min(number - 1, upper)
        except InvalidBundle:
            if last < lower:
                raise
            # The bundles before the bad one are good; the next fetch begins with the bad one.
        return Reached(last, whole, False)

    def read(self, chunk: memoryview, base: int, lower: int, upper: int) -> ReadMessages:
        # A tuple that is made anew costs less than a copy of its columns' type: values are never None here.
        return ReadMessages(cast(BatchColumns, decode_columns(chunk, base, lower, upper)), {})

    def split(self, chunk: memoryview, base: int, lower: int, upper: int) -> ChunkParts:
        return split_damaged(chunk, base, lower, upper)

    def join(self, parts: list[ReadMessages]) -> ReadMessages:
        from tank_protos.bundle import Columns

        joined = join_columns([cast(Columns, part.columns) for part in parts])
        return ReadMessages(cast(BatchColumns, joined), {})

    def to_arrow(self, chunk: memoryview, base: int, lower: int, upper: int) -> "list[pa.RecordBatch]":
        from tank_protos.bundle.arrow import Chunk, decode_arrow

        return list(decode_arrow([Chunk(base, chunk, lower, upper)]))


class RecordReader:
    """Reads Kafka's record batches. Their codecs are imported at the first chunk that holds some."""

    def reach(self, chunk: memoryview, base: int, sparse: bool, lower: int, upper: int) -> Reached:
        from tank_protos.kafka import stored_chunk

        last, whole, may_show, surely_shows = stored_chunk.reach(chunk, lower, upper)
        is_empty = whole and not may_show
        if may_show and not surely_shows:  # after a compaction only the records themselves tell
            try:
                is_empty = not stored_chunk.read_columns(chunk, lower, upper).values
            except WireError:
                is_empty = False  # the read of the batch raises the error
        return Reached(last, whole, is_empty)

    def read(self, chunk: memoryview, base: int, lower: int, upper: int) -> ReadMessages:
        from tank_protos.kafka import stored_chunk

        return _messages(stored_chunk.read_columns(chunk, lower, upper))

    def split(self, chunk: memoryview, base: int, lower: int, upper: int) -> ChunkParts:
        from tank_protos.kafka import stored_chunk

        return [
            part
            if isinstance(part, DamagedPart)
            else SoundPart(part.lower, part.data, part.lower, part.upper)
            for part in stored_chunk.split_damaged(chunk, lower, upper)
        ]

    def join(self, parts: list[ReadMessages]) -> ReadMessages:
        numbers: list[int] = []
        timestamps: list[int] = []
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        headers: dict[int, Headers] = {}
        for columns, found in parts:
            headers.update((len(values) + place, each) for place, each in found.items())
            numbers += columns.numbers
            timestamps += columns.timestamps
            keys += columns.keys or ()
            values += columns.values
        return ReadMessages(BatchColumns(numbers, timestamps, keys, values), headers)

    def to_arrow(self, chunk: memoryview, base: int, lower: int, upper: int) -> "list[pa.RecordBatch]":
        from tank_protos.kafka.stored_arrow import decode_arrow

        return list(decode_arrow(chunk, lower, upper))


def _messages(columns: "StoredColumns") -> ReadMessages:
    numbers, timestamps, keys, values, headers = columns
    return ReadMessages(
        BatchColumns(numbers, timestamps, keys, values),
        {place: text_headers(found) for place, found in headers.items()},
    )


def text_headers(headers: tuple[tuple[bytes, bytes | None], ...]) -> Headers:
    """Headers with their names as text. Bytes that are no UTF-8 become lone surrogates, as in names of files,
    so that a program that sends the headers on sends the same bytes."""
    return tuple((name.decode("utf-8", "surrogateescape"), value) for name, value in headers)


BUNDLES: Final = BundleReader()
RECORDS: Final = RecordReader()


def reader_of(holds_records: bool) -> ChunkReader:
    """The reader of a chunk."""
    return RECORDS if holds_records else BUNDLES
