"""Our own client and a Kafka client on topics of Kafka's format, at a real broker: what one wrote is what the
other reads, byte for byte."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tank_client import ConsumedMessage, Stored, errors
from tank_client.model import Headers
from tank_client.sync import Client
from tank_protos.generated.kafka import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic
from tank_protos.generated.kafka.produce_request import (
    PartitionProduceData,
    TopicProduceData,
    TopicProduceDataCollection,
)
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.broker_process import BrokerProcess, running_broker
from tests.support.values.kafka_records import STAMP_MS, read, records

pytestmark = pytest.mark.integration

PRODUCE, FETCH = 8, 11
"""The versions of the Kafka client's requests."""
ANY_TIME = {"log.format": "kafka", "message.timestamp.after.max.ms": "1000y", "flush": "replicated"}
CONTENT = st.none() | st.binary(max_size=8) | st.just(b"x" * 300)
NAMES = st.text(max_size=5) | st.just("h")
HEADERS = st.lists(st.tuples(NAMES, CONTENT), max_size=3).map(tuple)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.address) as client:
        yield client


class Topics:
    """Makes topics, each with a new name."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._made = 0

    def new(self, **more: str) -> str:
        self._made += 1
        name = f"t{self._made}"
        self._client.admin.create_topic(
            name, settings={**ANY_TIME, **{key.replace("_", "."): value for key, value in more.items()}}
        )
        return name


@pytest.fixture(scope="module")
def topics(client: Client) -> Topics:
    return Topics(client)


def kafka_produces(broker: BrokerProcess, topic: str, batch: bytes) -> None:
    """Sends a batch as a Kafka client does."""
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, memoryview(batch))])
    request = ProduceRequest(None, -1, 10_000, TopicProduceDataCollection([data]))
    with KafkaSocket(broker.kafka_port) as kafka:
        answer = kafka.ask(request, ProduceResponse, PRODUCE)
    (told,) = answer.responses[0].partition_responses
    assert told.error_code == 0, told


def kafka_reads(broker: BrokerProcess, topic: str) -> list[KafkaRecord]:
    """All records of a topic, as a Kafka client reads them; timestamps are those since 1970."""
    wanted = FetchTopic(topic, partitions=[FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, session_epoch=-1, topics=[wanted])
    with KafkaSocket(broker.kafka_port) as kafka:
        answer = kafka.ask(request, FetchResponse, FETCH)
    (told,) = answer.responses[0].partitions
    assert told.error_code == 0
    found: list[KafkaRecord] = []
    for batch in record_batch.batches(told.records or b""):
        base = record_batch.verify(batch)
        found += [
            record._replace(
                offset_delta=base.base_offset + record.offset_delta,
                timestamp_delta=base.timestamp_ms(record.timestamp_delta),
            )
            for record in read(bytes(batch))
        ]
    return found


def all_of(client: Client, topic: str) -> list[ConsumedMessage]:
    return list(client.consumer(topic, stop_at_end=True).messages())


def as_sent(headers: Headers) -> tuple[tuple[bytes, bytes | None], ...]:
    return tuple((name.encode("utf-8", "surrogateescape"), value) for name, value in headers)


SLOW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def test_what_a_kafka_client_wrote_is_what_ours_reads(
    broker: BrokerProcess, client: Client, topics: Topics
) -> None:
    @SLOW
    @given(st.lists(records(), min_size=1, max_size=3), st.sampled_from(KafkaCodec))
    def check(made: list[list[KafkaRecord]], codec: KafkaCodec) -> None:
        topic = topics.new()
        for batch in made:
            sent = record_batch.encode(batch, base_timestamp_ms=STAMP_MS, codec=codec)
            kafka_produces(broker, topic, sent)
        wrote = [record for batch in made for record in batch]
        found = all_of(client, topic)
        assert [
            (m.key, m.value, m.timestamp_ms - STAMP_MS, as_sent(m.headers), m.sequence_number) for m in found
        ] == [
            (record.key, record.value, record.timestamp_delta, record.headers, number)
            for number, record in enumerate(wrote, 1)
        ]

    check()


def test_what_our_client_wrote_is_what_a_kafka_client_reads_and_ours(
    broker: BrokerProcess, client: Client, topics: Topics
) -> None:
    @SLOW
    @given(
        st.lists(st.tuples(CONTENT, CONTENT, st.integers(0, 2**40), HEADERS), min_size=1, max_size=12),
        st.booleans(),
    )
    def check(made: list[tuple[bytes | None, bytes | None, int, Headers]], one_by_one: bool) -> None:
        topic = topics.new()
        with client.producer() as producer:
            if one_by_one:
                for key, value, stamp, headers in made:
                    producer.send(topic, value, key=key, timestamp_ms=stamp, headers=headers)
            else:
                keys, values, stamps, headers_of_all = map(list, zip(*made, strict=True))
                columns = {"keys": keys, "timestamps_ms": stamps, "headers": headers_of_all}
                producer.send_many(topic, values, partition=0, **columns)
        wanted = [
            KafkaRecord(key, value, offset, stamp, as_sent(headers))
            for offset, (key, value, stamp, headers) in enumerate(made)
        ]
        assert kafka_reads(broker, topic) == wanted
        assert [(m.key, m.value, m.timestamp_ms, m.headers) for m in all_of(client, topic)] == made

    check()


def test_a_null_value_deletes_its_key_from_a_compacted_topic_and_an_empty_one_does_not(
    broker: BrokerProcess, client: Client, topics: Topics
) -> None:
    topic = topics.new(log_cleanup_policy="cleanup")
    with client.producer() as producer:
        producer.send(topic, None, key=b"gone")
        producer.send(topic, b"", key=b"empty")
        producer.flush()
        with pytest.raises(errors.BundleRefused, match="no key"):
            producer.send(topic, b"x").result(30)
    assert [(record.key, record.value) for record in kafka_reads(broker, topic)] == [
        (b"gone", None),
        (b"empty", b""),
    ]


def test_a_topic_of_bundles_refuses_headers_and_null_and_says_what_to_do(
    client: Client, topics: Topics
) -> None:
    topic = topics.new(log_format="tank", message_timestamp_after_max_ms="1h")
    with client.producer() as producer:
        for send in (
            lambda: producer.send(topic, b"x", headers={"h": b"1"}),
            lambda: producer.send(topic, None, key=b"k"),
            lambda: producer.send_many(topic, [b"x", None]),
            lambda: producer.send_many(topic, [b"x"], headers=[[("h", None)]]),
        ):
            with pytest.raises(errors.UnsupportedByFormat, match="--format kafka"):
                send()
        with pytest.raises(errors.InvalidArgument, match="255"):
            producer.send(topic, b"x", key=b"k" * 256)
        assert producer.send(topic, b"x", key=b"").result(30) == Stored(1, 1)
    assert all_of(client, topic)[0][2:4] == (None, b"x")


def test_wrong_headers_are_refused_before_anything_is_sent(client: Client, topics: Topics) -> None:
    topic = topics.new()
    with client.producer() as producer:
        for wrong in ([("h", "text")], [(b"h", b"x")], [("h",)], {"h": 5}):
            with pytest.raises(errors.InvalidArgument):
                producer.send(topic, b"x", headers=wrong)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument, match="2 lists of headers for 1"):
            producer.send_many(topic, [b"x"], headers=[(), ()])
    assert all_of(client, topic) == []


def test_messages_are_stored_once_and_in_order_when_the_broker_is_killed(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, Client(broker.address) as client:
        client.admin.create_topic("t", settings={"log.format": "kafka"})
        with client.producer() as producer:
            for turn in range(3):
                for number in range(200):
                    producer.send("t", b"%d" % (200 * turn + number), headers={"h": b"%d" % turn})
                if turn < 2:
                    broker.kill()
                    broker.start()
        found = all_of(client, "t")
        assert [message.value for message in found] == [b"%d" % number for number in range(600)]
        assert found[399].headers == (("h", b"1"),)


def test_batches_that_hold_nothing_for_a_reader_are_passed_over(
    broker: BrokerProcess, client: Client, topics: Topics
) -> None:
    topic = topics.new()
    for value in (b"one", b"two"):
        kafka_produces(
            broker, topic, record_batch.encode([KafkaRecord(None, value, 0, 0)], base_timestamp_ms=1)
        )
    consumer = client.consumer(topic, start=2, stop_at_end=True)
    (batch,) = list(consumer)
    assert (batch.first, batch.values, batch.holds_records) == (2, [b"two"], True)
    assert consumer.position(topic, 0) == 3


def test_raw_fetches_bring_bundles_unless_record_batches_are_asked_for(
    client: Client, topics: Topics
) -> None:
    topic = topics.new()
    with client.producer() as producer:
        producer.send(topic, b"x", headers={"h": None})
    assert not client.fetch(topic, 0, 1).holds_records
    chunk = client.fetch(topic, 0, 1, takes_records=True)
    assert chunk.holds_records
    assert [record.headers for record in read(bytes(chunk.chunk))] == [((b"h", None),)]


def test_a_batch_becomes_arrow_with_nulls_and_headers(client: Client, topics: Topics) -> None:
    pytest.importorskip("pyarrow")
    topic = topics.new()
    with client.producer() as producer:
        producer.send(topic, None, key=b"", headers={"h": b"1"}, timestamp_ms=5)
        producer.send(topic, b"", timestamp_ms=6)
    rows = [
        row
        for batch in client.consumer(topic, stop_at_end=True)
        for part in batch.to_arrow()
        for row in part.to_pylist()
    ]
    assert rows == [
        {
            "key": b"",
            "value": None,
            "offset": 1,
            "timestamp": 5,
            "headers": [{"key": "h", "value": b"1"}],
        },
        {"key": None, "value": b"", "offset": 2, "timestamp": 6, "headers": None},
    ]
