"""Streaming reads in the driver: chooses the end of each batch. The tasks read as in batch reads."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyspark_tank.columns import Layout
from pyspark_tank.connecting import connect, options_named
from pyspark_tank.driver import data_loss, earliest, ends_of, latest, resolve, subscribed_partitions
from pyspark_tank.fair_limit import FairLimit
from pyspark_tank.offsets import advance, ranges_between, split
from pyspark_tank.options import SourceOptions
from pyspark_tank.positions import (
    Offsets,
    made_anew,
    offsets_from_json,
    offsets_to_json,
    topic_ids_from_json,
)
from pyspark_tank.reader import RangeReader, TankPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from tank_client.sync import Client

logger = logging.getLogger("pyspark_tank")

JsonOffset = dict[str, Any]

COMMIT_AGAIN_S = 30.0
"""After a failed commit of a group's positions, none is tried for so long, so that batches don't wait
for it.
"""


class TankStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """`spark.readStream.format("tank")`. An offset is `{"topic": {"0": next sequence number}}`.

    Spark makes one reader for the life of a query, and further ones for every plan, which it never stops. So
    the first request opens the connection, the end of the object closes it, and `stop()` only closes it
    sooner.
    """

    def __init__(self, options: SourceOptions, schema: StructType, layout: Layout) -> None:
        self._options = options
        self._ranges = RangeReader(options, schema, layout)
        self._connection: Client | None = None
        self._connected_in = 0  # the process: a fork must not use its parent's connection
        self._topic_ids: dict[str, int] = {}  # as of the last look at the topics
        self._read_ids: dict[str, int] = {}  # of the offset that the next batch begins at
        self._target: Offsets | None = None  # set: trigger(availableNow=True), nothing above is read
        self._target_checked = False  # whether the checkpoint's offsets were compared with it
        self._reported: Offsets | None = None
        self._last_batch_s: float | None = None  # None: no batch yet, the first one waits for nothing
        self._committed: Offsets | None = None  # the group's positions, as last taken
        self._commit_again_s = 0.0  # after some that were not taken, none are tried before
        self._fair = FairLimit()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    @options_named()
    def initialOffset(self) -> JsonOffset:
        """Where a query without a checkpoint begins."""
        client = self._client()
        partitions, self._topic_ids = subscribed_partitions(client, self._options.subscription)
        start = resolve(client, self._options.starting, partitions, self._options, starting=True)
        if self._target is not None:  # noted before, and messages may have come since
            self._target = _greater(self._target, start)
        return offsets_to_json(start, self._topic_ids)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit in the options; `latestOffset` applies `minOffsetsPerTrigger` beside a maximum."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @options_named()
    def latestOffset(self, start: JsonOffset, limit: ReadLimit) -> JsonOffset:
        """The end of the next batch. Without new messages, waits at the brokers for `latestOffsetWaitMs`."""
        begin, self._read_ids = offsets_from_json(start), topic_ids_from_json(start)
        end = self._target_from(begin) if self._target is not None else self._news(begin)
        # All messages before `begin` are processed. Spark commits that only with the next batch, which may
        # not come.
        self._commit_positions(begin)
        ranges = ranges_between(begin, end)
        if not isinstance(limit, ReadAllAvailable) and self._too_few(sum(part.size for part in ranges)):
            ranges = []
        if isinstance(limit, ReadMaxRows):
            ranges = self._fair.limit(ranges, limit.max_rows)
        if ranges:
            self._last_batch_s = time.monotonic()
        reached = advance(begin, end, ranges)
        # Without any topic the last offsets stay: an empty one would say that nothing was ever read. Where
        # nothing is new, the same text comes back as it was, for Spark makes a batch for another one.
        is_new = reached != offsets_from_json(start) or made_anew(self._read_ids, self._topic_ids)
        return offsets_to_json(reached, self._topic_ids) if reached and is_new else start

    def reportLatestOffset(self) -> JsonOffset | None:
        """The ends that latestOffset saw last, for the query's progress."""
        return None if self._reported is None else offsets_to_json(self._reported, self._topic_ids)

    @options_named()
    def prepareForTriggerAvailableNow(self) -> None:
        """Notes the present ends, at which the query ends."""
        client = self._client()
        skip_missing = not self._options.fail_on_data_loss
        partitions, self._topic_ids = subscribed_partitions(
            client, self._options.subscription, skip_missing=skip_missing
        )
        self._target = latest(ends_of(client, partitions))
        self._target_checked = False
        self._reported = self._target

    def partitions(self, start: JsonOffset, end: JsonOffset) -> list[TankPartition]:
        """The batch's tasks. The same offsets always give the same tasks."""
        ids = topic_ids_from_json(end)
        begin = offsets_from_json(start)
        for topic in made_anew(topic_ids_from_json(start), ids):
            del begin[topic]  # the offset is of the deleted topic: the new one is read from its beginning
        ranges = ranges_between(begin, offsets_from_json(end), ids)
        shared = split(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [TankPartition(part) for part in shared]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TankPartition)
        return self._ranges.read(partition.messages)

    def commit(self, end: JsonOffset) -> None:
        """Called when the next batch begins: Spark's checkpoint says that the batch up to `end` is done."""
        self._commit_positions(offsets_from_json(end))

    def _commit_positions(self, done: Offsets) -> None:
        """Commits the group's positions, for `tank lag` to show. A failure is logged, and stops no query."""
        from tank_client.errors import TankError

        now_s = time.monotonic()
        if self._options.group is None or done == self._committed or now_s < self._commit_again_s:
            return
        positions = {
            (topic, partition): offset
            for topic, numbers in done.items()
            for partition, offset in numbers.items()
        }
        try:
            self._client().admin.commit_positions(self._options.group, positions)
            self._committed = done
        except TankError as error:
            self._commit_again_s = time.monotonic() + COMMIT_AGAIN_S
            logger.warning("the positions of group %s were not committed: %s", self._options.group, error)

    def stop(self) -> None:
        """Closes the connection if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None and self._connected_in == os.getpid():
            connection.close()

    def _news(self, begin: Offsets) -> Offsets:
        """The ends of the partitions, after waiting until one of them is above `begin`."""
        from tank_client.errors import UnknownPartition, UnknownTopic

        client, wait_ms = self._client(), self._options.latest_offset_wait_ms
        try:
            ends = ends_of(client, self._subscribed(client, begin), begin, wait_ms)
            if self._is_doubtful(begin, latest(ends)):
                ends = ends_of(client, self._subscribed(client, begin))
        # perhaps deleted during the wait: the next request raises the error
        except (UnknownPartition, UnknownTopic):
            ends = ends_of(client, self._subscribed(client, begin))
        if not ends:
            time.sleep(wait_ms / 1000)  # no partition exists, so there is no broker to wait at
        reached = self._reported = latest(ends)
        if not self._options.fail_on_data_loss:
            _skip_expired(begin, earliest(ends))
        self._check_ends(begin, reached)
        return reached

    def _target_from(self, begin: Offsets) -> Offsets:
        """The end of an availableNow query. As in other queries, messages that were read before must still
        exist.
        """
        assert self._target is not None
        self._check_anew(begin)
        if not self._target_checked:
            self._check_gone(begin, self._target)
            if self._is_doubtful(begin, self._target):
                ends = ends_of(self._client(), self._target)
                self._target = self._reported = _greater(self._target, latest(ends))
            self._check_ends(begin, self._target)
            self._target_checked = True
        return self._target

    def _subscribed(self, client: Client, begin: Offsets) -> dict[str, tuple[int, ...]]:
        """The partitions to read now. One that was read and is gone is lost data, as in the Kafka source."""
        from tank_client.errors import UnknownTopic

        fail = self._options.fail_on_data_loss
        try:
            partitions, self._topic_ids = subscribed_partitions(
                client, self._options.subscription, skip_missing=not fail
            )
        except UnknownTopic as unknown:
            if unknown.topic in begin:
                self._check_gone({unknown.topic: begin[unknown.topic]}, {})
            raise
        self._check_gone(begin, partitions)
        self._check_anew(begin)
        return partitions

    def _check_anew(self, begin: Offsets) -> None:
        """Removes topics that were created again from `begin`, so that they are read from their beginning."""
        for topic in sorted(made_anew(self._read_ids, self._topic_ids) & set(begin)):
            read = ", ".join(f"{number} up to {offset - 1}" for number, offset in begin[topic].items())
            data_loss(
                self._options.fail_on_data_loss,
                f"{topic} was deleted and created again: the query has read the old topic (partition "
                f"{read}), and the messages that it had not read are gone",
            )
            del begin[topic]

    def _check_gone(self, begin: Offsets, partitions: Mapping[str, Container[int]]) -> None:
        gone = sorted(
            f"{topic}/{number}"
            for topic, numbers in begin.items()
            for number in numbers
            if number not in partitions.get(topic, ())
        )
        if gone:
            data_loss(
                self._options.fail_on_data_loss,
                f"the query has read {', '.join(gone)}: deleted, or not subscribed to any more",
            )

    def _is_doubtful(self, begin: Offsets, reached: Offsets) -> bool:
        """Whether some partition ends before messages that were read: its leader may be cut off from the
        other brokers. If so, the client has been told to look for another leader.
        """
        from tank_client.errors import OutOfBounds

        short = [
            (topic, number, offset)
            for topic, numbers in begin.items()
            for number, offset in numbers.items()
            if reached.get(topic, {}).get(number, offset) < offset
        ]
        for topic, number, offset in short:
            try:
                self._client().fetch(topic, number, offset)
            except OutOfBounds:
                break  # the client has confirmed it, after some time
        return bool(short)

    def _check_ends(self, begin: Offsets, reached: Offsets) -> None:
        for topic, numbers in begin.items():
            for number, offset in numbers.items():
                end = reached.get(topic, {}).get(number, offset)
                if end < offset:
                    data_loss(
                        self._options.fail_on_data_loss,
                        f"{topic}/{number}: the query has read up to {offset - 1}, and the broker ends at "
                        f"{end - 1}: the topic was made anew, or lost its end",
                    )

    def _too_few(self, waiting: int) -> bool:
        """Whether to wait for minOffsetsPerTrigger: at most maxTriggerDelay, and not under availableNow."""
        least = self._options.min_offsets_per_trigger
        begun = self._last_batch_s
        if least is None or begun is None or waiting >= least or self._target is not None:
            return False
        return (time.monotonic() - begun) * 1000 < self._options.max_trigger_delay_ms

    def _client(self) -> Client:
        if self._connection is None or self._connected_in != os.getpid():
            self._connection = connect(self._options.servers)
            self._connected_in = os.getpid()
        return self._connection


def _greater(some: Offsets, others: Offsets) -> Offsets:
    """The offsets of `some`, each raised to that of `others` where it is below."""
    return {
        topic: {
            partition: max(offset, others.get(topic, {}).get(partition, offset))
            for partition, offset in partitions.items()
        }
        for topic, partitions in some.items()
    }


def _skip_expired(begin: Offsets, first: Offsets) -> None:
    """Moves the starts of expired stretches up, so that they don't eat the batch's limit."""
    for topic, numbers in begin.items():
        for number, offset in numbers.items():
            available = first.get(topic, {}).get(number, offset)
            if offset < available:
                data_loss(False, f"{topic}/{number}: the messages {offset} to {available - 1} expired")
                numbers[number] = available
