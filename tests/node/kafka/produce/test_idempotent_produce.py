"""Batches of idempotent producers: what is stored once, and which errors mean what."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.log.producers import ACTIVE_FOR_MS, ProducedBatch
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.kafka import ProduceResponse
from tank_protos.generated.kafka.produce_response import PartitionProduceResponse
from tank_protos.kafka.record_batch import ProducerFields
from tests.support.clients.kafka_producer import NEWEST, Producer, batch_of
from tests.support.nodes.bench_node import BenchNode
from tests.support.storage.logs import read_all

LAST = 2**31 - 1
"""The greatest sequence; the next is 0."""
IDEMPOTENT = (3, 7, 11, NEWEST)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", flush="replicated")
        yield node


def send(
    line: Producer, sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 9, topic: str = "a"
) -> PartitionProduceResponse:
    fields = ProducerFields(producer_id, epoch, sequence)
    return line.produce(batch_of(*[b"x"] * count, producer=fields), topic=topic)


def stored(node: BenchNode) -> int:
    return len(read_all(node.broker.topics["a"].partitions[0].log))


@pytest.mark.parametrize("version", IDEMPOTENT)
def test_a_repeat_is_a_success_with_the_offsets_of_the_first_copy(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    first = send(line, 0, 3)
    send(line, 3, 2)
    again = send(line, 0, 3)
    assert (again.error_code, again.base_offset) == (first.error_code, first.base_offset) == (0, 0)
    assert send(line, 3, 2).base_offset == 3
    assert stored(node) == 5


def test_a_repeat_in_the_same_receive_is_stored_once(node: BenchNode) -> None:
    line = Producer(node)
    batch = batch_of(b"x", producer=ProducerFields(9, 0, 0))
    line.feed(b"".join(line.frame(line.request((0, batch)), NEWEST) for _ in range(2)))
    answers = [line.read(frame, ProduceResponse, NEWEST)[1] for frame in line.frames()]
    found = [answer.responses[0].partition_responses[0] for answer in answers]
    assert [(each.error_code, each.base_offset) for each in found] == [(0, 0), (0, 0)]
    assert stored(node) == 1


@pytest.mark.parametrize("version", IDEMPOTENT)
def test_a_repeat_whose_offset_is_forgotten_is_a_duplicate(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    for sequence in range(7):
        send(line, sequence)
    repeat = send(line, 0)
    assert (repeat.error_code, repeat.base_offset) == (46, -1)
    assert stored(node) == 7


@pytest.mark.parametrize("version", IDEMPOTENT)
def test_a_gap_is_out_of_order_and_the_missing_batch_fills_it(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    send(line, 0)
    assert send(line, 2).error_code == 45
    assert send(line, 1).error_code == 0
    assert send(line, 2).error_code == 0


@pytest.mark.parametrize("version", IDEMPOTENT)
def test_an_epoch_that_is_over_is_refused(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    send(line, 0, epoch=4)
    assert send(line, 0, epoch=5).error_code == 0
    assert send(line, 1, epoch=4).error_code == 47
    assert send(line, 1, epoch=6).error_code == 45, "an epoch begins with sequence 0"


def test_the_first_batch_of_a_producer_that_comes_late_is_still_to_come(node: BenchNode) -> None:
    """librdkafka ends at UNKNOWN_PRODUCER_ID for a batch that was sent twice."""
    line = Producer(node)
    for _ in range(2):
        result = send(line, 5)
        assert (result.error_code, result.log_start_offset) == (45, 0)
    assert send(line, 0, 5).error_code == 0
    assert send(line, 5).error_code == 0


@pytest.mark.plain_node
def test_a_producer_that_may_be_forgotten_is_unknown_with_the_log_start(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tank_node.log.producers.MAX_PRODUCERS", 1)
    line = Producer(node)
    send(line, 0, producer_id=8)
    node.clock.pass_ms(ACTIVE_FOR_MS)
    line.produce(batch_of(b"x"))
    send(line, 0, producer_id=9)
    result = send(line, 1, producer_id=8)
    assert (result.error_code, result.base_offset, result.log_start_offset) == (59, -1, 0)
    node.clock.pass_ms(ACTIVE_FOR_MS)
    line.produce(batch_of(b"x"))
    assert send(line, 0, epoch=1, producer_id=8).error_code == 0, "a new epoch begins anew"


@pytest.mark.plain_node
def test_a_producer_too_many_is_refused_by_policy(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tank_node.log.producers.MAX_PRODUCERS", 1)
    line = Producer(node)
    assert send(line, 0, producer_id=8).error_code == 0
    assert send(line, 0, producer_id=9).error_code == 44
    assert send(line, 1, producer_id=8).error_code == 0


def test_sequences_wrap_behind_the_greatest(node: BenchNode) -> None:
    line = Producer(node)
    log = node.broker.topics["a"].partitions[0].log
    send(line, 0)
    # Nobody waits for 2^31 messages: the memory is told that they were stored.
    producers = log.producers.load(log.written)
    producers.append(9, 0, ProducedBatch(1, LAST - 2, 2, 0), producers.last_append_ms)
    assert send(line, LAST - 1, 3).error_code == 0, "LAST - 1, LAST and 0"
    assert send(line, LAST - 1, 3).base_offset == 1
    assert send(line, 2).error_code == 45
    assert send(line, 1).error_code == 0


def test_a_producer_whose_name_has_a_newer_process_is_refused(node: BenchNode) -> None:
    line = Producer(node)
    assert send(line, 0).error_code == 0
    view = node.controller.view
    view.apply(pb.Delta(index=view.index + 1, ended_producers=[9]))
    assert send(line, 1).error_code == 47


@pytest.mark.parametrize(
    "fields",
    [ProducerFields(0, 0, 0), ProducerFields(9, -1, 0), ProducerFields(9, 0, -1), ProducerFields(-2, 0, 0)],
)
def test_a_producer_without_an_id_epoch_or_sequence_is_invalid(
    node: BenchNode, fields: ProducerFields
) -> None:
    assert Producer(node).produce(batch_of(b"x", producer=fields)).error_code == 87


def test_a_repeat_after_a_timeout_finds_its_first_copy(node: BenchNode) -> None:
    node.controller.add("d", flush="disk")
    line = Producer(node)
    batch = batch_of(b"x", producer=ProducerFields(9, 0, 0))
    line.send(line.request((0, batch), topic="d", timeout_ms=0), NEWEST)
    node.pass_ms(1)
    node.broker.give_up_late()
    (frame,) = line.frames()
    assert line.read(frame, ProduceResponse, NEWEST)[1].responses[0].partition_responses[0].error_code == 7
    line.send(line.request((0, batch), topic="d"), NEWEST)
    node.sync()
    (frame,) = line.frames()
    result = line.read(frame, ProduceResponse, NEWEST)[1].responses[0].partition_responses[0]
    assert (result.error_code, result.base_offset) == (0, 0)
