"""A producer of Kafka's protocol, in any version, against a bench node."""

from tank_node.broker.topic_ids import topic_uuid
from tank_protos.generated.kafka import ProduceRequest, ProduceResponse
from tank_protos.generated.kafka.produce_request import (
    PartitionProduceData,
    TopicProduceData,
    TopicProduceDataCollection,
)
from tank_protos.generated.kafka.produce_response import PartitionProduceResponse
from tank_protos.kafka import message_set, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.message_set import OldMessage
from tank_protos.kafka.record_batch import NO_PRODUCER, ProducerFields
from tank_protos.kafka.records import Headers, KafkaRecord
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

NEWEST = 13
ALL = -1


def batch_of(
    *values: bytes | None,
    keys: tuple[bytes | None, ...] = (),
    timestamp_ms: int = 1000,
    headers: Headers = (),
    codec: KafkaCodec = KafkaCodec.NONE,
    producer: ProducerFields = NO_PRODUCER,
    transactional: bool = False,
) -> bytes:
    """A record batch with these values, as a client sends it, all at one time."""
    found = keys or (None,) * len(values)
    records = [
        KafkaRecord(key, value, delta, 0, headers)
        for delta, (key, value) in enumerate(zip(found, values, strict=True))
    ]
    return record_batch.encode(
        records,
        base_timestamp_ms=timestamp_ms,
        codec=codec,
        producer=producer,
        transactional=transactional,
    )


def set_of(*values: bytes | None, magic: int = 0, timestamp_ms: int = -1) -> bytes:
    """A message set with these values, as an old client sends it."""
    messages = [OldMessage(0, timestamp_ms, None, value) for value in values]
    return message_set.encode(messages, magic)


def records_for(version: int, *values: bytes) -> bytes:
    """These values in the format of a version of Produce."""
    if version < 3:
        magic = int(version == 2)
        return set_of(*values, magic=magic, timestamp_ms=1000 if magic else -1)
    return batch_of(*values)


class Producer(KafkaLine):
    """A line that produces in one version."""

    def __init__(self, node: BenchNode, version: int = NEWEST) -> None:
        super().__init__(node)
        self.version = version
        self.session.hang_up = self._end
        self.ended = ""
        """Why the broker has closed the connection."""

    def _end(self, reason: str) -> None:
        self.ended = reason
        self.session.close()

    def request(
        self,
        *parts: tuple[int, bytes | None],
        topic: str = "a",
        acks: int = ALL,
        timeout_ms: int = 1000,
        topic_id: bytes | None = None,
    ) -> ProduceRequest:
        """A request with a batch for each of these partitions."""
        data = TopicProduceData(topic, bytes(16), [PartitionProduceData(*part) for part in parts])
        if self.version >= 13:
            view = self.node.broker.link.view
            known = view.topic(topic)
            uuid = bytes(16) if known is None else topic_uuid(view.cluster_id, known.topic_id)
            data.name, data.topic_id = "", uuid if topic_id is None else topic_id
        return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=TopicProduceDataCollection([data]))

    def produce(
        self, records: bytes | None, number: int = 0, *, topic: str = "a", acks: int = ALL
    ) -> PartitionProduceResponse:
        """Produces to one partition; returns its result."""
        answer = self.ask(
            self.request((number, records), topic=topic, acks=acks), ProduceResponse, self.version
        )
        (of_topic,) = answer.responses
        (result,) = of_topic.partition_responses
        assert result.index == number
        return result
