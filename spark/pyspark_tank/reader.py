"""Reads ranges of messages, in Spark's tasks, as Arrow record batches. No Python object per message."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_tank.columns import CREATE_TIME, Layout
from pyspark_tank.driver import data_loss, resolve, subscribed_partitions
from pyspark_tank.offsets import OffsetRange, ranges_between, split
from pyspark_tank.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_tank.leader_connection import LeaderConnection
    from tank_client.model import FetchedChunk
    from tank_client.sync import Client

logger = logging.getLogger("pyspark_tank")

# One fetch waits so long in the broker for messages that it should have (a new leader finding its end).
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
        """The range's messages, in order, in batches of about 1 MB. Closes its connection at its end.

        Raises DataLossError (see `failOnDataLoss`), or what the client raises when no broker answers.
        """
        from tank_client.sync import Client

        fill = _Filler(self.schema, self.layout, self.options, messages)
        with (
            Client(self.options.servers) as client,
            closing(_Fetcher(client, self.options, messages)) as fetcher,
        ):
            yield from fetcher.batches(fill)


class TankReader(DataSourceReader):  # type: ignore[misc]
    """`spark.read.format("tank")`."""

    def __init__(self, options: SourceOptions, schema: StructType, layout: Layout) -> None:
        self._options = options
        self._ranges = RangeReader(options, schema, layout)

    def partitions(self) -> list[TankPartition]:
        """Asks the broker what there is, once, in the driver."""
        from tank_client.sync import Client

        options = self._options
        with Client(options.servers) as client:
            partitions = subscribed_partitions(client, options.subscription)
            start = resolve(client, options.starting, partitions, options, starting=True)
            end = resolve(client, options.ending, partitions, options, starting=False)
        ranges = ranges_between(start, end)
        shared = split(ranges, options.min_partitions, options.max_records_per_partition)
        # Spark makes one odd partition out of an empty list; an empty range reads nothing.
        return [TankPartition(part) for part in shared] or [TankPartition(OffsetRange("", 0, 1, 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TankPartition)
        if partition.messages.size == 0:
            return iter(())
        return self._ranges.read(partition.messages)


class _Fetcher:
    """Fetches a range's chunks. The next one is on its way while Spark works on the one before: the broker
    has been asked for it, and what comes waits in the socket.
    """

    def __init__(self, client: Client, options: SourceOptions, messages: OffsetRange) -> None:
        self._client = client
        self._options = options
        self._messages = messages
        # None: nothing was asked for, the client fetches.
        self._leader: LeaderConnection | None = None

    def batches(self, fill: _Filler) -> Iterator[pa.RecordBatch]:
        from tank_protos.bundle_arrow import Chunk, decode_arrow

        end = self._messages.end
        offset = self._messages.start
        deadline = self._deadline()
        while True:
            fetched, begin = self._fetch(offset), offset
            if isinstance(fetched, int):  # the messages up to there are gone
                offset = fetched
            else:
                offset = self._reached(fetched, begin)
                if offset > begin:
                    deadline = self._deadline()
                elif time.monotonic() > deadline:
                    offset = self._nothing_came(begin, fetched)
            if offset < end:
                self._ask(offset)
            if not isinstance(fetched, int):
                # One at a time: of what is decoded there is never more than a batch.
                yield from map(fill.batch, decode_arrow([Chunk(fetched.base, fetched.chunk, begin, end - 1)]))
            if offset >= end:
                return

    def close(self) -> None:
        """Ends the connection to the leader."""
        leader, self._leader = self._leader, None
        if leader is not None:
            leader.close()

    def _ask(self, offset: int) -> None:
        """Asks the leader for the chunk that `_fetch` will want next. Where that fails the client fetches,
        and finds out what is wrong.
        """
        from pyspark_tank.leader_connection import LeaderConnection
        from tank_client.data_operations import Want
        from tank_client.errors import TankError

        part = self._messages
        try:
            if self._leader is None:
                address, server = self._client.leader(part.topic, part.partition)
                self._leader = LeaderConnection(address, server, self._client.settings)
            self._leader.ask(
                Want(part.topic, part.partition, offset, self._options.fetch_bytes), FETCH_WAIT_MS
            )
        except (OSError, TankError):
            self.close()

    def _fetch(self, offset: int) -> FetchedChunk | int:
        """A chunk; or the offset to go on from where the broker has not got this one any more."""
        from tank_client.errors import OutOfBounds, TankError, UnknownPartition, UnknownTopic
        from tank_protos.errors import WireError

        part = self._messages
        if self._leader is not None:
            try:
                return self._leader.answer()
            except (OSError, TankError, WireError):
                self.close()
        try:
            return self._client.fetch(
                part.topic, part.partition, offset, self._options.fetch_bytes, FETCH_WAIT_MS
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
        """Where to go on, by the headers of the bundles. Equal to `offset` when nothing came and something is
        still to come. Raises InvalidBundle.
        """
        from tank_protos.bundle import bundles, read_header

        number = fetched.base if len(fetched.chunk) else offset
        for bundle in bundles(fetched.chunk):
            header = read_header(bundle)
            first = header.first if header.sparse else number
            if first >= self._messages.end:
                return self._messages.end
            number = first + header.span + 1
        return max(offset, min(number, self._messages.end))

    def _nothing_came(self, offset: int, fetched: FetchedChunk) -> int:
        """The end of the range: nothing came for `fetchTimeoutMs` (or an error)."""
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
    """Makes the query's columns out of a decoded batch."""

    def __init__(
        self, schema: StructType, layout: Layout, options: SourceOptions, messages: OffsetRange
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        from pyspark_tank.json_values import JsonDecoder

        self._layout = layout
        self._constants: dict[str, object] = {
            "topic": messages.topic,
            "partition": messages.partition,
            "timestampType": CREATE_TIME,
        }
        self._kept: dict[str, pa.Array] = {}
        self._arrow_schema = to_arrow_schema(schema, timezone="UTC")
        self._json: JsonDecoder | None = None
        if layout.flat:
            self._json = JsonDecoder(self._arrow_schema, options.parse_mode)
        elif layout.json_column is not None:
            kind = self._arrow_schema.field(layout.json_column).type
            import pyarrow as pa

            self._json = JsonDecoder(pa.schema(list(kind)), options.parse_mode)

    def batch(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        """`decoded` has key, value, offset, timestamp (milliseconds); what comes out has Spark's schema."""
        import pyarrow as pa

        if self._layout.flat:
            assert self._json is not None
            content = self._json.decode(decoded.column("value"))
            columns = content.flatten()
        else:
            columns = [self._column(name, decoded) for name in self._layout.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)

    def _column(self, name: str, decoded: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self._arrow_schema.field(name).type
        if name in self._constants:
            return self._constant(name, kind, decoded.num_rows)
        column = decoded.column(name)
        if name == "value" and self._json is not None:
            return self._json.decode(column)
        if name == "timestamp":  # milliseconds to microseconds
            column = pc.multiply(column, 1000).view(pa.timestamp("us", tz="UTC"))
        # Arrow copies even where it has nothing to change.
        return column if column.type == kind else column.cast(kind)

    def _constant(self, name: str, kind: pa.DataType, rows: int) -> pa.Array:
        """A column that is the same in every row: a slice of one that is kept."""
        import pyarrow as pa

        kept = self._kept.get(name)
        if kept is None or len(kept) < rows:
            kept = self._kept[name] = pa.repeat(pa.scalar(self._constants[name], kind), rows)
        return kept.slice(0, rows)
