"""A task's rows to bundles and to the broker. Runs in Spark's workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark_tank.bundling import Bundler, KeyPartitioner, Rows, TopicPartition
from pyspark_tank.errors import SinkError
from pyspark_tank.options import Compression, SinkOptions
from pyspark_tank.writer import WriteIdentity, Written

if TYPE_CHECKING:
    import pyarrow as pa

    from tank_client.sync import Client

# Bundles encoded and not yet acknowledged, all partitions together: enough to encode while the broker
# writes, few enough that a task holds a few MB.
MAX_WAITING_BUNDLES = 4
SEQUENCES = 2**31  # a producer's sequence numbers go round at this


class _Sending(NamedTuple):
    """A bundle on its way."""

    answer: Future[Any]
    where: TopicPartition
    rows: int


def deliver(batches: Iterator[pa.RecordBatch], options: SinkOptions, identity: WriteIdentity) -> Written:
    """Writes all rows and returns when the broker has acknowledged them. Raises SinkError, or what the
    client raises when the broker stays away; Spark then runs the task again.
    """
    from tank_client.sync import Client

    with Client(options.servers) as client, ThreadPoolExecutor(1, "tank-produce") as sender:
        return _Delivery(client, sender, options, identity).run(batches)


class _Delivery:
    def __init__(
        self, client: Client, sender: ThreadPoolExecutor, options: SinkOptions, identity: WriteIdentity
    ) -> None:
        self._client = client
        self._sender = sender
        self._options = options
        self._identity = identity
        self._producer_id = 0  # asked for with the first bundle: many tasks have nothing to write
        self._sequences: dict[TopicPartition, int] = {}
        self._waiting: deque[_Sending] = deque()
        self._rows = 0
        self._bundles = 0

    def run(self, batches: Iterator[pa.RecordBatch]) -> Written:
        options = self._options
        bundler = Bundler(
            KeyPartitioner(self._partitions, self._identity.task, options.bundle_rows),
            options.topic,
            max_rows=options.bundle_rows,
            max_bytes=options.bundle_bytes,
        )
        for batch in batches:
            for where, rows in bundler.add(batch):
                self._send(where, rows)
        for where, rows in bundler.finish():
            self._send(where, rows)
        while self._waiting:
            self._confirm()
        return Written(self._rows, self._bundles)

    def _partitions(self, topic: str) -> int:
        (described,) = self._client.admin.describe_topics([topic])
        return len(described.partitions)

    def _send(self, where: TopicPartition, rows: Rows) -> None:
        if not self._producer_id:
            identity = self._identity
            with self._explained(where):
                producer = self._client.admin.init_producer(identity.producer, identity.generation)
            self._producer_id = producer.producer_id
        bundle = self._encode(where, rows)
        sequence = self._sequences.get(where, 0)
        self._sequences[where] = (sequence + len(rows.values)) % SEQUENCES
        while len(self._waiting) >= MAX_WAITING_BUNDLES:
            self._confirm()
        # One thread sends, so the bundles of a partition arrive in the order of their sequences.
        answer = self._sender.submit(self._produce, where, rows, bundle, sequence)
        self._waiting.append(_Sending(answer, where, len(rows.values)))

    def _encode(self, where: TopicPartition, rows: Rows) -> bytes:
        from tank_protos.bundle import Codec, encode

        codec = {
            Compression.AUTO: None,
            Compression.NONE: Codec.NONE,
            Compression.SNAPPY: Codec.SNAPPY,
        }[self._options.compression]
        return encode(
            rows.values, timestamps=rows.timestamp_ms, keys=rows.keys, codec=codec, topic=where.topic
        )

    def _produce(self, where: TopicPartition, rows: Rows, bundle: bytes, sequence: int) -> None:
        """Sends one bundle. An earlier run of the task may have cut the rows at other places (bundleRows was
        changed since): then the end of what it wrote can lie within this bundle, which the broker refuses
        whole. Halved until it lies between two pieces, the one is a repeat and the other is new.
        """
        from tank_client.errors import OutOfOrderSequence

        try:
            self._client.produce_bundle(
                where.topic,
                where.partition,
                bundle,
                producer_id=self._producer_id,
                producer_epoch=self._identity.epoch,
                sequence=sequence,
                max_timestamp_ms=rows.timestamp_ms,
            )
        except OutOfOrderSequence:
            if len(rows.values) == 1:
                raise
            for piece, offset in rows.halves():
                self._produce(where, piece, self._encode(where, piece), (sequence + offset) % SEQUENCES)

    def _confirm(self) -> None:
        sending = self._waiting.popleft()
        try:
            with self._explained(sending.where):
                sending.answer.result()
        except BaseException:
            self._drop()
            raise
        self._rows += sending.rows
        self._bundles += 1

    @contextmanager
    def _explained(self, where: TopicPartition) -> Iterator[None]:
        """Says what the client's errors about producers mean for a query."""
        from tank_client import errors

        identity = self._identity
        attempt = f"batch {identity.batch} of query {identity.query}, to topic {where.topic!r}"
        try:
            yield
        except errors.StaleProducer as stale:
            raise SinkError(
                f"{attempt}, is older than one that was written already: another run of this query is ahead "
                "(stop one of them), or its checkpoint was put back to an older state (begin with a new "
                f"one) [{stale}]"
            ) from stale
        except (errors.OutOfOrderSequence, errors.UnknownProducer) as gap:
            raise SinkError(
                f"{attempt}: the broker has lost part of what task {identity.task} wrote before to partition "
                f"{where.partition}, so repeats can't be told from new messages: look at what the topic "
                f"holds, then begin with a new checkpoint at startingOffsets of your choice [{gap}]"
            ) from gap

    def _drop(self) -> None:
        """What waits behind a failure is not sent: it would be out of order."""
        for sending in self._waiting:
            sending.answer.cancel()
        self._waiting.clear()
