"""Produce requests that are received together: stored and answered as their handler would, one by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.cluster.link import TopicAlteration
from tank_node.limits import Limits
from tank_node.log.log import PartitionLog
from tank_node.partition.partition import Partition
from tank_protos.generated.kafka import ProduceRequest, ProduceResponse
from tank_protos.generated.kafka.produce_response import PartitionProduceResponse
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.record_batch import NO_PRODUCER, ProducerFields
from tests.support.clients.kafka_producer import NEWEST, Producer, batch_of
from tests.support.examples import examples
from tests.support.nodes.bench_node import BenchNode

LEARNED = range(3, NEWEST + 1)


class OneByOne(Exception):
    """A request was looked at alone that belongs to a run."""


def forbid_looking(patch: pytest.MonkeyPatch) -> None:
    """Nothing is decoded from now on."""

    def refuse(*_: object, **__: object) -> None:
        raise OneByOne

    patch.setattr(ProduceRequest, "decode", refuse)


def content_of(log: PartitionLog) -> bytes:
    """All bytes of a log, its index records included."""
    found = b""
    for segment in log.segments.list:
        for file in segment.files():
            found += Path(file.path).read_bytes()
    return found


def add_topics(node: BenchNode) -> None:
    node.controller.add("k", 2, flush="replicated", log_format="kafka")
    node.controller.add("small", flush="replicated", log_format="kafka", log_segment_bytes=str(1 << 20))
    node.controller.add("t", flush="replicated", log_format="kafka", message_timestamp_type="LogAppendTime")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        add_topics(node)
        yield node


def results(line: Producer) -> list[PartitionProduceResponse]:
    """The results in all answers that have come, in their order."""
    found = []
    for frame in line.frames():
        _, answer = line.read(frame, ProduceResponse, line.version)
        found.append(answer.responses[0].partition_responses[0])
    return found


def frames_of(line: Producer, batches: list[bytes], topic: str = "k", acks: int = -1) -> bytes:
    requests = [line.request((0, batch), topic=topic, acks=acks) for batch in batches]
    return b"".join(line.frame(request, line.version) for request in requests)


def log_of(node: BenchNode, topic: str = "k", number: int = 0) -> PartitionLog:
    return node.broker.topics[topic].partitions[number].log


def stamped(sequence: int, *values: bytes, producer_id: int = 9, epoch: int = 0) -> bytes:
    return batch_of(*values, producer=ProducerFields(producer_id, epoch, sequence))


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", LEARNED)
def test_requests_that_come_together_are_answered_each_with_its_own_offset(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch, version: int, acks: int
) -> None:
    line = Producer(node, version)
    line.produce(batch_of(b"first"), topic="k", acks=acks)
    forbid_looking(monkeypatch)
    line.feed(frames_of(line, [batch_of(*[b"x"] * count) for count in (1, 3, 2)], acks=acks))
    found = results(line)
    assert [result.base_offset for result in found] == [1, 2, 5]
    assert {result.error_code for result in found} == {0}
    assert {result.log_start_offset for result in found} == {0 if version >= 5 else -1}
    assert log_of(node).tail.last == 7
    assert line.session.in_flight == 0


@pytest.mark.parametrize("producer_id", [-1, 9])
def test_they_are_staged_as_one(node: BenchNode, producer_id: int) -> None:
    line = Producer(node)

    def batch(sequence: int) -> bytes:
        return batch_of(b"x") if producer_id < 0 else stamped(sequence, b"x")

    line.produce(batch(0), topic="k")
    buffer = bytearray(frames_of(line, [batch(number) for number in range(1, 6)]))
    node.broker.begin_tick()
    line.session.receive(buffer, memoryview(buffer), 0, len(buffer))
    assert line.session.kept == 0, "small batches are copied, and the buffer is free"
    assert [entry[6] for entry in node.broker.topics["k"].partitions[0].acks.staged] == [5]
    node.tick()
    assert [result.base_offset for result in results(line)] == [1, 2, 3, 4, 5]


def test_an_idempotent_producer_takes_the_same_way(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Producer(node)
    line.produce(stamped(0, b"first"), topic="k")
    forbid_looking(monkeypatch)
    line.feed(frames_of(line, [stamped(number, b"x") for number in range(1, 9)]))
    assert [result.base_offset for result in results(line)] == list(range(1, 9))
    monkeypatch.undo()
    line.feed(frames_of(line, [stamped(4, b"x"), stamped(8, b"x"), stamped(9, b"y"), stamped(11, b"z")]))
    assert [(result.error_code, result.base_offset) for result in results(line)] == [
        (0, 4),
        (0, 8),
        (0, 9),
        (45, -1),
    ]
    assert log_of(node).tail.last == 10


def test_the_producer_is_known_after_a_restart(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        add_topics(node)
        line = Producer(node)
        line.produce(stamped(0, b"first"), topic="k")
        line.feed(frames_of(line, [stamped(number, b"x") for number in range(1, 9)]))
        assert {result.error_code for result in results(line)} == {0}
        log = log_of(node)
        log.producers.forget()
        assert line.produce(stamped(8, b"x"), topic="k").base_offset == 8
        assert line.produce(stamped(10, b"x"), topic="k").error_code == 45


def test_a_bad_batch_among_good_ones_is_refused_alone(node: BenchNode) -> None:
    line = Producer(node)
    line.produce(batch_of(b"first"), topic="k")
    bad = bytearray(batch_of(b"x"))
    bad[-1] ^= 1
    line.feed(frames_of(line, [batch_of(b"x"), bytes(bad), batch_of(b"y")]))
    assert [(result.error_code, result.base_offset) for result in results(line)] == [(0, 1), (2, -1), (0, 2)]
    assert log_of(node).tail.last == 3


def test_a_full_session_takes_no_more_than_it_may(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(in_flight=4)) as node:
        add_topics(node)
        line = Producer(node)
        line.produce(batch_of(b"first"), topic="k")
        data = frames_of(line, [batch_of(b"x") for _ in range(10)])
        buffer = bytearray(data)
        node.broker.begin_tick()
        rest = line.session.receive(buffer, memoryview(buffer), 0, len(buffer))
        assert (rest, line.session.in_flight) == (len(data) * 4 // 10, 4)
        node.tick()
        assert len(results(line)) == 4


def test_requests_for_several_partitions_take_turns(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Producer(node)
    for number in range(2):
        line.produce(batch_of(b"first"), number, topic="k")
    forbid_looking(monkeypatch)
    requests = [line.request((number, batch_of(b"x")), topic="k") for number in (0, 0, 1, 0, 1)]
    line.feed(b"".join(line.frame(request, NEWEST) for request in requests))
    found = results(line)
    assert [(result.index, result.base_offset) for result in found] == [
        (0, 1),
        (0, 2),
        (1, 1),
        (0, 3),
        (1, 2),
    ]


def test_a_disk_error_is_told_to_each_request(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Producer(node)
    line.produce(batch_of(b"first"), topic="k")
    data = frames_of(line, [batch_of(b"x"), batch_of(b"y")])
    node.broker.begin_tick()
    buffer = bytearray(data)
    assert line.session.receive(buffer, memoryview(buffer), 0, len(buffer)) == len(data)
    log_of(node).fail("the disk is gone")
    node.tick()
    assert [result.error_code for result in results(line)] == [56, 56]
    assert line.session.in_flight == 0
    assert node.broker.metrics.errors["kafka_produce", "storage_error"] == 2


def test_a_partition_that_is_led_no_more_says_so_to_each_request(node: BenchNode) -> None:
    line = Producer(node)
    line.produce(batch_of(b"first"), topic="k")
    data = frames_of(line, [batch_of(b"x"), batch_of(b"y")])
    node.broker.begin_tick()
    buffer = bytearray(data)
    line.session.receive(buffer, memoryview(buffer), 0, len(buffer))
    node.controller.delete_topic("k", lambda outcome: None)
    node.tick()
    found = results(line)
    assert len(found) == 2
    assert {result.error_code for result in found} == {3}


def test_the_log_start_of_an_answer_is_that_of_its_time(node: BenchNode) -> None:
    line = Producer(node)
    for _ in range(5):
        line.produce(batch_of(b"first"), topic="k")
    data = frames_of(line, [batch_of(b"x"), batch_of(b"y")])
    node.broker.begin_tick()
    buffer = bytearray(data)
    line.session.receive(buffer, memoryview(buffer), 0, len(buffer))
    log_of(node).retain_from(3)
    node.tick()
    assert [(result.base_offset, result.log_start_offset) for result in results(line)] == [(5, 2), (6, 2)]


def test_requests_are_counted_one_by_one(node: BenchNode) -> None:
    line = Producer(node)
    line.produce(batch_of(b"first"), topic="k")
    metrics = node.broker.metrics
    of_client = metrics.client_bytes("test", 1)
    before = of_client.received
    data = frames_of(line, [batch_of(b"x", b"y")] * 3)
    line.feed(data)
    assert of_client.received - before == len(data)
    assert metrics.kafka_answered_now["Produce"] == 4
    assert metrics.kafka_requests["Produce", NEWEST, "ok"] == 4
    assert (metrics.produced_batches, metrics.produced_messages) == (4, 7)


@pytest.mark.parametrize(
    "settings",
    [
        {"message.timestamp.type": "LogAppendTime"},
        {"message.timestamp.before.max.ms": "1000"},
        {"log.cleanup.policy": "cleanup"},
        {"max.message.bytes": "100"},
    ],
)
def test_new_settings_hold_for_the_next_run(tmp_path: Path, settings: dict[str, str | None]) -> None:
    with BenchNode(tmp_path / "runs") as runs, BenchNode(tmp_path / "plain") as plain:
        found = []
        for node in (runs, plain):
            add_topics(node)
            line = Producer(node)
            line.produce(batch_of(b"first"), topic="k")
            node.controller.alter_topic(TopicAlteration("k", settings=settings), lambda outcome: None)
            if node is plain:
                line.session.learned = None
            line.feed(frames_of(line, [batch_of(b"x"), batch_of(b"y" * 90), batch_of(b"z", keys=(b"k",))]))
            found.append((results(line), content_of(log_of(node))))
        assert found[0] == found[1]
        assert any(result.error_code or result.log_append_time_ms != -1 for result in found[0][0])


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BenchNode, BenchNode]]:
    """Two nodes that are asked the same."""
    with (
        BenchNode(tmp_path_factory.mktemp("runs")) as runs,
        BenchNode(tmp_path_factory.mktemp("plain")) as plain,
    ):
        for node in (runs, plain):
            add_topics(node)
        yield runs, plain


@st.composite
def conversation(draw: st.DrawFn) -> list[bytes]:
    """Batches of a producer or of none; some are repeats, gaps, wrong, compressed or of another producer."""
    sequences: dict[int, int] = {}
    batches: list[bytes] = []
    for _ in range(draw(st.integers(1, 12))):
        values = [b"v" * draw(st.sampled_from([0, 1, 50]))] * draw(st.sampled_from([1, 1, 2, 5]))
        producer = NO_PRODUCER
        if draw(st.integers(0, 3)):
            producer_id = draw(st.sampled_from([5, 5, 5, 6]))
            sequence = sequences.get(producer_id, 0)
            sequences[producer_id] = sequence + len(values)
            jump = draw(st.sampled_from([0] * 8 + [1, -1, -3]))
            producer = ProducerFields(
                producer_id, draw(st.sampled_from([0] * 9 + [1])), max(sequence + jump, 0)
            )
        codec = draw(st.sampled_from([KafkaCodec.NONE] * 5 + [KafkaCodec.GZIP, KafkaCodec.ZSTD]))
        transactional = producer is not NO_PRODUCER and not draw(st.integers(0, 19))
        made = batch_of(*values, producer=producer, codec=codec, transactional=transactional)
        if not draw(st.integers(0, 9)):
            changed = bytearray(made)
            changed[draw(st.integers(0, len(made) - 1))] ^= draw(st.integers(1, 255))
            made = bytes(changed)
        batches.append(made)
        if not draw(st.integers(0, 9)):
            batches.append(made)
    return batches


@examples(100)
@given(st.sampled_from([3, 6, 8, 9, NEWEST]), st.sampled_from([-1, 1]), conversation(), st.data())
def test_a_run_leaves_the_answers_and_the_log_of_the_handler(
    alike: tuple[BenchNode, BenchNode], version: int, acks: int, batches: list[bytes], data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, len(batches)))
    found = []
    for node in alike:
        node.controller.delete_topic("k", lambda outcome: None)
        node.controller.add("k", 2, flush="replicated", log_format="kafka")
        line = Producer(node, version)
        line.produce(batch_of(b"first"), topic="k", acks=acks)
        answers = []
        for begin in range(0, len(batches), size):
            if node is alike[1]:
                line.session.learned = None
            line.feed(frames_of(line, batches[begin : begin + size], acks=acks))
            answers += line.frames()
        found.append(
            (answers, content_of(log_of(node)), log_of(node).producers.load(log_of(node).written).snapshot())
        )
    assert found[0] == found[1]


def test_a_run_that_fills_a_segment_goes_on_in_the_next(
    node: BenchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    with BenchNode(tmp_path / "plain") as plain:
        add_topics(plain)
        for each in (node, plain):
            line = Producer(each)
            line.produce(stamped(0, b"first"), topic="small")
            batches = [stamped(number, b"%d" % number * 150_000) for number in range(1, 10)]
            if each is plain:
                for batch in batches:
                    line.session.learned = None
                    line.feed(frames_of(line, [batch], topic="small"))
            else:
                with monkeypatch.context() as patch:
                    forbid_looking(patch)
                    line.feed(frames_of(line, batches, topic="small"))
            assert [result.base_offset for result in results(line)] == list(range(1, 10))
            log = log_of(each, "small")
            assert len(log.segments.list) > 1
            contents.append((content_of(log), log.producers.load(log.written).snapshot()))
    assert contents[0] == contents[1]


def test_a_run_is_staged_behind_what_was_found_before_it(node: BenchNode) -> None:
    partition = node.broker.topics["k"].partitions[0]
    assert isinstance(partition, Partition)
    one, other = Producer(node), Producer(node)
    for line in (one, other):
        line.produce(batch_of(b"first"), topic="k")
    node.broker.begin_tick()
    for line in (one, other, one):
        buffer = bytearray(frames_of(line, [batch_of(b"x"), batch_of(b"y")]))
        line.session.receive(buffer, memoryview(buffer), 0, len(buffer))
    node.tick()
    assert [result.base_offset for result in results(one)] == [2, 3, 6, 7]
    assert [result.base_offset for result in results(other)] == [4, 5]
