"""What the batches of one Produce request may cost together: the bytes that they unpack to, and the messages
that are converted. What is too much for a request alone is too large (10); what comes behind others is to be
sent again (7)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import TRANSCODED_RECORDS
from tank_protos.generated.kafka import ProduceResponse
from tank_protos.kafka import message_set, record_batch
from tank_protos.kafka.codecs import KafkaCodec, pack
from tank_protos.kafka.limits import MAX_SET_BYTES, MAX_SET_MESSAGES, MIB
from tank_protos.kafka.message_set import OldMessage
from tank_protos.kafka.record_batch import NO_PRODUCER, RecordBatchHeader
from tests.support.clients.kafka_producer import NEWEST, Producer, batch_of, set_of
from tests.support.nodes.bench_node import BenchNode
from tests.support.values.old_messages import wrapped

TOO_LARGE, AGAIN, WRONG = 10, 7, 87
LENIENT, COMPACTED = "lenient", "compacted"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("k", 9, flush="replicated", log_format="kafka")
        node.controller.add(
            COMPACTED, 12, flush="replicated", log_format="kafka", log_cleanup_policy="cleanup"
        )
        node.controller.add("t", 3, flush="replicated")
        node.controller.add(LENIENT, 3, flush="replicated", transcode="lenient")
        yield node


def errors(line: Producer, topic: str, *batches: bytes) -> list[int]:
    """Sends one request with a batch for each partition from 0 on; returns their errors."""
    request = line.request(*enumerate(batches), topic=topic)
    (answered,) = line.ask(request, ProduceResponse, line.version).responses
    return [result.error_code for result in answered.partition_responses]


def old_set(count: int, value: bytes = b"") -> bytes:
    """A compressed set of magic 1 with this many messages."""
    messages = [OldMessage(at, 1000, None, value) for at in range(count)]
    return wrapped(message_set.encode(messages, 1), 1, KafkaCodec.GZIP, count - 1)


def zeros(size: int) -> bytes:
    """A compressed batch of a few KiB that unpacks to this many bytes: its record has a key, and a header
    that bundles can't hold."""
    return batch_of(b"", keys=(b"k",), headers=((b"h", bytes(size)),), codec=KafkaCodec.GZIP)


def of_many_records(count: int) -> bytes:
    """A compressed batch of records without content."""
    payload = b"".join(
        b"".join((bytes([2 * (5 + len(delta))]), b"\0\0", delta, b"\1\0\0"))
        for delta in map(zigzag, range(count))
    )
    header = RecordBatchHeader(0, 0, -1, 2, 0, KafkaCodec.GZIP, count - 1, 1000, 1000, *NO_PRODUCER, count)
    return record_batch.seal(header, pack(KafkaCodec.GZIP, payload))


def zigzag(number: int) -> bytes:
    rest, made = 2 * number, bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)
    return bytes(made)


@pytest.mark.parametrize("topic", ["k", "t"])
def test_a_set_has_a_bounded_number_of_messages(node: BenchNode, topic: str) -> None:
    line = Producer(node, 2)
    assert errors(line, topic, old_set(MAX_SET_MESSAGES + 1)) == [TOO_LARGE]
    assert errors(line, topic, old_set(MAX_SET_MESSAGES)) == [0]


def test_all_sets_of_a_request_share_the_number_of_messages(node: BenchNode) -> None:
    line = Producer(node, 2)
    most = old_set(MAX_SET_MESSAGES - 1)
    assert errors(line, "k", most, set_of(b"x", magic=1), set_of(b"y", magic=1)) == [0, 0, AGAIN]
    assert node.metrics.refused["request_is_full"] == 1
    assert errors(line, "k", set_of(b"y", magic=1)) == [0]


def test_all_sets_of_a_request_share_the_bytes_that_they_unpack_to(node: BenchNode) -> None:
    line = Producer(node, 2)
    assert errors(line, "k", old_set(1, bytes(MAX_SET_BYTES))) == [TOO_LARGE]
    half = old_set(1, bytes(MAX_SET_BYTES // 2))
    assert errors(line, "k", half, half, old_set(1)) == [0, AGAIN, AGAIN]
    assert errors(line, "k", half) == [0]


def test_what_a_client_of_that_age_packs_by_its_defaults_is_taken(node: BenchNode) -> None:
    smallest = 1_000_000 // len(set_of(b"", magic=0))
    line = Producer(node, 0)
    assert errors(line, "k", set_of(*[b""] * smallest), set_of(*[b"x" * 100] * 7_900)) == [0, 0]


@pytest.mark.parametrize("topic", [COMPACTED, LENIENT])
def test_all_batches_of_a_request_share_the_bytes_that_they_unpack_to(node: BenchNode, topic: str) -> None:
    line = Producer(node)
    assert errors(line, topic, zeros(65 * MIB)) == [TOO_LARGE]
    assert errors(line, topic, zeros(30 * MIB), zeros(30 * MIB), zeros(30 * MIB)) == [0, 0, AGAIN]
    assert errors(line, topic, zeros(60 * MIB)) == [0]
    assert errors(line, topic, zeros(60 * MIB)) == [0]


def test_batches_that_are_not_unpacked_take_no_room(node: BenchNode) -> None:
    assert errors(Producer(node), "k", *[zeros(30 * MIB)] * 4) == [0] * 4


def test_unpacking_in_vain_takes_room_too(node: BenchNode) -> None:
    header = RecordBatchHeader(0, 0, -1, 2, 0, KafkaCodec.GZIP, 0, 1000, 1000, *NO_PRODUCER, 1)
    broken = record_batch.seal(header, pack(KafkaCodec.GZIP, bytes(1000))[:-4])
    good = batch_of(b"v", keys=(b"k",), codec=KafkaCodec.GZIP)
    line = Producer(node)
    assert errors(line, COMPACTED, *[broken] * 7, good, broken, good) == [WRONG] * 7 + [0, WRONG, AGAIN]


def test_records_that_become_bundles_are_bounded(node: BenchNode) -> None:
    line = Producer(node)
    most, over = of_many_records(TRANSCODED_RECORDS), of_many_records(TRANSCODED_RECORDS + 1)
    assert errors(line, "t", over) == [TOO_LARGE]
    assert errors(line, "t", most, batch_of(b"x")) == [0, AGAIN]
    assert errors(line, "k", over) == [0]


@pytest.mark.parametrize("version", [0, 2])
def test_an_empty_set_stores_nothing_and_is_no_error(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    result = line.produce(b"", topic="k")
    assert (result.error_code, result.base_offset, result.log_append_time_ms) == (0, -1, -1)
    assert line.produce(set_of(b"x", magic=version // 2), topic="k").base_offset == 0
    assert line.produce(b"", topic="k", number=99).error_code == 3
    assert line.produce(None, topic="k").error_code == WRONG


@pytest.mark.parametrize("version", range(3, NEWEST + 1))
def test_no_records_are_refused_where_one_batch_is_due(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    assert errors(line, "k", b"", b"") == [WRONG, WRONG]
