"""Polls of batches that can't be read, and of batches that unpack to much."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import KIB, Limits
from tank_node.stored.results import Appended
from tank_node.stored.stored_partitions import stored_partitions
from tank_protos.generated.iggy import (
    CreateStreamRequest,
    CreateTopicRequest,
    IggyConsumer,
    PollMessagesRequest,
)
from tank_protos.iggy.eras import B3, V11, Era
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.iggy.kinds import PollingKind
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord
from tests.support.iggy.iggy_line import IggyLine, logged_in
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.iggy_polls import read_poll

BOTH = pytest.mark.parametrize("era", [B3, V11], ids=["B3", "V11"])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data", Limits(iggy_poll_bytes=100 * KIB)) as node:
        yield node


def made(node: IggyNode, era: Era) -> IggyLine:
    line = logged_in(node, era)
    line.tell(CreateStreamRequest(name="main"))
    line.tell(CreateTopicRequest(stream=of_name("main"), partitions_count=1, name="orders"))
    return line


def batch_of(value: bytes, codec: KafkaCodec = KafkaCodec.NONE) -> bytes:
    return record_batch.encode([KafkaRecord(None, value, 0, 0)], base_timestamp_ms=1, codec=codec)


def garbage() -> bytes:
    """A batch whose checksum holds, of records that can't be unpacked."""
    header = record_batch.read_header(memoryview(batch_of(b"x", KafkaCodec.GZIP)))
    return record_batch.seal(header, b"no records of gzip")


def append(line: IggyLine, *batches: bytes) -> None:
    """As a producer of Kafka's does."""
    node, session = line.node, line.session
    topic = node.state.view.iggy.topic(0, 0)
    assert topic is not None
    told: list[Appended] = []
    node.broker.begin_tick()
    for batch in batches:
        stored_partitions(node.broker).append((topic.topic_id, 0), batch, session, told.append)
    node.settle()
    assert [each.outcome for each in told] == [0] * len(batches)


def poll(line: IggyLine, offset: int = 0, count: int = 10) -> list[int]:
    """The offsets of the messages."""
    request = PollMessagesRequest(
        consumer=IggyConsumer(1, 7, of_name("me")),
        stream=of_number(0, line.era),
        topic=of_name("orders"),
        has_partition=1,
        strategy=PollingKind.OFFSET,
        value=offset,
        count=count,
    )
    return [found for found, _ in read_poll(line.era, line.tell(request)).messages]


@BOTH
def test_a_batch_that_cannot_be_read_is_a_hole(node: IggyNode, era: Era) -> None:
    line = made(node, era)
    append(line, batch_of(b"a"), garbage(), batch_of(b"c"))
    assert poll(line) == [0]
    assert poll(line, 1) == [2]
    assert node.metrics.refused["iggy_unreadable_batch"] == 2
    assert not line.closed_for


def test_what_polls_unpack_is_bounded(node: IggyNode) -> None:
    line = made(node, B3)
    append(line, *[batch_of(bytes(90 * KIB), KafkaCodec.GZIP)] * 3)
    assert poll(line) == [0, 1]
    assert poll(line, 2) == [2]


def test_a_poll_waits_for_its_turn_to_unpack(node: IggyNode) -> None:
    line = made(node, B3)
    append(line, batch_of(b"a", KafkaCodec.GZIP))
    unpacking, others = node.broker.unpacking, object()
    node.broker.begin_tick()
    node.broker.tick.unpacked_bytes = node.broker.limits.tick_unpacked_bytes
    assert not unpacking.may_begin(others, lambda: unpacking.leave(others))
    assert poll(line) == [0]
    assert not len(unpacking)
