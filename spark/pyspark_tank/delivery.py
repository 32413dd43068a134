"""Writes a task's rows: makes bundles and sends them to the brokers. Runs in Spark's workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from pyspark_tank.bundling import Bundler, BundleRows, KeyPartitioner, SinkTopic, TopicPartition
from pyspark_tank.connecting import options_named
from pyspark_tank.errors import SinkError
from pyspark_tank.identity import WriteIdentity, Written
from pyspark_tank.leader_connection import LeaderConnection
from pyspark_tank.options import Compression, SinkOptions
from tank_client.errors import OutOfOrderSequence, TankError
from tank_client.producing.topic_format import TopicFormat, format_of
from tank_client.wire.data_operations import to_store
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    import pyarrow as pa

    from tank_client.model import Address
    from tank_client.sync import Client

# Bundles sent and not yet acknowledged, all partitions together: enough to encode while the broker writes,
# few enough that a task holds a few MB.
MAX_WAITING_BUNDLES = 4
SEQUENCES = 2**31  # a producer's sequence numbers begin again at this


class _Marks(TypedDict):
    """What the broker recognizes a repeat by."""

    producer_id: int
    producer_epoch: int
    sequence: int
    max_timestamp_ms: int


class _Sending(NamedTuple):
    """A bundle that is being sent."""

    where: TopicPartition
    rows: BundleRows
    bundle: bytes
    sequence: int
    # The connection and the request number of its acknowledgement; None: the bundle could not be sent.
    leader: LeaderConnection | None
    number: int


def deliver(batches: Iterator[pa.RecordBatch], options: SinkOptions, identity: WriteIdentity) -> Written:
    """Writes all rows and returns when the broker has acknowledged them. Raises SinkError, or the client's
    error when no broker answers; Spark then runs the task again.
    """
    from tank_client.sync import Client

    with (
        options_named(),
        Client(options.servers) as client,
        closing(_Delivery(client, options, identity)) as delivery,
    ):
        return delivery.run(batches)


class _Delivery:
    """Sends bundles to the leaders over connections of the task's own, several under way. A failure there is
    a failure of all bundles under way: the client then sends them again, one after the other, and the broker
    recognizes repeats by their numbers."""

    def __init__(self, client: Client, options: SinkOptions, identity: WriteIdentity) -> None:
        self._client = client
        self._options = options
        self._identity = identity
        self._most_bytes = 0  # the broker's limit for a bundle; 0: not known
        self._producer_id = 0  # set with the first bundle, because many tasks have nothing to write
        self._sequences: dict[TopicPartition, int] = {}
        self._leaders: dict[Address, LeaderConnection] = {}
        self._leader_of: dict[TopicPartition, LeaderConnection] = {}
        self._waiting: deque[_Sending] = deque()
        self._rows = 0
        self._bundles = 0

    def run(self, batches: Iterator[pa.RecordBatch]) -> Written:
        options = self._options
        bundler = Bundler(
            KeyPartitioner(self._topic, self._identity.task, options.bundle_rows),
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

    def _topic(self, topic: str) -> SinkTopic:
        (described,) = self._client.admin.describe_topics([topic])
        stored = format_of(described, self._client.admin.features())
        return SinkTopic(len(described.partitions), stored is TopicFormat.RECORDS)

    def _send(self, where: TopicPartition, rows: BundleRows) -> None:
        if not self._producer_id:
            with self._explained(where):
                self._producer_id = self._own_id()
            self._most_bytes = self._client.admin.features().limits.get("bundle_bytes", 0)
        bundle = self._encode(where, rows)
        if 0 < self._most_bytes < len(bundle):
            raise SinkError(
                f"a bundle for {where.topic}/{where.partition} has {len(bundle)} bytes, and the broker takes "
                f"{self._most_bytes} at most: "
                + (
                    "a message has to fit, so split the row's value"
                    if len(rows.values) == 1
                    else "lower bundleBytes or bundleRows"
                )
            )
        sequence = self._sequences.get(where, 0)
        self._sequences[where] = (sequence + len(rows.values)) % SEQUENCES
        while len(self._waiting) >= MAX_WAITING_BUNDLES:
            self._confirm()
        try:
            leader = self._leader(where)
            number = leader.send(
                to_store(
                    where.topic,
                    where.partition,
                    bundle,
                    holds_records=rows.as_records,
                    **self._marks(rows, sequence),
                )
            )
        except (OSError, TankError):
            leader, number = None, 0
        self._waiting.append(_Sending(where, rows, bundle, sequence, leader, number))
        if leader is None:
            self._send_again()

    def _own_id(self) -> int:
        identity = self._identity
        if identity.producer_id:
            return identity.producer_id
        return self._client.admin.init_producer(identity.producer, identity.generation).producer_id

    def _leader(self, where: TopicPartition) -> LeaderConnection:
        """The connection for all bundles of a partition: on one connection they arrive in the order of their
        sequence numbers.
        """
        leader = self._leader_of.get(where)
        if leader is None:
            address, server = self._client.leader(*where)
            leader = self._leaders.get(address)
            if leader is None:
                leader = self._leaders[address] = LeaderConnection(address, server, self._client.settings)
            self._leader_of[where] = leader
        return leader

    def _marks(self, rows: BundleRows, sequence: int) -> _Marks:
        """The producer's id, epoch and sequence number, by which the broker recognizes a repeat."""
        return {
            "producer_id": self._producer_id,
            "producer_epoch": self._identity.epoch,
            "sequence": sequence,
            "max_timestamp_ms": rows.timestamp_ms,
        }

    def _encode(self, where: TopicPartition, rows: BundleRows) -> bytes:
        from tank_protos.bundle import Codec, encode

        compression = self._options.compression
        if rows.as_records:
            return self._encode_records(rows)
        codec = {
            Compression.AUTO: None,
            Compression.NONE: Codec.NONE,
            Compression.SNAPPY: Codec.SNAPPY,
        }[compression]
        return encode(
            rows.values, timestamps=rows.timestamp_ms, keys=rows.keys, codec=codec, topic=where.topic
        )

    def _encode_records(self, rows: BundleRows) -> bytes:
        from tank_protos.kafka import produced_batch

        headers = {place: found for place, found in enumerate(rows.headers or ()) if found}
        return produced_batch.encode(
            rows.values,
            timestamps=rows.timestamp_ms,
            keys=rows.keys,
            headers=headers,
            compression={Compression.AUTO: None, Compression.NONE: False, Compression.SNAPPY: True}[
                self._options.compression
            ],
        )

    def _produce(self, where: TopicPartition, rows: BundleRows, bundle: bytes, sequence: int) -> None:
        """Sends one bundle. If bundleRows has changed, an earlier run of the task may have cut the rows
        elsewhere, so that its messages end within this bundle, which the broker then refuses. The bundle is
        halved until one piece is a repeat and the other is new.
        """
        try:
            marks = self._marks(rows, sequence)
            self._client.produce_bundle(
                where.topic, where.partition, bundle, holds_records=rows.as_records, **marks
            )
        except OutOfOrderSequence:
            if len(rows.values) == 1:
                raise
            for piece, offset in rows.halves():
                self._produce(where, piece, self._encode(where, piece), (sequence + offset) % SEQUENCES)

    def _confirm(self) -> None:
        """Waits for the oldest bundle's acknowledgement."""
        sending = self._waiting[0]
        assert sending.leader is not None
        try:
            sending.leader.confirm(sending.number)
        except (OSError, TankError, WireError):
            self._send_again()
        else:
            self._written()

    def _send_again(self) -> None:
        """Sends all bundles under way again, through the client. Bundles behind a failed one are not sent,
        because they would be out of order.
        """
        self.close()
        while self._waiting:
            sending = self._waiting[0]
            with self._explained(sending.where):
                self._produce(sending.where, sending.rows, sending.bundle, sending.sequence)
            self._written()

    def _written(self) -> None:
        """Notes that the oldest bundle under way is acknowledged."""
        self._rows += len(self._waiting.popleft().rows.values)
        self._bundles += 1

    def close(self) -> None:
        """Ends the connections to the leaders."""
        for leader in self._leaders.values():
            leader.close()
        self._leaders.clear()
        self._leader_of.clear()

    @contextmanager
    def _explained(self, where: TopicPartition) -> Iterator[None]:
        """Translates the client's errors about producers for the user of a query."""
        from tank_client import errors

        identity = self._identity
        attempt = f"batch {identity.batch} of query {identity.query}, to topic {where.topic!r}"
        if self._options.write_name is not None:
            attempt = (
                f"writeId {identity.batch} of writeName {self._options.write_name!r}, to {where.topic!r}"
            )
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
                f"{where.partition}, so repeats can't be distinguished from new messages: look at the "
                "topic's messages, then begin with a new checkpoint at startingOffsets of your choice "
                f"[{gap}]"
            ) from gap
