"""Reads ranges of messages, in Spark's tasks, as Arrow record batches. No Python object per message."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_tank.columns import CREATE_TIME, Layout
from pyspark_tank.connecting import connect, options_named
from pyspark_tank.driver import check_order, data_loss, resolve, subscribed_partitions
from pyspark_tank.errors import TankSourceError
from pyspark_tank.offsets import OffsetRange, ranges_between, split
from pyspark_tank.options import SourceOptions
from pyspark_tank.positions import made_anew

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_tank.leader_connection import LeaderConnection
    from tank_client.model import FetchedChunk
    from tank_client.sync import Client
    from tank_protos.bundle.arrow import ArrowColumns, Chunk

logger = logging.getLogger("pyspark_tank")

# How long one fetch waits at the broker for messages that exist, but that a new leader may not show yet.
FETCH_WAIT_MS = 1000


class TankPartition(InputPartition):  # type: ignore[misc]
    """The range of one task. Pickled by Spark."""

    def __init__(self, messages: OffsetRange) -> None:
        super().__init__(messages)
        self.messages = messages


class RangeReader:
    """Reads ranges; the same for batches and streams. Pickled from the driver to the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType, layout: Layout) -> None:
        self.options = options
        self.schema = schema
        self.layout = layout

    def read(self, messages: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yields the range's messages, in order, in batches of about 1 MB. Closes its connection at the end.

        Raises DataLossError (see `failOnDataLoss`), or the client's error when no broker answers.
        """
        from tank_client.sync import Client

        fill = _Filler(self.schema, self.layout, self.options, messages)
        with (
            options_named(),
            Client(self.options.servers) as client,
            closing(RangeFetcher(client, self.options, messages)) as fetcher,
        ):
            if self._is_same_topic(client, messages):
                yield from fetcher.batches(fill)
                self._is_same_topic(
                    client, messages
                )  # checked at the end, too: all messages read are of this topic

    def _is_same_topic(self, client: Client, messages: OffsetRange) -> bool:
        """Whether the topic is the one that the driver planned for. When it was deleted and created again
        since, raises DataLossError, or under failOnDataLoss=false logs a warning.
        """
        from tank_client.errors import UnknownTopic

        if not messages.topic_id:
            return True
        try:
            (now,) = client.admin.describe_topics([messages.topic])
        except UnknownTopic:
            return True  # the next fetch, if there is one, raises the error
        if not made_anew({now.name: messages.topic_id}, {now.name: now.topic_id}):
            return True
        data_loss(
            self.options.fail_on_data_loss,
            f"{messages.topic}/{messages.partition}: the topic was deleted and created again since the read "
            f"of its messages {messages.start} to {messages.end - 1} was planned",
        )
        return False


class TankReader(DataSourceReader):  # type: ignore[misc]
    """`spark.read.format("tank")`."""

    def __init__(self, options: SourceOptions, schema: StructType, layout: Layout) -> None:
        self._options = options
        self._ranges = RangeReader(options, schema, layout)

    def partitions(self) -> list[TankPartition]:
        """Asks the broker for the partitions and their ends, once, in the driver."""
        options = self._options
        with options_named(), connect(options.servers) as client:
            partitions, topic_ids = subscribed_partitions(client, options.subscription)
            start = resolve(client, options.starting, partitions, options, starting=True)
            end = resolve(client, options.ending, partitions, options, starting=False)
        check_order(start, end, options)
        ranges = ranges_between(start, end, topic_ids)
        shared = split(ranges, options.min_partitions, options.max_records_per_partition)
        # Spark makes a partition of its own out of an empty list; an empty range is returned in its place.
        return [TankPartition(part) for part in shared] or [TankPartition(OffsetRange("", 0, 1, 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TankPartition)
        if partition.messages.size == 0:
            return iter(())
        return self._ranges.read(partition.messages)


class RangeFetcher:
    """Fetches a range's chunks. While Spark works on one chunk, the next one has been requested, and its
    answer waits in the socket.
    """

    def __init__(self, client: Client, options: SourceOptions, messages: OffsetRange) -> None:
        self._client = client
        self._options = options
        self._messages = messages
        # None: nothing was requested there, the client fetches.
        self._leader: LeaderConnection | None = None
        # The size of the largest bundle of the last chunk; 0: not known.
        self._bundle_bytes = 0

    def batches(self, fill: _Filler) -> Iterator[pa.RecordBatch]:
        """Yields the range's messages, as `fill` makes them, in order. Raises DataLossError, or the client's
        error."""
        from tank_protos.bundle.arrow import Chunk

        end = self._messages.end
        offset = self._messages.start
        deadline = self._deadline()
        while True:
            fetched, begin = self._fetch(offset), offset
            if isinstance(fetched, int):  # the messages before this offset are gone
                offset = fetched
            else:
                offset = self._reached(fetched, begin)
                if offset > begin:
                    deadline = self._deadline()
                else:
                    # The broker may have been replaced as leader without knowing it: the client finds out.
                    self.close()
                    if time.monotonic() > deadline:
                        offset = self._nothing_came(begin, fetched)
            if begin < offset < end:
                self._ask(offset)
            if not isinstance(fetched, int):
                # One at a time, so that no more than a batch is decoded.
                wanted = Chunk(fetched.base, fetched.chunk, begin, end - 1)
                if fetched.holds_records:
                    yield from map(fill.records, self._decoded_records(wanted))
                else:
                    yield from map(fill.batch, self._decoded(wanted))
            if offset >= end:
                return

    def _decoded(self, wanted: Chunk) -> Iterator[ArrowColumns]:
        """Yields the messages of a chunk. At a bundle that cannot be read it raises DataLossError, or under
        failOnDataLoss=false logs a warning and goes on behind the bundle."""
        from tank_protos.bundle import DamagedPart, split_damaged
        from tank_protos.bundle.arrow import Chunk, decode_buffers
        from tank_protos.wire.errors import InvalidBundle

        reached = wanted.lower
        try:
            for columns in decode_buffers([wanted]):
                stop = 8 * (columns.begin + columns.rows)
                last = memoryview(columns.numbers).cast("B")[stop - 8 : stop]
                reached = int.from_bytes(last, "little") + 1
                yield columns
        except InvalidBundle:
            part = self._messages
            for piece in split_damaged(wanted.data, wanted.base, reached, wanted.upper):
                if isinstance(piece, DamagedPart):
                    data_loss(
                        self._options.fail_on_data_loss,
                        f"{part.topic}/{part.partition}: the messages {piece.lower} to {piece.upper} cannot "
                        f"be read ({piece.reason})",
                    )
                else:
                    yield from decode_buffers([Chunk(*piece)])

    def _decoded_records(self, wanted: Chunk) -> Iterator[pa.RecordBatch]:
        """Does the same for Kafka's record batches."""
        from tank_protos.bundle import DamagedPart
        from tank_protos.kafka.stored_arrow import decode_arrow
        from tank_protos.kafka.stored_chunk import split_damaged
        from tank_protos.wire.errors import WireError

        reached = wanted.lower
        try:
            for read in decode_arrow(wanted.data, wanted.lower, wanted.upper):
                reached = read.column("offset")[read.num_rows - 1].as_py() + 1
                yield read
        except WireError:
            part = self._messages
            for piece in split_damaged(wanted.data, reached, wanted.upper):
                if isinstance(piece, DamagedPart):
                    data_loss(
                        self._options.fail_on_data_loss,
                        f"{part.topic}/{part.partition}: the messages {piece.lower} to {piece.upper} cannot "
                        f"be read ({piece.reason})",
                    )
                else:
                    yield from decode_arrow(piece.data, piece.lower, piece.upper)

    def close(self) -> None:
        """Ends the connection to the leader."""
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.close()

    def _ask(self, offset: int) -> None:
        """Asks the leader for the chunk that `_fetch` will want next. When that fails, the client fetches it,
        and raises the error if there is one."""
        from pyspark_tank.leader_connection import LeaderConnection
        from tank_client.errors import TankError
        from tank_client.wire.data_operations import Want

        part = self._messages
        try:
            if self._leader is None:
                address, server = self._client.leader(part.topic, part.partition)
                self._leader = LeaderConnection(address, server, self._client.settings)
            self._leader.ask(Want(part.topic, part.partition, offset, self._fetch_bytes()), FETCH_WAIT_MS)
        except (OSError, TankError):
            self.close()

    def _fetch_bytes(self) -> int:
        """The size of as many whole bundles as fit into `fetchBytes`: the broker may cut a chunk within its
        last bundle, which then comes again with the next chunk.
        """
        most = self._options.fetch_bytes
        return most - most % self._bundle_bytes if 0 < self._bundle_bytes <= most else most

    def _fetch(self, offset: int) -> FetchedChunk | int:
        """Fetches a chunk; or returns the offset to continue at when the broker doesn't have this one any
        more.
        """
        from tank_client.errors import OutOfBounds, TankError, UnknownPartition, UnknownTopic
        from tank_protos.wire.errors import WireError

        part = self._messages
        if self._leader is not None:
            try:
                return self._leader.answer()
            except (OSError, TankError, WireError):
                self.close()
        try:
            return self._client.fetch(
                part.topic,
                part.partition,
                offset,
                self._options.fetch_bytes,
                FETCH_WAIT_MS,
                takes_records=True,
            )
        except OutOfBounds as bounds:
            first, last = bounds.first_available, bounds.high_water_mark
            data_loss(
                self._options.fail_on_data_loss,
                f"{part.topic}/{part.partition}: the query needs the messages {offset} to {part.end - 1}, "
                f"and the broker has {first} to {last}: they expired, or the topic was made anew",
            )
            return min(first, part.end) if first > offset else part.end
        except (UnknownTopic, UnknownPartition) as gone:
            data_loss(self._options.fail_on_data_loss, f"{part.topic}/{part.partition} is gone: {gone}")
            return part.end

    def _reached(self, fetched: FetchedChunk, offset: int) -> int:
        """The offset to continue at, from the bundles' headers. Equal to `offset` when nothing came and
        messages are still missing. Raises InvalidBundle.
        """
        from tank_protos.bundle import bundles, read_header
        from tank_protos.wire.varint import MAX_BYTES

        if fetched.holds_records:
            return self._reached_in_records(fetched, offset)
        number = fetched.base if len(fetched.chunk) else offset
        self._bundle_bytes = 0
        for bundle in bundles(fetched.chunk):
            self._bundle_bytes = max(self._bundle_bytes, MAX_BYTES + len(bundle))
            header = read_header(bundle)
            first = header.first if header.sparse else number
            if first >= self._messages.end:
                return self._messages.end
            number = first + header.span + 1
        return max(offset, min(number, self._messages.end))

    def _reached_in_records(self, fetched: FetchedChunk, offset: int) -> int:
        from tank_protos.kafka.record_batch import batches, read_header

        number, end = offset, self._messages.end
        self._bundle_bytes = 0
        for batch in batches(fetched.chunk):
            self._bundle_bytes = max(self._bundle_bytes, len(batch))
            header = read_header(batch)
            if header.base_offset + 1 >= end:
                return end
            number = header.last_offset + 2
        return max(offset, min(number, end))

    def _nothing_came(self, offset: int, fetched: FetchedChunk) -> int:
        """Handles that nothing came for `fetchTimeoutMs`: returns the end of the range, or raises an
        error.
        """
        part = self._messages
        if fetched.high_water_mark >= part.end - 1:
            return part.end  # the rest was compacted away, or the numbers belong to no message
        data_loss(
            self._options.fail_on_data_loss,
            f"{part.topic}/{part.partition}: the messages {offset} to {part.end - 1} did not come within "
            f"{self._options.fetch_timeout_ms} ms (fetchTimeoutMs); "
            f"the broker's end is {fetched.high_water_mark}",
        )
        return part.end

    def _deadline(self) -> float:
        return time.monotonic() + self._options.fetch_timeout_ms / 1000


class _Filler:
    """Makes the query's columns out of decoded messages.

    Calls into Arrow are few, because each is slow here: after a megabyte of data, its code is no longer in
    the processor's cache.
    """

    def __init__(
        self, schema: StructType, layout: Layout, options: SourceOptions, messages: OffsetRange
    ) -> None:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from pyspark_tank.json.values import JsonDecoder

        self._arrow_schema = to_arrow_schema(schema, timezone="UTC")
        self._layout = layout
        self._messages = messages
        self._constants = {
            "topic": messages.topic, "partition": messages.partition, "timestampType": CREATE_TIME
        }  # fmt: skip
        self._json: JsonDecoder | None = None
        if layout.flat:
            self._json = JsonDecoder(self._arrow_schema, options.parse_mode, options.corrupt_field)
        elif layout.json_column is not None:
            kind = self._arrow_schema.field(layout.json_column).type
            self._json = JsonDecoder(pa.schema(list(kind)), options.parse_mode, options.corrupt_field)
        # The function that makes each column; None: the fields of the JSON objects are the columns.
        self._makers: list[Callable[[ArrowColumns], pa.Array]] | None = None
        if not layout.flat:
            self._makers = [
                self._maker(name, self._arrow_schema.field(name).type, messages) for name in layout.names
            ]

    def batch(self, columns: ArrowColumns) -> pa.RecordBatch:
        """A batch with Spark's schema."""
        import pyarrow as pa

        if self._makers is None:
            assert self._json is not None
            made = self._json.decode(self._binary(columns)).flatten()
        else:
            made = [make(columns) for make in self._makers]
        return pa.RecordBatch.from_arrays(made, schema=self._arrow_schema)

    def records(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """The same out of messages that `tank_protos.kafka.stored_arrow` has decoded."""
        import pyarrow as pa

        if self._layout.flat:
            assert self._json is not None
            made = self._json.decode(_without_nulls(read)).flatten()
        else:
            made = [self._of_records(name, read) for name in self._layout.names]
        return pa.RecordBatch.from_arrays(made, schema=self._arrow_schema)

    def _of_records(self, name: str, read: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        from tank_protos.bundle.arrow import MAX_TIMESTAMP_MS

        kind = self._arrow_schema.field(name).type
        if name == "value" and self._json is not None:
            return self._json.decode(_without_nulls(read))
        if name == "timestamp":
            times = read.column("timestamp")
            latest = pc.max(times).as_py()
            if latest >= MAX_TIMESTAMP_MS:
                number = read.column("offset")[pc.index(times, latest).as_py()].as_py()
                raise _too_late(self._messages, number)
            return pc.multiply(times, 1000).cast(kind)
        if name in read.schema.names:
            return read.column(name).cast(kind)
        return pa.repeat(pa.scalar(self._constants[name], kind), read.num_rows)

    def _maker(
        self, name: str, kind: pa.DataType, messages: OffsetRange
    ) -> Callable[[ArrowColumns], pa.Array]:
        """The function that makes the column `name`."""
        import numpy as np

        from tank_protos.bundle.arrow import MAX_TIMESTAMP_MS, number_array, value_array

        json = self._json
        if name == "value":
            if json is not None:
                return lambda columns: json.decode(self._binary(columns))
            return lambda columns: value_array(columns, kind)
        if name == "offset":
            return lambda columns: number_array(columns.numbers, columns.rows, columns.begin, kind)
        if name == "timestamp":  # milliseconds to microseconds

            def timestamps(columns: ArrowColumns) -> pa.Array:
                wanted = np.frombuffer(columns.timestamps, np.int64, columns.rows, 8 * columns.begin)
                if columns.rows and wanted.max() >= MAX_TIMESTAMP_MS:  # the decoder lowers greater ones to it
                    _refuse_times(columns, wanted, messages)
                return number_array((wanted * 1000).data, columns.rows, 0, kind)

            return timestamps
        same = _Constant(self._constants.get(name), kind)
        if name == "key":
            return lambda columns: (
                same(columns) if columns.keys is None else columns.keys.slice(columns.begin, columns.rows)
            )
        return same

    @staticmethod
    def _binary(columns: ArrowColumns) -> pa.Array:
        import pyarrow as pa

        from tank_protos.bundle.arrow import value_array

        return value_array(columns, pa.binary())


def _refuse_times(
    columns: ArrowColumns, times_ms: np.ndarray[Any, np.dtype[np.int64]], part: OffsetRange
) -> None:
    """Raises TankSourceError, which names the first message whose time Spark's column can't hold."""
    import numpy as np

    numbers = np.frombuffer(columns.numbers, np.int64, columns.rows, 8 * columns.begin)
    raise _too_late(part, int(numbers[times_ms.argmax()]))


def _too_late(part: OffsetRange, number: int) -> TankSourceError:
    from tank_protos.bundle.arrow import MAX_TIMESTAMP_MS

    return TankSourceError(
        f"{part.topic}/{part.partition}: the message at offset {number} has a time of "
        f"{MAX_TIMESTAMP_MS} ms or later, which Spark's timestamps, in microseconds, do not hold: read "
        "without the column `timestamp`, for instance by .schema('key BINARY, value BINARY')"
    )


def _without_nulls(read: pa.RecordBatch) -> pa.Array:
    """The values for the decoder of JSON, which makes a null struct of an empty one."""
    return read.column("value").fill_null(b"")


class _Constant:
    """A column with the same value in every row: one array is kept, and slices of it are used."""

    def __init__(self, value: object, kind: pa.DataType) -> None:
        self._value = value
        self._kind = kind
        self._longest: pa.Array | None = None
        self._last: pa.Array | None = None

    def __call__(self, columns: ArrowColumns) -> pa.Array:
        import pyarrow as pa

        rows = columns.rows
        if self._last is not None and len(self._last) == rows:
            return self._last
        if self._longest is None or len(self._longest) < rows:
            self._longest = pa.repeat(pa.scalar(self._value, self._kind), rows)
        self._last = self._longest.slice(0, rows)
        return self._last
