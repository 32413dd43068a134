"""A consumer of Kafka's protocol at a bench node: its requests, and the records in the answers."""

from typing import NamedTuple

from tank_node.broker.topic_ids import topic_uuid
from tank_protos.generated.kafka import FetchRequest, FetchResponse
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic, ReplicaState
from tank_protos.generated.kafka.fetch_response import PartitionData
from tank_protos.kafka import message_set, record_batch
from tank_protos.kafka.records import placed_deltas
from tank_protos.wire.buffer import Buffer
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

NEWEST = 18
IDS_SINCE = 13


class Read(NamedTuple):
    """A record in an answer."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Fetcher(KafkaLine):
    """One connection, which fetches in one version."""

    def __init__(self, node: BenchNode, version: int = NEWEST, *, is_outside: bool = False) -> None:
        super().__init__(node, is_outside=is_outside)
        self.version = version

    def topic(self, name: str, *wanted: FetchPartition) -> FetchTopic:
        """A topic of a request, named as the version does."""
        if self.version < IDS_SINCE:
            return FetchTopic(name, partitions=list(wanted))
        view = self.node.controller.view
        found = view.topic(name)
        number = 99 if found is None else found.topic_id
        return FetchTopic(topic_id=topic_uuid(view.cluster_id, number), partitions=list(wanted))

    def request(
        self,
        *topics: FetchTopic,
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 30,
        replica_id: int = -1,
        isolation: int = 0,
        session: tuple[int, int] = (0, -1),
    ) -> FetchRequest:
        """A request. session: the session's id and epoch."""
        new = self.version >= 15
        return FetchRequest(
            replica_id=-1 if new else replica_id,
            replica_state=ReplicaState(replica_id) if new else ReplicaState(),
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=list(topics),
        )

    def fetch(
        self, offset: int, *, wait_ms: int = 0, replica_id: int = -1, isolation: int = 0
    ) -> PartitionData:
        """Fetches partition 0 of topic "a"."""
        wanted = self.topic("a", want(offset))
        request = self.request(wanted, wait_ms=wait_ms, replica_id=replica_id, isolation=isolation)
        (topic,) = self.ask(request, FetchResponse, self.version).responses
        (partition,) = topic.partitions
        return partition

    def asks(self, request: FetchRequest) -> FetchResponse:
        """Sends a request, and returns its answer, which comes at once."""
        return self.ask(request, FetchResponse, self.version)

    def answered(self) -> FetchResponse | None:
        """The answer that has come since; None if there is none."""
        frames = self.frames()
        if not frames:
            return None
        (frame,) = frames
        return self.read(frame, FetchResponse, self.version)[1]

    def records(self, partition: PartitionData) -> list[Read]:
        """The records of a partition in an answer."""
        assert partition.records is not None, "null records: clients take them for a wrong size"
        if self.version < 4:
            return [Read(*message) for message in message_set.decode(partition.records).messages]
        return records_of(partition.records)


def want(
    offset: int, number: int = 0, max_bytes: int = 1 << 20, epoch: int = -1, fetched: int = -1
) -> FetchPartition:
    """A partition of a request."""
    return FetchPartition(number, epoch, offset, fetched, partition_max_bytes=max_bytes)


def records_of(chunk: Buffer) -> list[Read]:
    """The records of whole batches, which are checked as a client does."""
    found = []
    size = 0
    for batch in record_batch.batches(chunk):
        size += len(batch)
        header = record_batch.verify(batch)
        columns = record_batch.columns_of(batch, header, 1 << 26)
        for delta, stamp, key, value in zip(
            placed_deltas(columns.offset_deltas, header.last_offset_delta),
            columns.timestamp_deltas,
            columns.keys,
            columns.values,
            strict=True,
        ):
            found.append(Read(header.base_offset + delta, header.timestamp_ms(stamp), key, value))
    assert size == len(chunk), "batches are never cut"
    return found


def values(records: list[Read]) -> list[bytes | None]:
    return [record.value for record in records]
