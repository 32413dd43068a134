"""Consumers that wait: what wakes them, with what, and when they are sent away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import Limits
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role
from tank_protos import bundle
from tank_protos.generated.tank import (
    AwaitEndsRequest,
    AwaitEndsResponse,
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    KnownEnd,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.nodes.bench_node import BenchClient, BenchNode
from tests.support.nodes.broker_cell import Told

END = 2**64 - 1


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3, flush="replicated")
        node.controller.add("durable", 1, flush="disk")
        yield node


def consume(
    *wanted: tuple[str, int, int], wait_ms: int = 0, min_bytes: int = 0, request_id: int = 7, version: int = 2
) -> ConsumeRequest:
    topics = [ConsumeTopic(topic, [ConsumePartition(p, number, 1 << 20)]) for topic, p, number in wanted]
    return ConsumeRequest(version, request_id, "", wait_ms, min_bytes, 0, topics)


def produce(client: BenchClient, topic: str, partition: int, *values: bytes) -> None:
    batch = memoryview(bundle.as_batch(bundle.encode(list(values), timestamps=1)))
    client.send(ProduceRequest(2, 1, "", 0, 0, [ProduceTopic(topic, [ProducePartition(partition, batch)])]))


def one(client: BenchClient) -> ConsumeResponse:
    ((message_id, payload),) = client.answers()
    assert message_id == 2
    return ConsumeResponse.decode(payload)


def values_of(answer: ConsumeResponse) -> list[bytes]:
    return [m.value for b in bundle.bundles(memoryview(answer.chunks)) for m in bundle.decode(b, 1)]


def test_an_append_wakes_the_consumer_in_the_same_tick(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    consumer.send(consume(("a", 0, END), wait_ms=10_000))
    assert consumer.taken() == b""
    produce(producer, "a", 0, b"now")
    assert values_of(one(consumer)) == [b"now"]


@pytest.mark.parametrize("wait_ms", [1, 7, 319, 1000, 3_600_000])
def test_a_wait_ends_when_the_client_asked_for_and_not_before(node: BenchNode, wait_ms: int) -> None:
    consumer = node.client()
    consumer.send(consume(("a", 0, 1), wait_ms=wait_ms))
    node.pass_ms(wait_ms)
    assert consumer.taken() == b""
    node.pass_ms(1)
    assert one(consumer).topics[0].partitions[0].base_sequence_number == 0


def test_no_wait_is_longer_than_an_hour(node: BenchNode) -> None:
    consumer = node.client()
    consumer.send(consume(("a", 0, 1), wait_ms=2**63))
    node.pass_ms(3_600_001)
    one(consumer)


def test_min_bytes_are_summed_over_the_partitions_of_a_request(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    consumer.send(consume(("a", 0, END), ("a", 1, END), wait_ms=10_000, min_bytes=100))
    produce(producer, "a", 0, b"x" * 50)
    assert consumer.taken() == b""
    produce(producer, "a", 1, b"y" * 50)
    assert values_of(one(consumer)) == [b"x" * 50, b"y" * 50]


def test_min_bytes_count_all_writes_that_one_fsync_covers(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    consumer.send(consume(("durable", 0, 1), wait_ms=10_000, min_bytes=150))
    for _ in range(3):
        produce(producer, "durable", 0, b"x" * 50)
    node.sync()
    assert len(values_of(one(consumer))) == 3


def test_min_bytes_do_not_count_what_lies_before_the_number_that_is_waited_for(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    produce(producer, "durable", 0, b"before" * 100)
    consumer.send(consume(("durable", 0, 2), wait_ms=10_000, min_bytes=200))
    node.sync()
    produce(producer, "durable", 0, b"few")
    node.sync()
    assert consumer.taken() == b""
    produce(producer, "durable", 0, b"enough" * 100)
    node.sync()
    assert values_of(one(consumer)) == [b"few", b"enough" * 100]


def test_an_answer_ends_where_a_frame_would_grow_too_large(node: BenchNode) -> None:
    client = node.client()
    client.session.answer_bytes = 1000
    for partition in range(3):
        produce(client, "a", partition, b"x" * 600)
    client.answers()
    client.send(consume(("a", 0, 1), ("a", 1, 1), ("a", 2, 1)))
    lengths = [topic.partitions[0].chunk_length for topic in one(client).topics]
    assert [length > 0 for length in lengths] == [True, True, False]


def test_min_bytes_do_not_delay_what_is_there(node: BenchNode) -> None:
    client = node.client()
    produce(client, "a", 0, b"there")
    client.answers()
    client.send(consume(("a", 0, 1), wait_ms=10_000, min_bytes=1 << 30))
    assert values_of(one(client)) == [b"there"]


def test_an_error_or_data_of_one_partition_answers_for_all(node: BenchNode) -> None:
    client = node.client()
    client.send(consume(("a", 0, 1), ("a", 9, 1), wait_ms=10_000))
    first, unknown = (topic.partitions[0] for topic in one(client).topics)
    assert (first.flag, first.chunk_length, unknown.flag) == (0, 0, 0xFF)


def test_what_is_not_on_disk_yet_is_neither_seen_nor_an_error(node: BenchNode) -> None:
    producer, consumer = node.client(), node.client()
    produce(producer, "durable", 0, b"one")
    assert producer.taken() == b""
    consumer.send(consume(("durable", 0, 2), wait_ms=0))
    partition = one(consumer).topics[0].partitions[0]
    assert (partition.flag, partition.high_water_mark, partition.chunk_length) == (0, 0, 0)
    consumer.send(consume(("durable", 0, 1), wait_ms=1000))
    assert consumer.taken() == b""
    node.sync()
    assert values_of(one(consumer)) == [b"one"]
    assert producer.answers()[0][1][-1] == 0


def test_a_deleted_topic_ends_the_waits_for_it(node: BenchNode) -> None:
    consumer = node.client()
    consumer.send(consume(("a", 0, 1), wait_ms=10_000))
    node.controller.delete_topic("a", lambda _: None)
    assert one(consumer).topics[0].partitions[0].flag == 0xFF
    assert node.metrics.waiting == 0


def test_a_closed_connection_leaves_no_wait_behind(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    consumer.send(consume(("a", 0, 1), wait_ms=10_000))
    consumer.session.close()
    assert node.metrics.waiting == 0
    produce(producer, "a", 0, b"nobody")
    assert consumer.taken() == b""


def test_woken_waits_do_not_pile_up_until_their_deadline(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    for number in range(1, 3001):
        consumer.send(consume(("a", 0, number), wait_ms=3_600_000))
        produce(producer, "a", 0, b"x")
        consumer.taken()
        producer.taken()
    assert node.broker.deadlines.kept < 1100


def test_beyond_the_bound_of_waits_one_is_answered_at_once(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(waits_per_partition=2)) as node:
        node.controller.add("a", 1, flush="replicated")
        consumer = node.client()
        for request_id in (1, 2, 3):
            consumer.send(consume(("a", 0, 1), wait_ms=1000, request_id=request_id))
        assert one(consumer).request_id == 3
        assert node.metrics.refused["too_many_waits"] == 1


def test_a_wait_for_ends_hears_of_any_of_its_partitions(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    known = [KnownEnd("a", 0, 0), KnownEnd("a", 1, 0)]
    consumer.send(AwaitEndsRequest(0, 5, 1000, known))
    assert consumer.taken() == b""
    produce(producer, "a", 1, b"x", b"y")
    ((_, payload),) = consumer.answers()
    ends = AwaitEndsResponse.decode(payload)
    assert [(end.first_available, end.high_water_mark) for end in ends.partitions] == [(0, 0), (1, 2)]
    consumer.send(AwaitEndsRequest(0, 6, 1000, [KnownEnd("a", 1, 2)]))
    node.pass_ms(1001)
    ((_, payload),) = consumer.answers()
    assert AwaitEndsResponse.decode(payload).partitions[0].high_water_mark == 2
    consumer.send(AwaitEndsRequest(0, 7, 1000, [KnownEnd("a", 1, END), KnownEnd("none", 0, 0)]))
    ((_, payload),) = consumer.answers()
    assert [end.error for end in AwaitEndsResponse.decode(payload).partitions] == [0, 0xFF]


def test_a_client_of_the_old_document_never_sees_flags_that_it_does_not_know(node: BenchNode) -> None:
    partition = node.broker.topics["a"].partitions[0]
    partition.unreadable = True
    for version, flag in ((0, 0), (2, 0xFB)):
        client = node.client()
        client.send(consume(("a", 0, 1), version=version))
        assert one(client).topics[0].partitions[0].flag == flag


@pytest.mark.parametrize("wait_ms", [0, 10])
def test_a_client_of_the_old_document_gets_nothing_of_a_partition_that_is_not_here(
    node: BenchNode, wait_ms: int
) -> None:
    topic = node.broker.topics["a"]
    del topic.partitions[0]
    topic.broken[0] = "no such folder"
    client = node.client()
    client.send(consume(("a", 0, 1), wait_ms=wait_ms, version=0))
    if wait_ms:
        assert not client.taken()
        node.broker.deadlines.end_waits()
    partition = one(client).topics[0].partitions[0]
    assert (partition.flag, partition.high_water_mark, partition.chunk_length) == (0, 0, 0)


@pytest.mark.parametrize("stops", [True, False])
def test_a_wait_that_cannot_be_ended_does_not_keep_others_from_it(node: BenchNode, stops: bool) -> None:
    client, broken = node.client(), node.client()
    for one_of_them in (broken, client):
        one_of_them.send(consume(("a", 0, END), wait_ms=10))
    broken.session.waits.clear()  # as a bug would have it
    if stops:
        node.broker.deadlines.end_waits()
    else:
        node.pass_ms(20)
    assert one(client).topics[0].partitions[0].flag == 0
    assert node.metrics.waiting == 0


def written(partition: Partition, value: bytes) -> None:
    """A message is in the log, and the mark has not moved."""
    batch = bundle.as_batch(bundle.encode([value], timestamps=1))
    partition.append(memoryview(batch), Told(), 0)
    assert partition.write()
    partition.tick.touched.clear()


@pytest.mark.parametrize(("version", "flag"), [(0, 0), (2, 0xFB)])
def test_a_wait_that_meets_damage_ends_once_and_keeps_no_file(
    node: BenchNode, version: int, flag: int
) -> None:
    sound, damaged = (node.broker.topics["a"].partitions[number] for number in (0, 1))
    consumer = node.client()
    consumer.send(consume(("a", 0, 1), ("a", 1, 1), wait_ms=10_000, version=version))
    written(damaged, b"x")
    damaged.log.spoiled("a bad sector")
    damaged.high_water_mark = 1
    written(sound, b"y")
    sound.advance(1)
    answer = one(consumer)
    assert [topic.partitions[0].flag for topic in answer.topics] == [0, flag]
    assert values_of(answer) == [b"y"]
    assert node.metrics.waiting == 0
    assert sound.log.segments[0].log_end.file.pins == 0


def test_a_wait_that_meets_damage_in_two_partitions_ends_once(node: BenchNode) -> None:
    sound, *damaged = (node.broker.topics["a"].partitions[number] for number in range(3))
    consumer = node.client()
    consumer.send(consume(*(("a", number, 1) for number in range(3)), wait_ms=10_000))
    for each in damaged:
        written(each, b"x")
        each.log.spoiled("a bad sector")
        each.high_water_mark = 1
    written(sound, b"y")
    sound.advance(1)
    answer = one(consumer)
    assert [topic.partitions[0].flag for topic in answer.topics] == [0, 0xFB, 0xFB]
    assert values_of(answer) == [b"y"]
    assert node.metrics.waiting == 0


def test_a_wait_for_what_comes_next_that_meets_damage_ends_once(node: BenchNode) -> None:
    partition = node.broker.topics["a"].partitions[0]
    consumer = node.client()
    produce(node.client(), "a", 0, b"x")
    for number in (1, 2):
        consumer.send(consume(("a", 0, number), wait_ms=10_000))
    assert len(consumer.answers()) == 1
    written(partition, b"y")
    partition.log.spoiled("a bad sector")
    partition.advance(2)
    assert one(consumer).topics[0].partitions[0].flag == 0xFB
    assert node.metrics.waiting == 0


def test_an_old_client_does_not_wait_long_for_what_cannot_be_read_yet(node: BenchNode) -> None:
    partition = node.broker.topics["a"].partitions[0]
    partition.become(Role.NONE, 1)
    consumer = node.client()
    consumer.send(consume(("a", 0, 1), wait_ms=3_600_000, version=0))
    partition.become(Role.LEADER, 2)
    produce(node.client(), "a", 0, b"x")
    assert not consumer.taken()
    node.pass_ms(1_001)
    assert one(consumer).topics[0].partitions[0].chunk_length == 0
    consumer.send(consume(("a", 0, 1), wait_ms=3_600_000, version=0))
    assert values_of(one(consumer)) == [b"x"]


def test_what_may_not_wait_does_not_see_the_end_of_a_new_leader(node: BenchNode) -> None:
    partition = node.broker.topics["a"].partitions[0]
    produce(node.client(), "a", 0, b"x")
    partition.know_end_at(2)
    node.broker.deadlines.entries = node.broker.limits.all_wait_entries
    consumer = node.client()
    for number, flag in ((2, 0xFD), (1, 0)):
        consumer.send(consume(("a", 0, number), wait_ms=1_000))
        assert one(consumer).topics[0].partitions[0].flag == flag
    assert node.metrics.refused["too_many_waits"] == 1


def test_a_number_below_the_first_one_does_not_see_the_end_of_a_new_leader_either(node: BenchNode) -> None:
    partition = node.broker.topics["a"].partitions[0]
    produce(node.client(), "a", 0, b"x")
    produce(node.client(), "a", 0, b"y")
    partition.log.segments.log_start = 2
    partition.know_end_at(3)
    consumer = node.client()
    consumer.send(consume(("a", 0, 1), wait_ms=1_000))
    assert not consumer.taken()
    produce(node.client(), "a", 0, b"z")
    answered = one(consumer).topics[0].partitions[0]
    assert (answered.flag, answered.high_water_mark) == (1, 3)
