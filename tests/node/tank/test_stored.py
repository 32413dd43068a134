"""Messages 86 to 89: for brokers alone, and well-formed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.broker.forwarding import FORWARDED_VERSION
from tank_node.limits import SIZED_PARTITIONS
from tank_node.tank.redirect import NotForwarded
from tank_protos.generated.tank import (
    AppendStoredRequest,
    FetchStoredRequest,
    PartitionControlRequest,
    PartitionSizesRequest,
    SizedPartition,
)
from tank_protos.wire.errors import OutOfRange, WireError
from tank_protos.wire.message import Message
from tests.support.nodes.bench_node import BenchClient, BenchNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", flush="replicated")
        yield node


@pytest.fixture
def forwarder(node: BenchNode) -> BenchClient:
    """Another broker, on its connection for forwarded requests."""
    client = node.client()
    client.session.forwards()
    return client


EACH = pytest.mark.parametrize(
    "request_",
    [
        FetchStoredRequest(topic_id=1, strategy=3, count=1),
        AppendStoredRequest(topic_id=1, batch=b"x"),
        PartitionControlRequest(topic_id=1, action=1),
        PartitionSizesRequest(partitions=[SizedPartition(1, 0)]),
    ],
    ids=lambda message: type(message).__name__,
)


@EACH
def test_a_client_may_not_send_them(node: BenchNode, request_: Message) -> None:
    with pytest.raises(WireError, match="brokers alone"):
        node.client().send(request_)


@EACH
def test_another_broker_may_not_send_them_without_the_mark(forwarder: BenchClient, request_: Message) -> None:
    setattr(request_, "client_version", 3)  # noqa: B010 (each message has it, and their base has not)
    try:
        with pytest.raises(NotForwarded):
            forwarder.send(request_)
    finally:
        setattr(request_, "client_version", FORWARDED_VERSION)  # noqa: B010


@pytest.mark.parametrize(
    "request_",
    [
        FetchStoredRequest(topic_id=1, strategy=0),
        FetchStoredRequest(topic_id=1, strategy=5),
        PartitionControlRequest(topic_id=1, action=0),
        PartitionControlRequest(topic_id=1, action=4),
        PartitionSizesRequest(partitions=[SizedPartition(1, 0)] * (SIZED_PARTITIONS + 1)),
    ],
    ids=str,
)
def test_a_request_out_of_range_is_refused(forwarder: BenchClient, request_: Message) -> None:
    with pytest.raises(OutOfRange):
        forwarder.send(request_)
    assert not forwarder.answers()
    assert forwarder.session.in_flight == 0


def test_each_is_answered_once_with_its_id_and_is_under_way_no_more(
    node: BenchNode, forwarder: BenchClient
) -> None:
    requests: tuple[Message, ...] = (
        FetchStoredRequest(request_id=5, topic_id=99, strategy=3, count=1, wait_ms=5_000),
        AppendStoredRequest(request_id=5, topic_id=99, batch=b"x"),
        PartitionControlRequest(request_id=5, topic_id=99, action=1),
        PartitionControlRequest(request_id=5, topic_id=99, action=2),
        PartitionControlRequest(request_id=5, topic_id=99, action=3, segments=1),
    )
    for message in requests:
        forwarder.send(message)
        ((message_id, payload),) = forwarder.answers()
        assert message_id == message.ID
        assert bytes(payload[:5]) == b"\5\0\0\0\xff", "the topic is unknown"
        assert forwarder.session.in_flight == 0


def test_a_read_that_waits_is_under_way_until_it_is_answered(node: BenchNode, forwarder: BenchClient) -> None:
    topic = node.controller.view.topic("a")
    assert topic is not None
    forwarder.send(FetchStoredRequest(0x101, 3, topic.topic_id, 0, 3, 0, 1, 0, 2_000))
    assert (forwarder.answers(), forwarder.session.in_flight) == ([], 1)
    node.pass_ms(2_100)
    node.tick()
    assert [message_id for message_id, _ in forwarder.answers()] == [86]
    assert forwarder.session.in_flight == 0
    assert node.metrics.requests[86, "ok"] == 1


def test_the_other_brokers_end_ends_its_waits(node: BenchNode, forwarder: BenchClient) -> None:
    topic = node.controller.view.topic("a")
    assert topic is not None
    forwarder.send(FetchStoredRequest(0x101, 3, topic.topic_id, 0, 3, 0, 1, 0, 2_000))
    forwarder.session.close()
    node.pass_ms(2_100)
    assert node.broker.deadlines.entries == 0
    assert not forwarder.answers()
