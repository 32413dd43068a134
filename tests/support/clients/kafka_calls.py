"""What a plain client of Kafka's protocol says on a socket: a topic made, records produced and fetched."""

from tank_protos.generated.kafka import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from tank_protos.generated.kafka.create_topics_request import (
    CreatableTopic,
    CreatableTopicCollection,
    CreatableTopicConfig,
    CreatableTopicConfigCollection,
)
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic
from tank_protos.generated.kafka.fetch_response import PartitionData
from tank_protos.generated.kafka.produce_request import (
    PartitionProduceData,
    TopicProduceData,
    TopicProduceDataCollection,
)
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import KafkaRecord
from tests.support.clients.kafka_socket import KafkaSocket

PRODUCE_VERSION = 9
FETCH_VERSION = 12
CREATE_VERSION = 7


def create_topic(client: KafkaSocket, name: str, partitions: int = 1, **settings: str) -> None:
    """Makes a topic, or finds it made. settings: under Kafka's names, with _ for each dot."""
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    topic = CreatableTopic(name, partitions, 1, configs=CreatableTopicConfigCollection(configs))
    request = CreateTopicsRequest(CreatableTopicCollection([topic]), 10_000)
    (result,) = client.ask(request, CreateTopicsResponse, CREATE_VERSION).topics
    assert result.error_code in (0, 36), result


def batch_of(*values: bytes) -> bytes:
    """A record batch with these values."""
    records = [KafkaRecord(None, value, delta, 0, ()) for delta, value in enumerate(values)]
    return record_batch.encode(records, base_timestamp_ms=1000)


def produce_request(topic: str, records: bytes, partition: int = 0, acks: int = -1) -> ProduceRequest:
    """A request with one batch."""
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=TopicProduceDataCollection([data]))


def produce(client: KafkaSocket, topic: str, records: bytes, partition: int = 0) -> int:
    """Produces one batch; returns the offset of its first record."""
    return base_offset(
        client.ask(produce_request(topic, records, partition), ProduceResponse, PRODUCE_VERSION)
    )


def base_offset(answer: ProduceResponse) -> int:
    """The offset in an answer about one batch, which was stored."""
    (topic,) = answer.responses
    (result,) = topic.partition_responses
    assert result.error_code == 0, result
    return result.base_offset


def fetch_request(
    topic: str,
    offset: int,
    partition: int = 0,
    *,
    wait_ms: int = 0,
    most_bytes: int = 1 << 20,
    max_bytes: int = 50 << 20,
) -> FetchRequest:
    """A request for one partition."""
    wanted = FetchPartition(partition, -1, offset, partition_max_bytes=most_bytes)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic, partitions=[wanted])]
    )


def fetched(answer: FetchResponse) -> PartitionData:
    """The one partition of an answer, which has no error."""
    (topic,) = answer.responses
    (found,) = topic.partitions
    assert answer.error_code == found.error_code == 0, found
    return found


def values_of(found: PartitionData, offset: int) -> list[bytes | None]:
    """The values in an answer from this offset on; each batch is checked as a client does."""
    values: list[bytes | None] = []
    for batch in record_batch.batches(found.records or b""):
        header = record_batch.verify(batch)
        columns = record_batch.columns_of(batch, header, 1 << 26)
        skipped = max(0, offset - header.base_offset)
        values += columns.values[skipped:]
    return values
