"""Stored record batches as they are: what a client that asks for them writes and reads."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.limits import Limits
from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FeaturesRequest,
    FeaturesResponse,
    FetchedPartition,
    ProduceRecordBatchesRequest,
    ProduceRecordBatchesResponse,
    RecordBatchesPartition,
    RecordBatchesPartitionResult,
    RecordBatchesTopic,
)
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange
from tests.support.clients.kafka_fetcher import Fetcher, want
from tests.support.clients.produce import batch_of, produce
from tests.support.nodes.bench_node import BenchClient, BenchNode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.values.kafka_records import STAMP_MS, changed, read, records, values_batch

PREFERS, TAKES = 1, 2
FOREVER_MS = "1000y"
PLACE_BYTES = 21
"""The bytes up to the checksum of a batch: offset, length, epoch, magic and checksum."""


def add_topic(node: BenchNode, name: str, **others: str) -> None:
    """Creates a topic of Kafka's format that takes any timestamp."""
    others = {"log_format": "kafka", "message_timestamp_after_max_ms": FOREVER_MS, **others}
    node.controller.add(name, 1, flush="replicated", **others)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        add_topic(node, "a")
        add_topic(node, "compacted", log_cleanup_policy="cleanup")
        node.controller.add("tank", flush="replicated")
        yield node


def append(node: BenchNode, batch: bytes, topic: str = "a") -> None:
    """Stores a Kafka client's batch."""
    node.broker.begin_tick()
    told = Told()
    node.broker.topics[topic].partitions[0].append(memoryview(bytearray(batch)), told, 0)
    node.tick()


def asking(number: int, *, topic: str = "a", wait_ms: int = 0, flags: int = TAKES) -> ConsumeRequest:
    wanted = [ConsumePartition(0, number, 1 << 20)]
    return ConsumeRequest(3, 7, "me", wait_ms, 0, flags, [ConsumeTopic(topic, wanted)])


def entry_of(payload: Buffer) -> tuple[FetchedPartition, bytes]:
    answer = ConsumeResponse.decode(memoryview(payload))
    (told,) = answer.topics[0].partitions
    return told, bytes(answer.chunks)


def send(
    client: BenchClient, batch: bytes, topic: str = "a", producer: int = 0, sequence: int = 0
) -> RecordBatchesPartitionResult:
    entries = [RecordBatchesPartition(0, sequence, memoryview(batch))]
    request = ProduceRecordBatchesRequest(0, 9, "me", 0, 0, producer, 0, [RecordBatchesTopic(topic, entries)])
    answer = ProduceRecordBatchesResponse.decode(client.ask(request))
    assert answer.request_id == 9
    (result,) = answer.topics[0].partitions
    return result


def test_stored_batches_are_sent_as_they_are(node: BenchNode) -> None:
    client, names = node.client(), count()

    @settings(max_examples=20, deadline=None)
    @given(st.lists(records(dense=False), min_size=1, max_size=4), st.sampled_from(KafkaCodec))
    def check(made: list[list[KafkaRecord]], codec: KafkaCodec) -> None:
        topic = f"topic-{next(names)}"
        add_topic(node, topic)
        sent = [record_batch.encode(one, base_timestamp_ms=STAMP_MS, codec=codec) for one in made]
        for batch in sent:
            append(node, batch, topic)
        told, chunk = entry_of(client.ask(asking(1, topic=topic)))
        last = node.broker.topics[topic].partitions[0].high_water_mark
        assert (told.flag, told.high_water_mark, told.chunk_length) == (
            ConsumeFlag.RECORD_BATCHES,
            last,
            len(chunk),
        )
        assert told.first_available == 1
        stored = [bytes(batch) for batch in record_batch.batches(chunk)]
        assert [batch[PLACE_BYTES:] for batch in stored] == [batch[PLACE_BYTES:] for batch in sent]
        offset = 0
        for batch, one in zip(stored, made, strict=True):
            assert record_batch.verify(memoryview(batch)).base_offset == offset
            assert read(batch) == one
            offset += one[-1].offset_delta + 1

    check()


def test_without_the_flag_they_become_bundles(node: BenchNode) -> None:
    append(node, values_batch(b"x"))
    for flags in (0, PREFERS):
        told, _ = entry_of(node.client().ask(asking(1, flags=flags)))
        assert told.flag in (ConsumeFlag.DATA, ConsumeFlag.SPARSE)


def test_a_topic_of_bundles_is_read_as_ever(node: BenchNode) -> None:
    client = node.client()
    produce(client, batch_of(b"x"), topic="tank")
    for _ in range(3):
        told, chunk = entry_of(client.ask(asking(1, topic="tank")))
        assert (told.flag, chunk) == (ConsumeFlag.DATA, batch_of(b"x"))


def test_a_waiting_request_gets_them_too(node: BenchNode) -> None:
    client = node.client()
    for turn in range(3):
        client.send(asking(turn + 1, wait_ms=1000))
        assert not client.answers()
        append(node, values_batch(b"%d" % turn))
        ((_, payload),) = client.answers()
        told, chunk = entry_of(payload)
        assert told.flag == ConsumeFlag.RECORD_BATCHES
        assert [record.value for record in read(chunk)] == [b"%d" % turn]


def test_numbers_outside_of_the_partition_and_none_to_come_are_answered_as_for_bundles(
    node: BenchNode,
) -> None:
    append(node, values_batch(b"x"))
    told, chunk = entry_of(node.client().ask(asking(2)))
    assert (told.flag, told.high_water_mark, chunk) == (ConsumeFlag.DATA, 1, b"")
    assert entry_of(node.client().ask(asking(9)))[0].flag == ConsumeFlag.OUT_OF_BOUNDS


def test_kafka_clients_read_what_was_sent_byte_for_byte(node: BenchNode) -> None:
    client, names = node.client(), count()

    @settings(max_examples=20, deadline=None)
    @given(records(), st.sampled_from(KafkaCodec))
    def check(made: list[KafkaRecord], codec: KafkaCodec) -> None:
        topic = f"topic-{next(names)}"
        add_topic(node, topic)
        sent = record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec)
        result = send(client, sent, topic)
        assert (result.error, result.first, result.last) == (0, 1, len(made))
        line = Fetcher(node)
        response = line.asks(line.request(line.topic(topic, want(0))))
        stored = response.responses[0].partitions[0].records
        assert stored is not None
        assert bytes(stored)[PLACE_BYTES:] == sent[PLACE_BYTES:]

    check()


def test_a_repeat_is_stored_once_and_a_gap_refused(node: BenchNode) -> None:
    client = node.client()
    for _ in range(2):
        result = send(client, values_batch(b"x", b"y"), producer=77)
        assert (result.error, result.first, result.last) == (0, 1, 2)
    assert send(client, values_batch(b"z"), producer=77, sequence=4).error == ErrorCode.OUT_OF_ORDER_SEQUENCE
    assert send(client, values_batch(b"z"), producer=77, sequence=2).first == 3
    _, chunk = entry_of(client.ask(asking(1)))
    assert [r.value for batch in record_batch.batches(chunk) for r in read(bytes(batch))] == [
        b"x",
        b"y",
        b"z",
    ]


def test_a_topic_of_bundles_refuses_record_batches(node: BenchNode) -> None:
    assert send(node.client(), values_batch(b"x"), "tank").error == ErrorCode.OTHER_FORMAT
    assert send(node.client(), values_batch(b"x"), "none").error == ErrorCode.UNKNOWN_TOPIC
    assert node.metrics.errors["produce_record_batches", "other_format"] == 1


@pytest.mark.parametrize(
    ("batch", "topic", "why"),
    [
        (values_batch(b"x")[:-1], "a", "bytes"),
        (values_batch(b"x")[:-1] + b"?", "a", "checksum"),
        (changed(values_batch(b"x"), 21, ">h", 0x20), "a", "transaction"),
        (changed(values_batch(b"x"), 43, ">q", 5), "a", "producer"),
        (changed(changed(values_batch(b"x"), 57, ">i", 2), 23, ">i", 1), "a", "records"),
        (record_batch.encode([KafkaRecord(None, b"x", 0, 0)], base_timestamp_ms=1), "compacted", "no key"),
        (b"", "a", "header"),
    ],
    ids=["short", "checksum", "control", "producer", "count", "no key", "empty"],
)
def test_a_batch_that_is_wrong_is_refused_with_the_reason(
    node: BenchNode, batch: bytes, topic: str, why: str
) -> None:
    result = send(node.client(), batch, topic)
    assert result.error == ErrorCode.INVALID_BUNDLE
    assert why in result.message
    assert node.metrics.refused["invalid_records"] == 1
    assert send(node.client(), values_batch(b"good"), topic).error == 0


def test_a_batch_above_the_brokers_limit_is_too_large(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(bundle_bytes=1024)) as node:
        add_topic(node, "a", max_message_bytes="500")
        assert send(node.client(), values_batch(b"x" * 800)).error == 0
        result = send(node.client(), values_batch(b"x" * 2000))
        assert (result.error, "1024" in result.message) == (ErrorCode.TOO_LARGE, True)


def test_more_batches_than_the_limit_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(produce_entries=10)) as node:
        node.controller.add("a", flush="replicated", log_format="kafka")
        entries = [RecordBatchesPartition(0, 0, memoryview(b""))] * 11
        client = node.client()
        with pytest.raises(OutOfRange):
            client.send(ProduceRecordBatchesRequest(0, 9, "", 0, 0, 0, 0, [RecordBatchesTopic("a", entries)]))


def test_a_broker_says_that_it_knows_them(node: BenchNode) -> None:
    answer = FeaturesResponse.decode(node.client().ask(FeaturesRequest(0, 1)))
    assert "produce_record_batches" in {feature.name for feature in answer.features}


def test_a_time_too_far_ahead_is_refused_and_that_of_the_append_written(node: BenchNode) -> None:
    add_topic(node, "strict", message_timestamp_after_max_ms="1s")
    result = send(node.client(), values_batch(b"x"), "strict")
    assert (result.error, "timestamp" in result.message) == (ErrorCode.INVALID_BUNDLE, True)
    add_topic(node, "appended", message_timestamp_type="LogAppendTime")
    assert send(node.client(), values_batch(b"x"), "appended").error == 0
    _, chunk = entry_of(node.client().ask(asking(1, topic="appended")))
    assert record_batch.verify(memoryview(chunk)).timestamp_ms(0) == node.broker.tick.now_ms


def test_another_broker_names_the_leader_to_producers_and_asks_it_for_consumers(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2, forwarding=ForwardingPolicy.ALWAYS)
    cell.create(
        "k",
        partitions=1,
        flush="replicated",
        log_format="kafka",
        message_timestamp_after_max_ms=FOREVER_MS,
    )
    cell.run(300)
    leader, follower = cell.nodes[1].client(), cell.nodes[2].client()
    batch = values_batch(b"x", None)
    entries = [RecordBatchesPartition(0, 0, memoryview(batch))]
    request = ProduceRecordBatchesRequest(0, 9, "", 0, 0, 0, 0, [RecordBatchesTopic("k", entries)])
    follower.send(request)
    leader.send(request)
    cell.run(400)
    ((_, refused),) = follower.answers()
    (result,) = ProduceRecordBatchesResponse.decode(refused).topics[0].partitions
    assert (result.error, result.leader_port > 0) == (ErrorCode.OTHER_LEADER, True)
    follower.send(asking(1, topic="k"))
    cell.run(400)
    ((_, payload),) = follower.answers()
    told, chunk = entry_of(payload)
    assert (told.flag, told.high_water_mark, told.first_available) == (ConsumeFlag.RECORD_BATCHES, 2, 1)
    assert chunk[PLACE_BYTES:] == batch[PLACE_BYTES:]


def test_what_the_batches_of_one_request_unpack_to_is_bounded_together(node: BenchNode) -> None:
    large = values_batch(b"x" * (5 << 20), codec=KafkaCodec.LZ4)
    entries = [RecordBatchesPartition(0, 0, memoryview(large)) for _ in range(14)]
    topics = [RecordBatchesTopic("compacted", entries)]
    answer = node.client().ask(ProduceRecordBatchesRequest(0, 9, "", 0, 0, 0, 0, topics))
    results = ProduceRecordBatchesResponse.decode(answer).topics[0].partitions
    assert [result.error for result in results] == [0] * 12 + [ErrorCode.TOO_LARGE] * 2
