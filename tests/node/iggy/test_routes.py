"""Routes of clustered clients: to this broker, for those who may read there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.iggy import (
    AttachConsumerSessionRequest,
    ConsumerRoute,
    CreateStreamRequest,
    CreateTopicRequest,
    GetConsumerOffsetRequest,
    IggyConsumer,
    PollMessagesRequest,
)
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import B3, V11
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import PartitioningKind
from tank_protos.iggy.partitioning import Partitioning
from tests.support.iggy.iggy_line import IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.iggy_polls import read_poll
from tests.support.iggy.iggy_sends import send_payload

ME = IggyConsumer(kind=1, id=of_name("me"))
MAIN, ORDERS = of_name("main"), of_name("orders")


@pytest.fixture
def line(tmp_path: Path) -> Iterator[IggyLine]:
    with IggyNode(tmp_path / "data") as node:
        line = logged_in(node, V11)
        line.tell(CreateStreamRequest(name="main"))
        line.tell(CreateTopicRequest(stream=MAIN, partitions_count=1, name="orders"))
        yield line


def poll(partition: int = 0) -> PollMessagesRequest:
    return PollMessagesRequest(
        consumer=ME, stream=MAIN, topic=ORDERS, has_partition=1, partition=partition, strategy=1, count=10
    )


def test_a_poll_and_an_offset_are_for_this_broker_and_this_session(line: IggyLine) -> None:
    question = GetConsumerOffsetRequest(consumer=ME, stream=MAIN, topic=ORDERS, has_partition=1)
    by_poll = line.ask(poll(), ConsumerRoute, IggyCode.GET_POLL_ROUTE)
    by_offset = line.ask(question, ConsumerRoute, IggyCode.GET_OFFSET_ROUTE)
    assert by_poll == by_offset
    assert (by_poll.node.ip, by_poll.node.role, by_poll.node.status) == ("127.0.0.1", 0, 0)
    assert by_poll.session == line.session_number > 0
    assert by_poll.client == int(line.session.serial).to_bytes(16, "little")


def test_a_second_connection_attaches_and_polls_where_it_was_sent(line: IggyLine) -> None:
    chosen = Partitioning(PartitioningKind.PARTITION, 0)
    line.raw(IggyCode.SEND_MESSAGES, send_payload(V11, MAIN, ORDERS, chosen, [b"a"]))
    route = line.ask(poll(), ConsumerRoute, IggyCode.GET_POLL_ROUTE)
    second = logged_in(line.node, V11)
    attach = AttachConsumerSessionRequest(route.client, route.session, route.watermark)
    assert second.tell(attach) == b""
    found = read_poll(V11, second.tell(poll(), IggyCode.POLL_ON_PRIMARY))
    assert found.messages == [(0, b"a")]


def test_there_is_no_route_to_what_is_not_there(line: IggyLine) -> None:
    assert line.refused(poll(1), IggyCode.GET_POLL_ROUTE) == 3007
    unknown = GetConsumerOffsetRequest(consumer=ME, stream=MAIN, topic=of_name("none"), has_partition=1)
    assert line.refused(unknown, IggyCode.GET_OFFSET_ROUTE) == 2011


def test_routes_are_for_clients_that_are_logged_in(line: IggyLine) -> None:
    line.raw(IggyCode.LOGOUT_USER)
    for code in (IggyCode.GET_POLL_ROUTE, IggyCode.GET_OFFSET_ROUTE, IggyCode.ATTACH_CONSUMER_SESSION):
        with pytest.raises(IggyStatus, match="40"):
            line.raw(code)


def test_classic_clients_have_no_routes(line: IggyLine) -> None:
    classic = logged_in(line.node, B3)
    with pytest.raises(IggyStatus, match="3"):
        classic.raw(IggyCode.GET_POLL_ROUTE)
