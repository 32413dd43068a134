"""A Fetch of a topic that stores Kafka's batches: they come as they lie in the log, without being read."""

from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from

import pytest

from tank_node.segment.segment import FileRange
from tank_protos.generated.kafka import FetchResponse
from tank_protos.generated.kafka.fetch_response import PartitionData
from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec, pack
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.limits import MIB
from tank_protos.kafka.record_batch import RecordBatchHeader
from tests.support.clients.kafka_fetcher import NEWEST, Fetcher, values, want
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import Told
from tests.support.values.kafka_records import STAMP_MS, values_batch

EVERY = range(NEWEST + 1)
OLD, NEW = range(4), range(4, NEWEST + 1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3, flush="replicated", log_format="kafka")
        yield node


def put(node: BenchNode, batch: bytes, number: int = 0) -> None:
    node.broker.begin_tick()
    node.broker.topics["a"].partitions[number].append(memoryview(bytearray(batch)), Told(), 0)
    node.tick()


def headers(partition: PartitionData) -> list[RecordBatchHeader]:
    assert partition.records is not None
    return [record_batch.verify(batch) for batch in record_batch.batches(partition.records)]


def pins(node: BenchNode) -> int:
    logs = [partition.log for partition in node.broker.topics["a"].partitions.values()]
    return sum(file.pins for log in logs for segment in log.segments for file in segment.files())


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize("codec", list(KafkaCodec))
def test_batches_come_as_their_producer_sent_them(node: BenchNode, version: int, codec: KafkaCodec) -> None:
    batches = [values_batch(b"one", None, b"", codec=codec), values_batch(b"four", codec=codec)]
    for batch in batches:
        put(node, batch)
    partition = Fetcher(node, version).fetch(1)
    assert partition.records is not None
    found = [bytes(batch) for batch in record_batch.batches(partition.records)]
    assert [batch[16:] for batch in found] == [batch[16:] for batch in batches]
    assert [(head.base_offset, head.leader_epoch) for head in headers(partition)] == [(0, 1), (3, 1)]


@pytest.mark.parametrize("version", NEW)
def test_batches_are_sent_from_their_file(node: BenchNode, version: int) -> None:
    for number in range(3):
        put(node, values_batch(b"x" * 5000), number)
    line = Fetcher(node, version)
    line.send(line.request(line.topic("a", *(want(0, number) for number in range(3)))), version)
    outputs = line.session.out
    assert sum(isinstance(output, FileRange) for output in outputs) == 3
    assert sum(len(output) for output in outputs if not isinstance(output, FileRange)) < 400
    assert line.session.has_chunks
    response = line.answered()
    assert response is not None
    assert [values(line.records(each)) for each in response.responses[0].partitions] == [[b"x" * 5000]] * 3
    assert pins(node) == 0


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("codec", [KafkaCodec.NONE, KafkaCodec.GZIP, KafkaCodec.SNAPPY, KafkaCodec.LZ4])
def test_old_clients_get_message_sets(node: BenchNode, version: int, codec: KafkaCodec) -> None:
    put(node, values_batch(b"one", None, b"three", codec=codec))
    put(node, values_batch(b"four", codec=codec))
    line = Fetcher(node, version)
    found = line.records(line.fetch(1))
    stamps = [STAMP_MS + 1, STAMP_MS + 2, STAMP_MS] if version >= 2 else [-1] * 3
    assert [tuple(record) for record in found] == [
        (offset, stamp, key, value)
        for offset, stamp, key, value in zip(
            (1, 2, 3), stamps, (b"k1", b"k2", b"k0"), (None, b"three", b"four"), strict=True
        )
    ]
    assert node.metrics.converted["message_set"] == 1


@pytest.mark.parametrize("version", OLD)
def test_old_clients_get_an_error_for_zstd_and_what_is_before_it(node: BenchNode, version: int) -> None:
    put(node, values_batch(b"one"))
    put(node, values_batch(b"two", codec=KafkaCodec.ZSTD))
    line = Fetcher(node, version)
    partition = line.fetch(0)
    assert (partition.error_code, values(line.records(partition))) == (0, [b"one"])
    assert line.fetch(1).error_code == 76


@pytest.mark.parametrize("version", [4, 9, 10, NEWEST])
def test_newer_clients_get_zstd_as_it_is(node: BenchNode, version: int) -> None:
    put(node, values_batch(b"two", codec=KafkaCodec.ZSTD))
    line = Fetcher(node, version)
    partition = line.fetch(0)
    assert (partition.error_code, values(line.records(partition))) == (0, [b"two"])


def test_control_batches_and_their_offsets_stay(node: BenchNode) -> None:
    put(node, values_batch(b"one"))
    put(node, control_batch.encode(TransactionEnd(ControlType.COMMIT, 7, 0, 1), STAMP_MS))
    line = Fetcher(node)
    found = headers(line.fetch(0))
    assert [(head.base_offset, bool(head.attributes & record_batch.CONTROL)) for head in found] == [
        (0, False),
        (1, True),
    ]


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_old_clients_get_past_control_batches(node: BenchNode, version: int, limit: int) -> None:
    marker = control_batch.encode(TransactionEnd(ControlType.ABORT, 7, 0, 1), STAMP_MS)
    for batch in (values_batch(b"one"), marker, marker, values_batch(b"two")):
        put(node, batch)
    line = Fetcher(node, version)
    response = line.asks(line.request(line.topic("a", want(1, max_bytes=limit))))
    (partition,) = response.responses[0].partitions
    assert values(line.records(partition)) == [b"two"]


@pytest.mark.parametrize("version", [3, 4, NEWEST])
def test_the_first_batch_may_exceed_the_limit_and_no_later_one(node: BenchNode, version: int) -> None:
    for number in range(3):
        for _ in range(2):
            put(node, values_batch(b"x" * 1000), number)
    line = Fetcher(node, version)
    topic = line.topic("a", *(want(0, number) for number in range(3)))
    for most, counts in [(0, [1, 0, 0]), (1, [1, 0, 0]), (2500, [2, 0, 0]), (3500, [2, 1, 0])]:
        (answer,) = line.asks(line.request(topic, max_bytes=most)).responses
        assert [len(line.records(each)) for each in answer.partitions] == counts
    assert pins(node) == 0


def test_stored_batches_have_no_bound_of_converted_ones(node: BenchNode) -> None:
    node.metrics.held_bytes = node.broker.limits.memory_bytes
    for _ in range(4):
        put(node, values_batch(b"x" * 100_000))
    line = Fetcher(node)
    assert len(line.records(line.fetch(0))) == 4


def test_an_append_wakes_a_waiting_fetch(node: BenchNode) -> None:
    line = Fetcher(node)
    line.send(line.request(line.topic("a", want(0), want(0, 1)), wait_ms=1000), NEWEST)
    assert line.answered() is None
    put(node, values_batch(b"one"), 1)
    response = line.answered()
    assert response is not None
    assert [values(line.records(each)) for each in response.responses[0].partitions] == [[], [b"one"]]


def test_a_client_that_is_gone_pins_no_file(node: BenchNode) -> None:
    put(node, values_batch(b"one"))
    line = Fetcher(node)
    line.send(line.request(line.topic("a", want(0), want(5, 1)), session=(0, 0)), NEWEST)
    line.taken()
    line.send(line.request(line.topic("a", want(0)), wait_ms=1000, min_bytes=10_000), NEWEST)
    line.session.close()
    assert pins(node) == 0


def test_the_size_of_an_answer_counts_its_ranges(node: BenchNode) -> None:
    put(node, values_batch(b"x" * 300))
    for version in EVERY:
        line = Fetcher(node, version)
        line.send(line.request(line.topic("a", want(0))), version)
        answer = line.taken()
        assert unpack_from(">i", answer)[0] == len(answer) - 4


def test_a_session_sends_a_partition_once(node: BenchNode) -> None:
    put(node, values_batch(b"one"))
    line = Fetcher(node)
    response: FetchResponse = line.asks(line.request(line.topic("a", want(0)), session=(0, 0)))
    again = line.asks(line.request(line.topic("a", want(1)), session=(response.session_id, 1)))
    assert (again.error_code, again.responses) == (0, [])


@pytest.mark.parametrize("version", [2, 3])
def test_conversions_in_vain_are_bounded_too(node: BenchNode, version: int) -> None:
    """A partition may be named many times, with a limit that its first message exceeds."""
    put(node, values_batch(bytes(3 * MIB), codec=KafkaCodec.GZIP))
    line = Fetcher(node, version)
    wanted = [want(0), *[want(0, max_bytes=1)] * 100]
    (topic,) = line.asks(line.request(line.topic("a", *wanted), max_bytes=100 * MIB)).responses
    assert len(topic.partitions) == 101
    assert values(line.records(topic.partitions[0])) == [bytes(3 * MIB)]
    assert node.metrics.converted["message_set"] <= 64 // 3 + 1


def test_batches_that_cannot_be_converted_are_bounded_too(node: BenchNode) -> None:
    header = record_batch.verify(memoryview(values_batch(b"x", codec=KafkaCodec.GZIP)))
    put(node, record_batch.seal(header, pack(KafkaCodec.GZIP, bytes(1000))))
    line = Fetcher(node, 3)
    (topic,) = line.asks(line.request(line.topic("a", *[want(0)] * 20))).responses
    assert [partition.error_code for partition in topic.partitions] == [2] * 8 + [0] * 12
