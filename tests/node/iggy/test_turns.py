"""When a session takes requests, and before a login."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import Limits
from tank_protos.generated.iggy import (
    ClientDetails,
    CreateConsumerGroupRequest,
    CreateStreamRequest,
    CreateTopicRequest,
    GetClientsResponse,
    GetConsumerOffsetRequest,
    GetConsumerOffsetResponse,
    GetMeRequest,
    GetStreamsRequest,
    GetStreamsResponse,
    IggyConsumer,
    JoinConsumerGroupRequest,
    LoginSessionRequest,
    LoginUserRequest,
    PollMessagesRequest,
)
from tank_protos.iggy import classic, vsr
from tank_protos.iggy.commands import IggyCode, VsrOperation
from tank_protos.iggy.eras import A1, B1, B3, SEED, V11, Era
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.iggy.kinds import PollingKind
from tests.support.iggy.iggy_line import IggyLine, logged_in
from tests.support.iggy.iggy_node import IggyNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data", Limits(iggy_request_bytes=4096)) as node:
        yield node


def test_changes_of_a_second_login_are_made(node: IggyNode) -> None:
    line = logged_in(node, V11)
    line.tell(CreateStreamRequest(name="main"))
    line.raw(IggyCode.LOGOUT_USER)
    line.begin_anew()
    line.login()
    line.tell(CreateStreamRequest(name="other"))
    assert len(line.ask(GetStreamsRequest(), GetStreamsResponse).streams) == 2


def test_a_change_that_was_refused_before_the_login_is_made_after_it(node: IggyNode) -> None:
    line = IggyLine(node, V11)
    assert line.refused(CreateStreamRequest(name="main")) == 40
    line.begin_anew()
    line.login()
    line.tell(CreateStreamRequest(name="main"))


def test_a_login_is_no_read(node: IggyNode) -> None:
    line = IggyLine(node, V11)
    login = LoginSessionRequest(vsr.packed_protocol(0, 12, 0), "test", "0.9.0", "iggy", "iggy", "")
    body = b"".join(login.encode(V11.version))
    line.feed(vsr.request(b"c" * 16, VsrOperation.READ, body, code=IggyCode.LOGIN_SESSION))
    assert line.answers() == [3]
    assert line.session.principal is None


def test_a_large_frame_waits_until_the_session_may_go_on(node: IggyNode) -> None:
    session = logged_in(node, B3).session
    head = memoryview(classic.request(IggyCode.SEND_MESSAGES, [bytes(8)]))
    session.hold_back()
    assert not session.may_take(head)
    session.go_on()
    assert not session.is_full
    assert session.may_take(head)


def test_a_session_that_leaves_does_not_go_on(node: IggyNode) -> None:
    session = logged_in(node, B3).session
    session.leave("test")
    session.hold_back()
    session.go_on()
    assert session.is_full


def test_little_is_kept_of_what_a_client_says_of_itself(node: IggyNode) -> None:
    line = IggyLine(node, B3)
    line.tell(LoginUserRequest("iggy", "iggy", "9" * 3000, ""))
    assert line.session.software == "9" * 64


def test_a_request_that_is_too_long_shows_no_era(node: IggyNode) -> None:
    line = IggyLine(node, B3)
    assert line.refused(LoginUserRequest("iggy", "iggy", "9" * 5000, "")) == 3
    assert line.session.era is None
    assert line.login() == 0


@pytest.mark.parametrize("era", [A1, B1, V11], ids=lambda era: era.name)
def test_an_anonymous_client_is_listed_as_nobody(node: IggyNode, era: Era) -> None:
    seed = IggyLine(node, SEED)
    seed.ask(GetMeRequest(), ClientDetails)
    line = logged_in(node, era)
    found = GetClientsResponse.decode(line.raw(IggyCode.GET_CLIENTS), era.version)
    assert found.clients[0].user_id == (0 if era is A1 else 2**32 - 1)


@pytest.mark.parametrize("name", ["\udcff", "a\udc80b"])
def test_a_name_that_is_no_text_is_refused(node: IggyNode, name: str) -> None:
    line = logged_in(node, B3)
    assert line.refused(CreateStreamRequest(name=name)) == 1013
    line.tell(CreateStreamRequest(name="main"))
    stream = of_name("main")
    assert line.refused(CreateTopicRequest(stream=stream, partitions_count=1, name=name)) == 2014
    line.tell(CreateTopicRequest(stream=stream, partitions_count=1, name="orders"))
    group = CreateConsumerGroupRequest(stream=stream, topic=of_name("orders"), name=name)
    assert line.refused(group) == 5005


def test_a_member_that_names_a_partition_means_it(node: IggyNode) -> None:
    line = logged_in(node, A1)
    line.tell(CreateStreamRequest(stream_id=1, name="main"))
    stream, topic, group = of_number(0, A1), of_name("orders"), of_number(0, A1)
    line.tell(CreateTopicRequest(stream=stream, topic_id=1, partitions_count=2, name="orders"))
    line.tell(CreateConsumerGroupRequest(stream=stream, topic=topic, group_id=1, name="readers"))
    line.tell(JoinConsumerGroupRequest(stream=stream, topic=topic, number=1, group=group))
    consumer = IggyConsumer(2, 1, group)
    kind = PollingKind.NEXT
    line.tell(
        PollMessagesRequest(consumer=consumer, stream=stream, topic=topic, strategy=kind, count=1)
    )  # of partition 1
    for partition in (2, 1):
        asked = GetConsumerOffsetRequest(consumer=consumer, stream=stream, topic=topic, partition=partition)
        assert line.ask(asked, GetConsumerOffsetResponse).partition == partition
