"""Clients that have to ping, where the operator wants it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.iggy.settings import IggySettings
from tank_protos.generated.iggy import (
    CreateStreamRequest,
    CreateTopicRequest,
    IggyConsumer,
    PollMessagesRequest,
)
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import A3, B1, B3, V11, Era
from tank_protos.iggy.identifiers import of_name
from tests.support.iggy.iggy_line import IggyLine, logged_in
from tests.support.iggy.iggy_node import IggyNode

PINGING = pytest.mark.parametrize("era", [B1, B3, V11], ids=lambda era: str(era.name))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data") as node:
        yield node


def demanding(node: IggyNode, era: Era, poll_wait_ms: int = 0) -> IggyLine:
    settings = IggySettings(heartbeat=True, poll_wait_ms=poll_wait_ms)
    return logged_in(node, era, node.services(settings))


@PINGING
def test_a_client_that_does_not_ping_is_hung_up_on_after_eighteen_seconds(node: IggyNode, era: Era) -> None:
    line = demanding(node, era)
    node.pass_ms(17_999)
    line.raw(IggyCode.GET_STREAMS)  # no ping
    assert line.closed_for == ""
    node.pass_ms(10)
    assert line.closed_for == "no_heartbeat"


@PINGING
def test_a_client_that_pings_stays(node: IggyNode, era: Era) -> None:
    line = demanding(node, era)
    for _ in range(10):
        node.pass_ms(17_000)
        line.raw(IggyCode.PING)
    assert line.closed_for == ""
    node.pass_ms(18_010)
    assert line.closed_for == "no_heartbeat"


def test_a_second_login_is_no_second_watch(node: IggyNode) -> None:
    line = demanding(node, B3)
    node.pass_ms(10_000)
    line.raw(IggyCode.PING)
    line.login()
    node.pass_ms(10_000)
    assert line.closed_for == ""
    line.close()
    node.pass_ms(20_000)
    assert node.broker.deadlines.waits == 0


def test_clients_that_know_no_pings_stay(node: IggyNode) -> None:
    line = demanding(node, A3)
    node.pass_ms(600_000)
    assert line.closed_for == ""


def test_clients_need_not_ping_unless_the_operator_wants_it(node: IggyNode) -> None:
    line = logged_in(node, B3)
    node.pass_ms(600_000)
    assert line.closed_for == ""


def test_a_client_whose_poll_waits_gets_its_time_anew(node: IggyNode) -> None:
    line = demanding(node, B3, poll_wait_ms=20_000)
    line.tell(CreateStreamRequest(name="main"))
    line.tell(CreateTopicRequest(stream=of_name("main"), partitions_count=1, name="orders"))
    me = IggyConsumer(kind=1, id=of_name("me"))
    poll = PollMessagesRequest(
        consumer=me, stream=of_name("main"), topic=of_name("orders"), has_partition=1, strategy=1, count=1
    )
    line.send(poll.ID, b"".join(poll.encode(B3.version)))
    node.pass_ms(19_000)
    assert line.answers() == []
    node.pass_ms(2_000)
    assert len(line.answers()) == 1
    node.pass_ms(15_000)
    assert line.closed_for == ""
    node.pass_ms(3_000)
    assert line.closed_for == "no_heartbeat"


def test_a_broker_that_stops_leaves_no_watch_behind(node: IggyNode) -> None:
    before = node.broker.deadlines.waits
    demanding(node, B3)
    assert node.broker.deadlines.waits == before + 1
    node.broker.deadlines.end_waits()
    assert node.broker.deadlines.waits == 0
