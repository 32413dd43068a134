"""What one protocol's client wrote is what all others read, at a real broker: Iggy's clients of every era,
Kafka's and ours, with ids, times and headers. Iggy's bytes are written and read by code of the tests' own."""

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tank_client import ConsumedMessage
from tank_client.sync import Client
from tank_protos.generated.iggy import (
    CreateStreamRequest,
    CreateTopicRequest,
)
from tank_protos.generated.kafka import FetchResponse
from tank_protos.iggy.eras import ERA_NAMES
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import HeaderKind
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import KafkaRecord
from tests.support.clients.kafka_calls import FETCH_VERSION, fetch_request, fetched, produce
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.iggy.client_messages import (
    KEY_KINDS,
    OLD,
    ClientMessage,
    Header,
    ReceivedMessage,
)
from tests.support.iggy.iggy_line import IggyStatus
from tests.support.processes.iggy_broker import IggyBroker
from tests.support.values.kafka_records import read

pytestmark = pytest.mark.integration

STREAM: Final = "shop"
ERAS: Final = list(ERA_NAMES)
by_era = pytest.mark.parametrize("era", ERAS)

OF_ALL_KINDS: Final = {
    HeaderKind.RAW: b"\0\xff",
    HeaderKind.STRING: "Zürich".encode(),
    HeaderKind.BOOL: b"\1",
    HeaderKind.INT8: struct.pack("<b", -8),
    HeaderKind.INT16: struct.pack("<h", -16_000),
    HeaderKind.INT32: struct.pack("<i", -32_000_000),
    HeaderKind.INT64: struct.pack("<q", -64_000_000_000),
    HeaderKind.INT128: (-1).to_bytes(16, "little", signed=True),
    HeaderKind.UINT8: struct.pack("<B", 200),
    HeaderKind.UINT16: struct.pack("<H", 60_000),
    HeaderKind.UINT32: struct.pack("<I", 4_000_000_000),
    HeaderKind.UINT64: struct.pack("<Q", 2**63),
    HeaderKind.UINT128: (2**127).to_bytes(16, "little"),
    HeaderKind.FLOAT32: struct.pack("<f", 0.5),
    HeaderKind.FLOAT64: struct.pack("<d", -2.25),
}
"""A value of each kind."""
HEADERS: Final[tuple[Header, ...]] = tuple(
    (kind.name.lower().encode(), HeaderKind.STRING, value, kind) for kind, value in OF_ALL_KINDS.items()
)
LARGEST_ID: Final = 2**128 - 1


class Served:
    """A broker with all three listeners, and the topics of one stream."""

    def __init__(self, folder: Path) -> None:
        self.process = IggyBroker(folder / "data")
        self._made = 0

    def new_topic(self) -> str:
        """A topic's name for Iggy's clients. The others say STREAM and a point before it."""
        self._made += 1
        name = f"orders{self._made}"
        with self.process.iggy() as client:
            client.tell(CreateTopicRequest(stream=of_name(STREAM), partitions_count=1, name=name))
        return name

    def send(self, era: str, topic: str, messages: list[ClientMessage], key: bytes | None = None) -> None:
        """As a client of this era."""
        with self.process.iggy(ERA_NAMES[era]) as client:
            client.send_messages(STREAM, topic, messages, key)

    def poll(self, era: str, topic: str) -> list[ReceivedMessage]:
        """All messages, as a client of this era reads them."""
        with self.process.iggy(ERA_NAMES[era]) as client:
            return client.first_messages(STREAM, topic)

    def fetch(self, topic: str) -> list[KafkaRecord]:
        """All records, as a Kafka client reads them; timestamps since 1970."""
        with KafkaSocket(self.process.kafka_port) as client:
            asked = fetch_request(f"{STREAM}.{topic}", 0)
            answer = fetched(client.ask(asked, FetchResponse, FETCH_VERSION))
        found: list[KafkaRecord] = []
        for batch in record_batch.batches(answer.records or b""):
            base = record_batch.verify(batch)
            found += [
                record._replace(timestamp_delta=base.timestamp_ms(record.timestamp_delta))
                for record in read(bytes(batch))
            ]
        return found

    def consume(self, topic: str) -> list[ConsumedMessage]:
        """All messages, as our client reads them."""
        with Client(self.process.address) as client:
            return list(client.consumer(f"{STREAM}.{topic}", stop_at_end=True).messages())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("iggy"))
    with served.process:
        with served.process.iggy() as client:
            client.tell(CreateStreamRequest(name=STREAM))
        yield served


def as_era_reads(headers: tuple[Header, ...], era: str) -> tuple[Header, ...]:
    """Older eras have keys that are text, and get what can be read as such."""
    if era in KEY_KINDS:
        return headers
    return tuple((key, HeaderKind.STRING, value, kind) for key, _, value, kind in headers if is_text(key))


def is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def have_ids(messages: list[ReceivedMessage]) -> None:
    """Also a message that got no id has one of its own."""
    ids = {message.id for message in messages}
    assert len(ids) == len(messages)
    assert all(ids)


@by_era
def test_what_iggy_sent_is_what_all_others_read(served: Served, era: str) -> None:
    topic = served.new_topic()
    origin_us = int(time.time()) * 1_000_000 + 123_456
    messages = [
        ClientMessage(b"plain", origin_us=origin_us),
        ClientMessage(b"named", 4711, origin_us + 1000, (HEADERS[1],)),
        ClientMessage(b"of all kinds", LARGEST_ID, origin_us + 2001, HEADERS),
    ]
    served.send(era, topic, messages)
    values = [message.payload for message in messages]
    headers = [tuple((key, value) for key, _, value, _ in message.headers) for message in messages]

    records = served.fetch(topic)
    assert [(record.key, record.value) for record in records] == [(None, value) for value in values]
    assert [tuple(h for h in record.headers if h[0] != b"iggy") for record in records] == headers
    if era not in OLD:
        assert [record.timestamp_delta for record in records] == [each.origin_us // 1000 for each in messages]

    consumed = served.consume(topic)
    assert [(m.sequence_number, m.key, m.value) for m in consumed] == [
        (number, None, value) for number, value in enumerate(values, 1)
    ]
    assert [
        tuple((name.encode(), value) for name, value in message.headers if name != "iggy")
        for message in consumed
    ] == headers

    for reader in ERAS:
        polled = served.poll(reader, topic)
        assert [message.offset for message in polled] == [0, 1, 2], reader
        assert [message.payload for message in polled] == values, reader
        assert [message.headers for message in polled] == [message.headers for message in messages], reader
        assert [message.id for message in polled[1:]] == [4711, LARGEST_ID], reader
        have_ids(polled)
        if era not in OLD and reader not in OLD:
            assert [message.origin_us for message in polled] == [each.origin_us for each in messages]


def test_what_kafka_sent_is_polled_by_every_era(served: Served) -> None:
    topic = served.new_topic()
    records = [
        KafkaRecord(None, b"without a key", 0, 0, ((b"h", b"1"), (b"h", b"2"))),
        KafkaRecord(b"", b"with an empty key", 1, 1, ((b"\xc3\xa9", b"\0\xff"),)),
        KafkaRecord(b"key", b"", 2, 2, ((b"null", None), (b"empty", b""), (b"kept", b"v"))),
        KafkaRecord(b"gone", None, 3, 3),
    ]
    now_ms = int(time.time() * 1000)
    with KafkaSocket(served.process.kafka_port) as client:
        assert (
            produce(client, f"{STREAM}.{topic}", record_batch.encode(records, base_timestamp_ms=now_ms)) == 0
        )
    ids = set()
    for era in ERAS:
        polled = served.poll(era, topic)
        assert [message.payload for message in polled] == [
            b"without a key",
            b"with an empty key",
            b"",
            b"",
        ], era
        assert [message.headers for message in polled] == [
            ((b"h", 2, b"1", 1), (b"h", 2, b"2", 1)),
            ((b"\xc3\xa9", 2, b"\0\xff", 1),),
            ((b"kept", 2, b"v", 1),),
            (),
        ], era
        if era not in OLD:
            assert [message.origin_us for message in polled] == [(now_ms + n) * 1000 for n in range(4)]
        have_ids(polled)
        ids.add(tuple(message.id for message in polled))
    assert len(ids) == 1, "eras read different ids"


def test_what_our_client_sent_is_polled_by_every_era(served: Served) -> None:
    topic = served.new_topic()
    with Client(served.process.address) as client, client.producer() as producer:
        producer.send(f"{STREAM}.{topic}", b"one", key=b"k", headers={"from": b"tank"}, timestamp_ms=5)
        producer.send(f"{STREAM}.{topic}", None, key=b"k")
    for era in ERAS:
        polled = served.poll(era, topic)
        assert [(m.offset, m.payload, m.headers) for m in polled] == [
            (0, b"one", ((b"from", 2, b"tank", 1),)),
            (1, b"", ()),
        ], era
        if era not in OLD:
            assert polled[0].origin_us == 5000


@pytest.mark.parametrize("era", KEY_KINDS)
def test_header_keys_of_all_kinds_reach_kafka_and_come_back_to_those_that_know_them(
    served: Served, era: str
) -> None:
    topic = served.new_topic()
    headers = tuple((value, int(kind), b"v%d" % kind, 1) for kind, value in OF_ALL_KINDS.items())
    served.send(era, topic, [ClientMessage(b"x", headers=headers)])
    (record,) = served.fetch(topic)
    assert [each for each in record.headers if each[0] != b"iggy"] == [
        (key, value) for key, _, value, _ in headers
    ]
    for reader in ERAS:
        (message,) = served.poll(reader, topic)
        assert message.headers == as_era_reads(headers, reader), reader


@by_era
def test_a_messages_key_chooses_a_partition_and_is_not_stored(served: Served, era: str) -> None:
    topic = served.new_topic()
    served.send(era, topic, [ClientMessage(b"by key")], key=b"alice")
    with pytest.raises(IggyStatus) as refused:
        served.send(era, topic, [ClientMessage(b"by an empty key")], key=b"")
    assert refused.value.code == IggyError.INVALID_KEY_VALUE_LENGTH
    assert [(record.key, record.value) for record in served.fetch(topic)] == [(None, b"by key")]
    assert [(message.key, message.value) for message in served.consume(topic)] == [(None, b"by key")]
