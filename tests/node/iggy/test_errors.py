"""What Iggy's clients are told when a request can't be carried out, by era."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.iggy.settings import IggySettings
from tank_node.users.limits import ROOT_WAIT_MS
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.iggy import (
    AddPartitionsRequest,
    CreateConsumerGroupRequest,
    CreateStreamRequest,
    CreateTopicRequest,
    DeleteStreamRequest,
    DeleteTopicRequest,
    DescribeOptionsRequest,
    DescribeOptionsResponse,
    GetStreamRequest,
    GetTopicRequest,
    IggyConsumer,
    LoginUserRequest,
    LoginUserResponse,
    PollMessagesRequest,
    RemovePartitionsRequest,
)
from tank_protos.iggy import options, vsr
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import A1, B3, SEED, V11, Era
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.iggy.kinds import PartitioningKind, PollingKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.topic_settings import LogFormat
from tank_protos.wire.errors import WireError
from tests.support.iggy.iggy_line import IggyEvicted, IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.iggy_sends import send_payload

MAIN, ORDERS = of_name("main"), of_name("orders")
BOTH = pytest.mark.parametrize("era", [B3, V11], ids=["B3", "V11"])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data") as node:
        yield node


def made(line: IggyLine, partitions: int = 1) -> IggyLine:
    line.tell(CreateStreamRequest(name="main"))
    line.tell(CreateTopicRequest(stream=MAIN, partitions_count=partitions, name="orders"))
    return line


def sent(line: IggyLine, payload: bytes = b"a", partition: int = 0) -> int:
    chosen = Partitioning(PartitioningKind.PARTITION, partition)
    try:
        line.raw(IggyCode.SEND_MESSAGES, send_payload(line.era, MAIN, ORDERS, chosen, [payload]))
    except IggyStatus as status:
        return status.code
    return 0


def poll_of(**fields: object) -> PollMessagesRequest:
    request = PollMessagesRequest(
        consumer=IggyConsumer(1, 0, of_name("me")),
        stream=MAIN,
        topic=ORDERS,
        has_partition=1,
        strategy=PollingKind.FIRST,
        count=10,
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


@BOTH
def test_what_is_not_there_has_errors_of_its_own(node: IggyNode, era: Era) -> None:
    line = made(logged_in(node, era))
    assert line.refused(DeleteStreamRequest(of_number(9, era))) == 1009
    assert line.refused(DeleteStreamRequest(of_name("nowhere"))) == 1010
    assert line.refused(DeleteTopicRequest(MAIN, of_number(9, era))) == 2010
    assert line.refused(DeleteTopicRequest(MAIN, of_name("nowhere"))) == 2011
    assert line.refused(poll_of(partition=9)) == 3007
    assert sent(line, partition=9) == 3007


@BOTH
def test_a_look_up_of_what_is_not_there_is_empty(node: IggyNode, era: Era) -> None:
    line = made(logged_in(node, era))
    assert line.tell(GetStreamRequest(of_name("nowhere"))) == b""
    assert line.tell(GetTopicRequest(MAIN, of_name("nowhere"))) == b""


def test_it_is_an_error_in_the_first_eras(node: IggyNode) -> None:
    for era in (SEED, A1):
        assert logged_in(node, era).refused(GetStreamRequest(of_number(8, era))) == 1009


@BOTH
def test_names_are_taken_once_and_have_a_length(node: IggyNode, era: Era) -> None:
    line = made(logged_in(node, era))
    assert line.refused(CreateStreamRequest(name="main")) == 1012
    assert line.refused(CreateTopicRequest(stream=MAIN, partitions_count=1, name="orders")) == 2013
    assert line.refused(CreateStreamRequest(name="")) == 1013
    group = CreateConsumerGroupRequest(stream=MAIN, topic=ORDERS, name="g")
    line.tell(group)
    assert line.refused(group) == 5004


def test_a_chosen_number_is_taken_once(node: IggyNode) -> None:
    line = logged_in(node, SEED)
    line.tell(CreateStreamRequest(stream_id=3, name="one"))
    assert line.refused(CreateStreamRequest(stream_id=3, name="other")) == 1011
    assert line.refused(CreateStreamRequest(stream_id=0, name="other")) == 1014


@BOTH
def test_partitions_have_bounds(node: IggyNode, era: Era) -> None:
    line = made(logged_in(node, era), 0)
    assert line.refused(poll_of()) == 3008
    assert sent(line) == 3008
    assert line.refused(CreateTopicRequest(stream=MAIN, partitions_count=1001, name="wide")) == 2015
    assert line.refused(AddPartitionsRequest(MAIN, ORDERS, 1001)) == 2015
    assert line.refused(RemovePartitionsRequest(MAIN, ORDERS, 1)) == 3007


@BOTH
def test_empty_messages_are_refused(node: IggyNode, era: Era) -> None:
    assert sent(made(logged_in(node, era)), b"") == 4024


def test_a_wrong_password_is_refused(node: IggyNode) -> None:
    line = IggyLine(node, B3)
    wrong = LoginUserRequest("iggy", "wrong", "0.9.0", "")
    assert line.refused(wrong) == 42
    assert line.ask(LoginUserRequest("iggy", "iggy", "0.9.0", ""), LoginUserResponse).user_id == 0
    framed = IggyLine(node, V11)
    with pytest.raises(IggyEvicted) as evicted:
        framed.login(password="wrong")
    assert evicted.value.reason == vsr.EvictionReason.INVALID_CREDENTIALS


def test_a_second_login_of_a_framed_session_is_refused(node: IggyNode) -> None:
    line = logged_in(node, V11)
    with pytest.raises(IggyStatus, match="14000"):
        line.login()


def test_a_framed_client_of_another_protocol_is_told_which_is_served(node: IggyNode) -> None:
    line = IggyLine(node, V11)
    newer = vsr.packed_protocol(0, 12, 0).to_bytes(4, "little") + bytes(40)
    with pytest.raises(IggyEvicted) as evicted:
        line.raw(IggyCode.LOGIN_SESSION, newer)
    assert evicted.value.reason == vsr.EvictionReason.INCOMPATIBLE_PROTOCOL
    node.settle(200)
    assert line.closed_for == "incompatible_protocol"


@BOTH
def test_malformed_requests_have_an_error_and_the_connection_goes_on(node: IggyNode, era: Era) -> None:
    line = logged_in(node, era)
    for code in (IggyCode.CREATE_STREAM, IggyCode.POLL_MESSAGES, IggyCode.SEND_MESSAGES):
        with pytest.raises(IggyStatus, match="3" if era is B3 else "4"):
            line.raw(code, b"\1")
    assert line.raw(IggyCode.PING) == b""


def test_a_malformed_request_of_era_s_ends_the_connection(node: IggyNode) -> None:
    line = logged_in(node, SEED)
    line.raw(IggyCode.GET_STREAMS)
    line.send(IggyCode.GET_STREAM, b"\1")
    node.settle(200)
    assert line.closed_for == "malformed"


@BOTH
def test_a_command_that_there_is_not_has_an_error(node: IggyNode, era: Era) -> None:
    line = logged_in(node, era)
    with pytest.raises(IggyStatus, match="3"):
        line.raw(4711)
    assert line.raw(IggyCode.PING) == b""


def test_commands_of_later_eras_are_unknown_to_earlier_ones(node: IggyNode) -> None:
    with pytest.raises(IggyStatus, match="3"):
        logged_in(node, B3).raw(IggyCode.SYNC_CONSUMER_GROUP)


def test_a_seed_client_where_none_is_served_is_asked_to_log_in(node: IggyNode) -> None:
    line = IggyLine(node, SEED, node.services(IggySettings(anonymous=False)))
    with pytest.raises(IggyStatus, match="40"):
        line.raw(IggyCode.GET_STREAMS)
    later = IggyLine(node, B3, node.services(IggySettings(anonymous=False)))
    with pytest.raises(IggyStatus, match="40"):
        later.raw(IggyCode.GET_STREAMS)
    assert later.login() == 0
    assert later.session.era is B3


@BOTH
def test_controllers_that_are_overloaded(node: IggyNode, era: Era) -> None:
    line = logged_in(node, era)
    node.state.refusal = ErrorCode.OVERLOADED
    assert line.refused(CreateStreamRequest(name="main")) == (5 if era is B3 else 58)


@BOTH
def test_a_change_that_no_controller_was_sent(node: IggyNode, era: Era) -> None:
    line = logged_in(node, era)
    node.state.refusal = ErrorCode.NO_LEADER
    assert line.refused(CreateStreamRequest(name="main")) == (8 if era is B3 else 58)
    node.settle(200)
    assert not line.closed_for


def test_an_option_that_there_is_not_is_refused(node: IggyNode) -> None:
    line = logged_in(node, V11)
    line.tell(CreateStreamRequest(name="main"))
    topic = CreateTopicRequest(stream=of_name("main"), partitions_count=1, name="orders")
    topic.options = options.write({"colour": "red"})
    assert line.refused(topic) == 4041
    topic.options = options.write({"durability": "paper"})
    assert line.refused(topic) == 4042
    topic.options = options.write({"iggy.format": "tank"})
    line.tell(topic)


@pytest.mark.parametrize("usual", LogFormat)
@pytest.mark.parametrize("chosen", [None, *LogFormat])
def test_the_option_chooses_the_format_else_the_operator_does(
    node: IggyNode, usual: LogFormat, chosen: LogFormat | None
) -> None:
    line = logged_in(node, V11, node.services(IggySettings(log_format=usual)))
    line.tell(CreateStreamRequest(name="main"))
    topic = CreateTopicRequest(stream=of_name("main"), partitions_count=1, name="orders")
    if chosen is not None:
        topic.options = options.write({"iggy.format": chosen.value})
    line.tell(topic)
    made_topic = node.state.view.iggy.topic(0, 0)
    assert made_topic is not None
    assert made_topic.settings.log_format is (chosen or usual)
    described = line.ask(DescribeOptionsRequest(1), DescribeOptionsResponse).options
    assert {each.name: each.default_value for each in described}["iggy.format"] == usual.encode()


def test_an_unknown_outcome_closes_the_connection(node: IggyNode) -> None:
    line = logged_in(node, B3)
    node.state.refusal = ErrorCode.TIMED_OUT
    assert line.refused(CreateStreamRequest(name="main")) == 8
    node.settle(200)
    assert line.closed_for == "not_acknowledged"


@pytest.mark.parametrize("first", [b"\1\0\0\0", b"\3\0\0\0", b"\xff\xff\xff\xff", b"GET "])
def test_what_is_no_iggy_client_is_closed(node: IggyNode, first: bytes) -> None:
    line = IggyLine(node, B3)
    with pytest.raises(WireError):
        line.feed(first.ljust(16, b"\1"))


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_a_length_that_has_no_room_for_a_code_is_closed(node: IggyNode, length: int) -> None:
    line = logged_in(node, B3)
    with pytest.raises(WireError):
        line.feed(length.to_bytes(4, "little") + bytes(12))


@pytest.mark.parametrize("size", [0, 1, 255, 2**32 - 1])
def test_a_framed_header_with_a_size_that_lies_is_closed(node: IggyNode, size: int) -> None:
    line = IggyLine(node, V11)
    with pytest.raises(WireError):
        line.feed(bytes(48) + size.to_bytes(4, "little") + bytes(204))


@pytest.mark.parametrize("era", [A1, B3, V11], ids=["A1", "B3", "V11"])
def test_a_login_before_there_are_users_waits_and_is_to_be_tried_again(tmp_path: Path, era: Era) -> None:
    timers: list[Callable[[], None]] = []
    with IggyNode(tmp_path / "data", level=feature_levels.NATIVE_GROUPS) as node:
        services = node.services(later=lambda delay_ms, call: timers.append(call))
        line = IggyLine(node, era, services)
        request = line.login_request()
        line.send(request.ID, b"".join(request.encode(era.version)))
        timers.pop()()
        assert line.answers() == []
        node.clock.pass_ms(ROOT_WAIT_MS)
        timers.pop()()
        assert line.answers() == [{A1: 1, B3: 8, V11: 58}[era]]
        node.settle(200)
        assert not line.closed_for
        assert node.metrics.logins == {"no_users": 1}


def test_below_the_feature_level_nothing_can_be_made(tmp_path: Path) -> None:
    with IggyNode(tmp_path / "data", level=feature_levels.NATIVE_GROUPS) as node:
        line = IggyLine(node, SEED, node.services(IggySettings(anonymous=True)))
        assert line.refused(CreateStreamRequest(stream_id=1, name="main")) == 5
