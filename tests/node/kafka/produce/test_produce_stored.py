"""Batches in topics with `log.format=kafka`: stored as they came, but for the broker's own fields."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.segment.record import FORMAT_KAFKA
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec, pack
from tank_protos.kafka.record_batch import ProducerFields
from tank_protos.kafka.records import KafkaRecord, encode
from tests.support.clients.kafka_producer import NEWEST, Producer, batch_of, records_for, set_of
from tests.support.nodes.bench_node import BenchNode

EVERY = range(NEWEST + 1)
_FIELDS_END = 16
"""The end of a batch's first fields: base offset, length and leader epoch."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("k", flush="replicated", log_format="kafka")
        yield node


def stored(node: BenchNode, topic: str = "k") -> bytes:
    """All stored batches, as a consumer would get them."""
    log = node.broker.topics[topic].partitions[0].log
    found = log.read(1, 1 << 20, log.written)
    if found is None:
        return b""
    data = log.disk.read_at(found.file.fd, found.length, found.position)
    found.file.release()
    return data


@pytest.mark.parametrize("codec", list(KafkaCodec))
def test_a_batch_is_stored_as_it_came_with_its_offset_and_the_leaders_epoch(
    node: BenchNode, codec: KafkaCodec
) -> None:
    line = Producer(node)
    header = ((b"name", None), (b"name", b""))
    sent = [
        batch_of(b"a", None, b"", keys=(b"k", None, b""), headers=header, codec=codec),
        batch_of(b"b", codec=codec),
    ]
    offsets = [line.produce(batch, topic="k").base_offset for batch in sent]
    assert offsets == [0, 3]
    found = list(record_batch.batches(stored(node)))
    assert [bytes(batch[_FIELDS_END:]) for batch in found] == [batch[_FIELDS_END:] for batch in sent]
    headers = [record_batch.verify(batch) for batch in found]
    assert [each.base_offset for each in headers] == offsets
    assert {each.leader_epoch for each in headers} == {1}
    log = node.broker.topics["k"].partitions[0].log
    assert log.segments.list[-1].index.record(0).format == FORMAT_KAFKA


@pytest.mark.parametrize("version", EVERY)
def test_every_version_writes_record_batches(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    assert line.produce(records_for(version, b"one", b"two"), topic="k").base_offset == 0
    assert line.produce(records_for(version, b"three"), topic="k").base_offset == 2
    batches = list(record_batch.batches(stored(node)))
    values = [
        value
        for batch in batches
        for value in record_batch.columns_of(batch, record_batch.verify(batch), 1 << 20).values
    ]
    assert values == [b"one", b"two", b"three"]


@pytest.mark.parametrize(("version", "timestamp_ms"), [(0, -1), (1, -1), (2, 1000)])
def test_messages_of_magic_0_have_no_time_and_null_values_stay_null(
    node: BenchNode, version: int, timestamp_ms: int
) -> None:
    magic = int(version == 2)
    sent = set_of(b"a", None, magic=magic, timestamp_ms=timestamp_ms)
    assert Producer(node, version).produce(sent, topic="k").error_code == 0
    (batch,) = record_batch.batches(stored(node))
    header = record_batch.verify(batch)
    assert header.max_timestamp_ms == timestamp_ms
    assert record_batch.columns_of(batch, header, 1 << 20).values == [b"a", None]


@pytest.mark.parametrize("version", [0, 2, 3, NEWEST])
def test_the_time_of_the_append_is_written_with_a_new_checksum(node: BenchNode, version: int) -> None:
    node.controller.add("t", flush="replicated", log_format="kafka", message_timestamp_type="LogAppendTime")
    result = Producer(node, version).produce(records_for(version, b"x"), topic="t")
    (batch,) = record_batch.batches(stored(node, "t"))
    header = record_batch.verify(batch)
    now_ms = node.broker.tick.now_ms
    assert (result.error_code, header.max_timestamp_ms) == (0, now_ms)
    assert header.attributes & record_batch.LOG_APPEND_TIME
    assert result.log_append_time_ms == (now_ms if version >= 2 else -1)


def test_a_repeat_has_no_time_of_its_append(node: BenchNode) -> None:
    node.controller.add("t", flush="replicated", log_format="kafka", message_timestamp_type="LogAppendTime")
    line = Producer(node)
    batch = batch_of(b"x", producer=ProducerFields(9, 0, 0))
    assert line.produce(batch, topic="t").log_append_time_ms == node.broker.tick.now_ms
    again = line.produce(batch, topic="t")
    assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, 0, -1)


def lying(codec: KafkaCodec = KafkaCodec.NONE) -> bytes:
    """A batch whose checksum is right, and whose second record's offset delta is not."""
    good = batch_of(b"a", b"b", codec=codec)
    payload = encode([KafkaRecord(None, b"a", 0, 0), KafkaRecord(None, b"b", 5, 0)])
    return record_batch.seal(record_batch.read_header(good), pack(codec, payload))


@pytest.mark.parametrize(
    ("validation", "plain", "compressed"), [("header", 0, 0), ("records", 87, 0), ("full", 87, 87)]
)
def test_records_are_looked_at_as_far_as_the_topic_says(
    node: BenchNode, validation: str, plain: int, compressed: int
) -> None:
    node.controller.add("v", flush="replicated", log_format="kafka", record_validation=validation)
    line = Producer(node)
    result = line.produce(lying(), topic="v")
    assert result.error_code == plain
    assert [each.batch_index for each in result.record_errors] == ([1] if plain else [])
    assert line.produce(lying(KafkaCodec.LZ4), topic="v").error_code == compressed


@pytest.mark.parametrize("codec", list(KafkaCodec))
@pytest.mark.parametrize("version", [1, NEWEST])
def test_a_compacted_topic_looks_for_keys_also_in_compressed_records(
    node: BenchNode, version: int, codec: KafkaCodec
) -> None:
    node.controller.add("c", flush="replicated", log_format="kafka", log_cleanup_policy="cleanup")
    line = Producer(node, version)
    if version < 3:
        assert line.produce(set_of(b"x"), topic="c").error_code == 87
        return
    batch = batch_of(b"x", b"y", keys=(b"k", None), codec=codec)
    result = line.produce(batch, topic="c")
    assert [each.batch_index for each in result.record_errors] == [1]
    assert stored(node, "c") == b""
    assert line.produce(batch_of(b"x", keys=(b"",), codec=codec), topic="c").error_code == 0


def test_a_run_of_requests_in_one_receive_patches_each_batch(node: BenchNode) -> None:
    line = Producer(node)
    frames = [line.frame(line.request((0, batch_of(b"%d" % i)), topic="k"), NEWEST) for i in range(20)]
    line.feed(b"".join(frames))
    assert line.correlation_ids() == list(range(1, 21))
    headers = [record_batch.verify(batch) for batch in record_batch.batches(stored(node))]
    assert [header.base_offset for header in headers] == list(range(20))
