"""Cuts rows into bundles: chooses each row's partition, and where each bundle ends.

Both follow from the rows alone: not from time, nor from how Spark cuts them into Arrow batches. So a task
that runs again on the same rows makes the same bundles.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyspark_tank.columns import HEADERS
from pyspark_tank.errors import SinkError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# Topics that one task may write to: each costs a request to the broker and a bundle in memory.
MAX_TOPICS = 10_000
# The rows of a partition are taken as slices of their batch when runs have so many rows on average.
LEAST_RUN = 64


class TopicPartition(NamedTuple):
    """The destination of a row: a topic's name and a partition's number, from 0."""

    topic: str
    partition: int


RowHeaders: TypeAlias = tuple[tuple[bytes, bytes | None], ...]
"""The headers of a row: names and values."""


class SinkTopic(NamedTuple):
    """What the sink has to know of a topic."""

    partitions: int
    keeps_records: bool = False
    """Whether it stores record batches: with headers, null values, empty keys and keys of any length."""


class BundleRows(NamedTuple):
    """The messages of one bundle, or of one record batch; `keys` is None when no message has a key."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    timestamp_ms: int
    as_records: bool = False
    headers: list[RowHeaders] | None = None
    """None: no message has headers."""

    def halves(self) -> list[tuple[BundleRows, int]]:
        """The first and the second half, each with the number of rows before it."""
        middle = len(self.values) // 2
        return [
            (
                BundleRows(
                    self.values[part],
                    None if self.keys is None else self.keys[part],
                    self.timestamp_ms,
                    self.as_records,
                    None if self.headers is None else self.headers[part],
                ),
                before,
            )
            for part, before in ((slice(None, middle), 0), (slice(middle, None), middle))
        ]


class KeyPartitioner:
    """Chooses the partition of rows that name none.

    A row with a key goes to the partition that the client's default partitioner chooses (CRC-32C of the key).
    Rows without a key go to the partitions in turn, in runs of `run` rows, beginning at the task's number.
    """

    def __init__(self, topic_of: Callable[[str], SinkTopic], task: int, run: int) -> None:
        self._topic_of = topic_of
        self._task = task
        self._run = run
        self._topics: dict[str, SinkTopic] = {}
        self._keyless: dict[str, int] = {}

    def topic(self, topic: str) -> SinkTopic:
        """The topic; the broker is asked once. Raises the client's UnknownTopic."""
        if topic not in self._topics:
            if len(self._topics) >= MAX_TOPICS:
                raise SinkError(
                    f"one task writes to more than {MAX_TOPICS} topics; is the topic column right?"
                )
            self._topics[topic] = self._topic_of(topic)
        return self._topics[topic]

    def count(self, topic: str) -> int:
        """How many partitions the topic has."""
        return self.topic(topic).partitions

    def choose(self, topic: str, keys: pa.Array | None, rows: int) -> np.ndarray[Any, Any]:
        """A partition for each of the rows, which are all of one topic."""
        import numpy as np
        import pyarrow.compute as pc

        from tank_client.producing.partitioner import crc32c

        count = self.count(topic)
        if keys is None or keys.null_count == rows:
            return self._round(topic, rows, count)
        encoded = keys.dictionary_encode()
        has_empty_keys = self.topic(topic).keeps_records
        distinct = [key if key or has_empty_keys else None for key in encoded.dictionary.to_pylist()]
        by_key = np.array([-1 if key is None else crc32c(key) % count for key in distinct], dtype=np.int64)
        chosen: np.ndarray[Any, Any] = by_key[pc.fill_null(encoded.indices, 0).to_numpy()]
        keyless = chosen < 0
        if encoded.indices.null_count:
            keyless |= encoded.indices.is_null().to_numpy(zero_copy_only=False)
        if keyless.any():
            chosen[keyless] = self._round(topic, int(keyless.sum()), count)
        return chosen

    def _round(self, topic: str, rows: int, count: int) -> np.ndarray[Any, Any]:
        import numpy as np

        seen = self._keyless.get(topic, 0)
        self._keyless[topic] = seen + rows
        return (self._task + np.arange(seen, seen + rows) // self._run) % count


class _Pending:
    """Rows of one partition that don't fill a bundle yet."""

    __slots__ = ("headers", "keys", "size", "values")

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        # None while no row had headers; else as many as values.
        self.headers: list[RowHeaders] | None = None
        # None while no row had a key; else as many as values.
        self.keys: list[bytes | None] | None = None
        self.size = 0

    def add(
        self,
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        headers: list[RowHeaders] | None,
        size: int,
    ) -> None:
        """Appends rows; `size`: the bytes of their keys, values and headers."""
        if headers is not None:
            if self.headers is None:
                self.headers = [()] * len(self.values)
            self.headers += headers
        elif self.headers is not None:
            self.headers += [()] * len(values)
        if keys is not None:
            if self.keys is None:
                self.keys = [None] * len(self.values)
            self.keys += keys
        elif self.keys is not None:
            self.keys += [None] * len(values)
        self.values += values
        self.size += size


class Bundler:
    """Gathers rows by partition; gives a bundle out when the next row would exceed its bounds.

    A bundle has at most `max_rows` rows and `max_bytes` of keys and values, and at least one row.
    """

    def __init__(
        self,
        partitioner: KeyPartitioner,
        topic: str | None,
        *,
        max_rows: int,
        max_bytes: int,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._partitioner = partitioner
        self._topic = topic
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._now_ms = now_ms
        self._pending: dict[TopicPartition, _Pending] = {}

    def add(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, BundleRows]]:
        """Takes the rows of a batch with columns `value` and perhaps `key`, `headers`, `topic`, `partition`.
        Raises SinkError for headers to a topic that has none."""
        import pyarrow as pa

        if batch.num_rows == 0:
            return
        values = _binary(batch, "value")
        assert values is not None
        keys = _binary(batch, "key")
        for topic, rows in self._by_topic(batch):
            part = batch if rows is None else batch.take(pa.array(rows))
            topic_values = values if rows is None else values.take(pa.array(rows))
            topic_keys = keys if rows is None or keys is None else keys.take(pa.array(rows))
            headers = _headers(part)
            if not self._partitioner.topic(topic).keeps_records:
                if headers is not None:
                    raise SinkError(
                        f"topic {topic!r} stores TANK's bundles, which have no headers: drop the column "
                        "`headers`, or write to a topic of Kafka's format "
                        "(`tank topic create NAME --format kafka`)"
                    )
                if topic_values.null_count:
                    topic_values = topic_values.fill_null(b"")  # the format of bundles has no null
            partitions = self._partitions(topic, part, topic_keys)
            yield from self._share_out(topic, partitions, topic_values, topic_keys, headers)

    def finish(self) -> Iterator[tuple[TopicPartition, BundleRows]]:
        """Returns the remaining bundles, one for each partition, in the order of the partitions' names."""
        for where in sorted(self._pending):
            pending = self._pending[where]
            if pending.values:
                yield where, self._rows(where, pending)

    def _by_topic(self, batch: pa.RecordBatch) -> list[tuple[str, np.ndarray[Any, Any] | None]]:
        """The topics of the batch with their rows; None: all rows. The option `topic` wins over the
        column.
        """
        import numpy as np

        if self._topic is not None:
            return [(self._topic, None)]
        column = batch.column("topic")
        if column.null_count:
            raise SinkError(
                "a row's column `topic` is null: fill it, or name one topic by .option('topic', 'name')"
            )
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            return [(names[0], None)]
        indices = encoded.indices.to_numpy()
        return [(name, np.flatnonzero(indices == index)) for index, name in enumerate(names)]

    def _partitions(self, topic: str, batch: pa.RecordBatch, keys: pa.Array | None) -> np.ndarray[Any, Any]:
        import numpy as np
        import pyarrow.compute as pc

        if "partition" not in batch.schema.names:
            return self._partitioner.choose(topic, keys, batch.num_rows)
        column = batch.column("partition")
        count = self._partitioner.count(topic)
        bounds = pc.min_max(column).as_py()
        if bounds["min"] is not None and (bounds["min"] < 0 or bounds["max"] >= count):
            wrong = bounds["min"] if bounds["min"] < 0 else bounds["max"]
            raise SinkError(
                f"a row's column `partition` is {wrong}; topic {topic!r} has the partitions 0 to {count - 1}"
            )
        if not column.null_count:
            return np.asarray(column.to_numpy(), dtype=np.int64)
        chosen = self._partitioner.choose(topic, keys, batch.num_rows)
        given = column.is_valid().to_numpy(zero_copy_only=False)
        chosen[given] = pc.fill_null(column, 0).to_numpy()[given]
        return chosen

    def _share_out(
        self,
        topic: str,
        partitions: np.ndarray[Any, Any],
        values: pa.Array,
        keys: pa.Array | None,
        headers: list[RowHeaders] | None,
    ) -> Iterator[tuple[TopicPartition, BundleRows]]:
        import numpy as np
        import pyarrow as pa

        # Rows without keys come in runs: slices copy nothing.
        begins = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist()]
        if len(begins) <= len(partitions) // LEAST_RUN + 1:
            for begin, end in pairwise([*begins, len(partitions)]):
                where = TopicPartition(topic, int(partitions[begin]))
                part = slice(begin, end)
                yield from self._fill(
                    where,
                    values[part],
                    None if keys is None else keys[part],
                    None if headers is None else headers[part],
                )
            return
        for partition in np.unique(partitions).tolist():
            places = np.flatnonzero(partitions == partition)
            rows = pa.array(places)
            where = TopicPartition(topic, partition)
            yield from self._fill(
                where,
                values.take(rows),
                None if keys is None else keys.take(rows),
                None if headers is None else [headers[place] for place in places.tolist()],
            )

    def _fill(
        self,
        where: TopicPartition,
        values: pa.Array,
        keys: pa.Array | None,
        headers: list[RowHeaders] | None,
    ) -> Iterator[tuple[TopicPartition, BundleRows]]:
        import numpy as np
        import pyarrow.compute as pc

        pending = self._pending.setdefault(where, _Pending())
        topic = self._partitioner.topic(where.topic)
        sizes = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
        if headers is not None:
            sizes += np.array([_headers_bytes(each) for each in headers], dtype=np.int64)
        names: list[bytes | None] | None = None
        if keys is not None and keys.null_count < len(keys):
            sizes += pc.fill_null(pc.binary_length(keys), 0).to_numpy()
            names = [key if key or topic.keeps_records else None for key in keys.to_pylist()]
        ends = np.cumsum(sizes)
        contents = values.to_pylist()
        begin = 0
        while begin < len(contents):
            before = int(ends[begin - 1]) if begin else 0
            fit = int(np.searchsorted(ends, before + self._max_bytes - pending.size, side="right"))
            stop = min(fit, begin + self._max_rows - len(pending.values))
            if not pending.values:
                stop = max(stop, begin + 1)
            if stop > begin:
                names_of_part = None if names is None else names[begin:stop]
                headers_of_part = None if headers is None else headers[begin:stop]
                size = int(ends[stop - 1]) - before
                pending.add(contents[begin:stop], names_of_part, headers_of_part, size)
                begin = stop
            if begin < len(contents):
                yield where, self._rows(where, pending)
                pending = self._pending[where] = _Pending()

    def _rows(self, where: TopicPartition, pending: _Pending) -> BundleRows:
        keys = pending.keys
        as_records = self._partitioner.topic(where.topic).keeps_records
        if keys is not None and not as_records and not any(keys):  # an empty key is no key
            keys = None
        return BundleRows(pending.values, keys, self._now_ms(), as_records, pending.headers)


def _headers(batch: pa.RecordBatch) -> list[RowHeaders] | None:
    """The headers of each row; None when no row has some. Raises SinkError for a header without a name."""
    if HEADERS not in batch.schema.names:
        return None
    column = batch.column(HEADERS)
    if column.null_count == len(column):
        return None
    try:
        found = [
            tuple((str(each["key"]).encode(), each["value"]) for each in row or () if _named(each))
            for row in column.to_pylist()
        ]
    except TypeError:
        raise SinkError("a header without a name: its `key` is null") from None
    return found if any(found) else None


def _named(header: dict[str, Any] | None) -> bool:
    if header is None or header["key"] is None:
        raise TypeError("a header without a name")
    return True


def _headers_bytes(headers: RowHeaders) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers)


def _binary(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """A column of strings or bytes as bytes, or None when the batch has no column of that name."""
    import pyarrow as pa

    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    wanted = pa.large_binary() if large else pa.binary()
    # Arrow copies even where it has nothing to change.
    return column if column.type == wanted else column.cast(wanted)
