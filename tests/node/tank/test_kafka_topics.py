"""TANK's clients on topics of Kafka's format: what they write is stored as record batches, and what they read
are bundles again."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tank_node.limits import Limits
from tank_node.partition.numbering import FIRST_AVAILABLE
from tank_node.segment.record import FORMAT_KAFKA, MARKER
from tank_protos import bundle
from tank_protos.bundle import Message
from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FetchedPartition,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.records import KafkaRecord
from tank_protos.wire.buffer import Buffer
from tests.support.clients.kafka_fetcher import Fetcher, want
from tests.support.examples import examples
from tests.support.nodes import forwarded
from tests.support.nodes.bench_node import BenchClient, BenchNode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.replicas import bytes_of
from tests.support.values.bundle_shapes import Shape, shapes
from tests.support.values.kafka_records import STAMP_MS, changed, records, values_batch


def add_topic(node: BenchNode, name: str, policy: str = "delete") -> None:
    """Creates a topic of Kafka's format."""
    node.controller.add(name, flush="replicated", log_format="kafka", log_cleanup_policy=policy)


LAST_MS = 2**63 - 1


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        add_topic(node, "a")
        add_topic(node, "c", "cleanup")
        yield node


def produce(client: BenchClient, data: bytes, topic: str = "a") -> int:
    """Sends a bundle by Produce; returns the result byte."""
    entries = [ProducePartition(0, memoryview(bundle.as_batch(data)))]
    payload = client.ask(ProduceRequest(2, 1, "me", 0, 0, [ProduceTopic(topic, entries)]))
    return payload[4]


def produce_at(client: BenchClient, data: bytes, number: int) -> int:
    """Sends a bundle by Produce with numbers; returns the result byte."""
    entries = [ProduceBasePartition(0, len(data), number, memoryview(data))]
    payload = client.ask(ProduceWithBaseSeqNumRequest(2, 1, "me", 0, 0, [ProduceBaseTopic("a", entries)]))
    return payload[4]


def produce_once(client: BenchClient, data: bytes, producer: int, sequence: int) -> tuple[int, int, int]:
    """Sends a bundle of an idempotent producer; returns error, first and last number."""
    entries = [IdempotentPartition(0, sequence, 0, memoryview(bundle.as_batch(data)))]
    request = IdempotentProduceRequest(0, 1, "", 0, 0, producer, 0, [IdempotentTopic("a", entries)])
    (result,) = IdempotentProduceResponse.decode(client.ask(request)).topics[0].partitions
    return result.error, result.first, result.last


def append(node: BenchNode, batch: bytes, topic: str = "a", first: int | None = None) -> None:
    """Stores a Kafka client's batch."""
    node.broker.begin_tick()
    told = Told()
    partition = node.broker.topics[topic].partitions[0]
    partition.append(memoryview(bytearray(batch)), told, 0, first=first)
    node.tick()


def request(number: int, *, topic: str = "a", size: int = 1 << 20, wait_ms: int = 0) -> ConsumeRequest:
    wanted = [ConsumePartition(0, number, size)]
    return ConsumeRequest(2, 7, "me", wait_ms, 0, 0, [ConsumeTopic(topic, wanted)])


def entry_of(payload: Buffer) -> tuple[FetchedPartition, bytes]:
    answer = ConsumeResponse.decode(memoryview(payload))
    (told,) = answer.topics[0].partitions
    return told, bytes(answer.chunks)


def consume(client: BenchClient, number: int, *, topic: str = "a", size: int = 1 << 20) -> list[Message]:
    """The messages of one answer, from this number on."""
    return decoded(*entry_of(client.ask(request(number, topic=topic, size=size))), number)


def decoded(told: FetchedPartition, chunk: bytes, number: int) -> list[Message]:
    assert told.flag in (ConsumeFlag.DATA, ConsumeFlag.SPARSE)
    base = told.base_sequence_number if told.flag == ConsumeFlag.DATA else 1
    parts = bundle.iter_columns(chunk, base, lower=number) if chunk else []
    return [message for part in parts for message in part.messages()]


def consume_all(client: BenchClient, *, topic: str = "a", size: int = 1 << 20) -> list[Message]:
    """All messages up to the high-water mark, as a consumer asks for them."""
    found: list[Message] = []
    number = FIRST_AVAILABLE
    while more := consume(client, number, topic=topic, size=size):
        found += more
        number = more[-1].sequence_number + 1
    return found


def of(*contents: bytes) -> bytes:
    return bundle.encode(list(contents), timestamps=STAMP_MS)


def numbered(messages: list[Message], first: int) -> list[Message]:
    """The messages of a dense bundle at the numbers that they get."""
    return [message._replace(sequence_number=first + at) for at, message in enumerate(messages)]


def test_what_a_tank_client_writes_comes_back_as_it_came_or_is_refused(node: BenchNode) -> None:
    client, names = node.client(), count()

    @settings(examples(20), deadline=None)
    @given(st.lists(shapes(), min_size=1, max_size=4), st.sampled_from([1, 200, 1 << 20]))
    def check(made: list[Shape], size: int) -> None:
        topic = f"topic-{next(names)}"
        add_topic(node, topic)
        expected: list[Message] = []
        end = 0
        for shape in made:
            stamps = [message.timestamp_ms for message in shape.messages]
            numbers = [message.sequence_number for message in shape.messages]
            sparse = bundle.read_header(shape.bundle).sparse
            fits = max(stamps) <= LAST_MS and numbers[-1] - numbers[0] < 2**31
            is_free = not sparse or numbers[0] > end
            result = produce(client, shape.bundle, topic)
            assert (result == 0) == (fits and is_free)
            if not result:
                expected += shape.messages if sparse else numbered(shape.messages, end + 1)
                end = expected[-1].sequence_number
        assert consume_all(client, topic=topic, size=size) == expected

    check()


def test_an_index_record_has_what_the_batch_in_it_says(node: BenchNode) -> None:
    client = node.client()
    data = bundle.encode_sparse([7, 9], [b"x", b"y"], timestamps=[STAMP_MS, STAMP_MS + 5])
    assert produce(client, data) == 0
    log = node.broker.topics["a"].partitions[0].log
    (record,) = log.segments[0].index.records()
    assert (record.first, record.last, record.messages) == (7, 9, 2)
    assert (record.max_timestamp_ms, record.format) == (STAMP_MS + 5, 1)


def test_kafka_clients_read_the_same_messages(node: BenchNode) -> None:
    client = node.client()
    keyed = bundle.encode([b"one", b"", b"three"], timestamps=STAMP_MS, keys=[b"k", b"k", None])
    for topic, empty in (("a", b""), ("c", None)):
        assert produce(client, keyed, topic) == 0
        line = Fetcher(node)
        response = line.asks(line.request(line.topic(topic, want(0))))
        found = line.records(response.responses[0].partitions[0])
        assert [(read.offset, read.key, read.value) for read in found] == [
            (0, b"k", b"one"),
            (1, b"k", empty),
            (2, None, b"three"),
        ]
        assert [message.value for message in consume(client, 1, topic=topic)] == [b"one", b"", b"three"]


def test_tank_clients_read_what_kafka_clients_wrote_but_for_what_bundles_can_not_hold(
    node: BenchNode,
) -> None:
    client, names = node.client(), count()

    @settings(examples(20), deadline=None)
    @given(
        st.lists(st.tuples(records(dense=False), st.integers(0, 3)), min_size=1, max_size=4),
        st.sampled_from(KafkaCodec),
    )
    def check(made: list[tuple[list[KafkaRecord], int]], codec: KafkaCodec) -> None:
        topic = f"topic-{next(names)}"
        add_topic(node, topic)
        expected: list[Message] = []
        end = 0
        for batch, gap in made:
            first = end + 1 + gap
            sent = record_batch.encode(batch, base_timestamp_ms=STAMP_MS, codec=codec)
            append(node, sent, topic, first)
            for record in batch:
                key = record.key if record.key is not None and len(record.key) <= 255 else None
                stamp = STAMP_MS + record.timestamp_delta
                number = first + record.offset_delta
                expected.append(Message(number, stamp, key or None, record.value or b""))
            end = expected[-1].sequence_number
        before = node.metrics.converted["record_batch_lossy"]
        assert consume_all(client, topic=topic) == expected
        lossy = sum(any(r.headers or r.key == b"" or len(r.key or b"") > 255 for r in b) for b, _ in made)
        assert node.metrics.converted["record_batch_lossy"] == before + lossy
        assert consume_all(client, topic=topic, size=1) == expected

    check()


def test_records_without_a_time_have_that_of_their_append(node: BenchNode) -> None:
    append(node, record_batch.encode([KafkaRecord(b"k", b"v", 0, 0)], base_timestamp_ms=-1))
    (message,) = consume(node.client(), 1)
    assert message.timestamp_ms == node.broker.tick.now_ms


def test_the_numbers_of_a_client_are_kept_and_taken_ones_refused(node: BenchNode) -> None:
    client = node.client()
    assert produce_at(client, of(b"five", b"six"), 5) == 0
    assert produce_at(client, of(b"again"), 6) == ErrorCode.SEQUENCE_NUMBER_NOT_ABOVE_END
    assert produce_at(client, bundle.encode_sparse([9], [b"nine"], timestamps=1), 7) == 0
    assert [(m.sequence_number, m.value) for m in consume_all(client)] == [
        (5, b"five"),
        (6, b"six"),
        (9, b"nine"),
    ]


def test_a_repeat_of_an_idempotent_producer_is_stored_once(node: BenchNode) -> None:
    client = node.client()
    assert produce_once(client, of(b"x", b"y"), 77, 0) == (0, 1, 2)
    assert produce_once(client, of(b"x", b"y"), 77, 0) == (0, 1, 2)
    assert produce_once(client, of(b"z"), 77, 2) == (0, 3, 3)
    assert [message.value for message in consume_all(client)] == [b"x", b"y", b"z"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bundle.encode([b"x"], timestamps=2**63), "invalid_records"),
        (bundle.encode_sparse([1, 2**31 + 1], [b"x", b"y"], timestamps=1), "invalid_records"),
        (b"\x0c\0\0", "invalid_bundle"),
    ],
)
def test_what_could_not_be_given_back_is_refused(node: BenchNode, data: bytes, why: str) -> None:
    client = node.client()
    assert produce(client, data) != 0
    assert produce_once(client, data, 0, 0)[0] == ErrorCode.INVALID_BUNDLE
    assert node.metrics.refused[why] == 2
    assert produce(client, of(b"good")) == 0
    assert [message.value for message in consume_all(client)] == [b"good"]


def test_a_bundle_above_the_brokers_limit_is_refused(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", replace(Limits(), bundle_bytes=100)) as node:
        add_topic(node, "a")
        assert produce_once(node.client(), of(b"x" * 100), 0, 0)[0] == ErrorCode.TOO_LARGE


def test_the_same_request_again_goes_no_shorter_way(node: BenchNode) -> None:
    """A learned request would store the bundle, or send record batches, as they are."""
    client = node.client()
    for turn in range(4):
        assert produce(client, of(b"%d" % turn)) == 0
    for _ in range(3):
        assert [message.value for message in consume(client, 1)] == [b"0", b"1", b"2", b"3"]
    assert consume(client, 5) == []


def test_a_chunk_ends_before_a_control_batch_and_the_next_one_begins_behind_it(node: BenchNode) -> None:
    end = control_batch.encode(TransactionEnd(ControlType.COMMIT, 5, 0, 1), STAMP_MS)
    append(node, values_batch(b"one", b"two"))
    append(node, end)
    append(node, end)
    append(node, values_batch(b"five"))
    client = node.client()
    assert [message.value for message in consume(client, 1)] == [b"one", b"two"]
    assert [(m.sequence_number, m.value) for m in consume(client, 3)] == [(5, b"five")]
    assert [message.sequence_number for message in consume(client, 4, size=1)] == [5]
    append(node, end)
    told, chunk = entry_of(client.ask(request(6)))
    assert (told.high_water_mark, chunk) == (6, b"")
    log = node.broker.topics["a"].partitions[0].log
    assert [bool(r.flags & MARKER) for r in log.segments[0].index.records()] == [0, 1, 1, 0, 1]


def test_a_consumer_behind_a_control_batch_is_woken_by_the_next_message(node: BenchNode) -> None:
    append(node, values_batch(b"one"))
    append(node, control_batch.encode(TransactionEnd(ControlType.ABORT, 5, 0, 1), STAMP_MS))
    client = node.client()
    client.send(request(2, wait_ms=1000))
    assert not client.answers()
    append(node, values_batch(b"three"))
    ((_, payload),) = client.answers()
    assert [(m.sequence_number, m.value) for m in decoded(*entry_of(payload), 2)] == [(3, b"three")]


def test_a_waiting_consumer_gets_bundles(node: BenchNode) -> None:
    client, producer = node.client(), node.client()
    for turn in range(3):
        client.send(request(turn + 1, wait_ms=1000))
        assert not client.answers()
        assert produce(producer, of(b"%d" % turn)) == 0
        ((_, payload),) = client.answers()
        assert [message.value for message in decoded(*entry_of(payload), turn + 1)] == [b"%d" % turn]


@pytest.mark.parametrize("codec", [KafkaCodec.NONE, KafkaCodec.ZSTD])
def test_an_answer_is_bounded_by_what_its_batches_unpack_to(tmp_path: Path, codec: KafkaCodec) -> None:
    with BenchNode(tmp_path / "data", replace(Limits(), converted_answer_bytes=50_000)) as node:
        for name in "ab":
            add_topic(node, name)
            for _ in range(10):
                append(node, values_batch(b"x" * 20_000, codec=codec), name)
        client = node.client()
        assert len(consume(client, 1)) == 3 if codec else 2
        assert len(consume_all(client)) == 10
        topics = [ConsumeTopic(name, [ConsumePartition(0, 1, 1 << 20)]) for name in "ab"]
        answer = ConsumeResponse.decode(client.ask(ConsumeRequest(2, 7, "me", 0, 0, 0, topics)))
        lengths = [topic.partitions[0].chunk_length for topic in answer.topics]
        assert lengths[0] > 0
        assert sum(lengths) < 70_000


def test_a_batch_larger_than_the_bound_comes_alone(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", replace(Limits(), converted_answer_bytes=1_000)) as node:
        add_topic(node, "a")
        for _ in range(2):
            append(node, values_batch(b"x" * 5_000))
        assert [message.sequence_number for message in consume(node.client(), 1)] == [1]


def test_a_batch_that_can_not_be_converted_is_an_error_and_not_a_gap(node: BenchNode) -> None:
    append(node, values_batch(b"one"))
    bad = bytearray(values_batch(b"two", b"three"))
    append(node, changed(bytes(bad), 57, ">i", 1))  # its header says one record of two
    append(node, values_batch(b"four"))
    client = node.client()
    assert [message.value for message in consume(client, 1)] == [b"one"]
    told, _ = entry_of(client.ask(request(2)))
    assert told.flag == ConsumeFlag.NOT_OPENED
    assert node.metrics.refused["invalid_records"] == 1
    assert [message.value for message in consume(client, 4)] == [b"four"]


def test_requests_to_other_brokers_are_converted_by_the_leader(cell: BrokerCell) -> None:
    cell.create("k", partitions=1, flush="replicated", log_format="kafka")
    cell.run(300)
    leader = cell.nodes[1]
    client = cell.nodes[2].client()
    entries = [ProducePartition(0, memoryview(bundle.as_batch(of(b"x", b"y"))))]
    client.send(ProduceRequest(forwarded.OLD, 1, "me", 0, 0, [ProduceTopic("k", entries)]))
    cell.run(400)
    assert forwarded.results(client) == [(1, b"\0")]
    for node in cell.nodes.values():
        assert bytes_of(node.log("k")) == bytes_of(leader.log("k"))
    (record,) = leader.log("k").segments[0].index.records()
    assert (record.first, record.last, record.format) == (1, 2, FORMAT_KAFKA)
    client.send(replace(request(1, topic="k"), client_version=forwarded.OLD))
    cell.run(400)
    (answer,) = forwarded.fetched(client)
    assert forwarded.values(answer) == {0: [b"x", b"y"]}
