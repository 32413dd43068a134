"""The order of answers, repeats of framed requests, and what a session shows of itself."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.iggy.dispatch import COMMANDS
from tank_protos.error_codes import ConnectionProtocol
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.iggy import (
    ClientDetails,
    CreateStreamRequest,
    CreateTopicRequest,
    DeleteStreamRequest,
    DeleteTopicRequest,
    GetClusterMetadataRequest,
    GetClusterMetadataResponse,
    GetMeRequest,
    GetStreamsRequest,
    GetStreamsResponse,
    LoginUserRequest,
)
from tank_protos.iggy import classic
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import A1, B3, V11
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import PartitioningKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.wire.message import Message
from tests.support.iggy.iggy_line import IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode
from tests.support.iggy.iggy_sends import send_payload


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data") as node:
        yield node


def test_every_command_is_served() -> None:
    as_another = {IggyCode.LOGIN_SESSION_WITH_TOKEN}  # a VSR client sends it as LOGIN_SESSION
    assert set(IggyCode) - {row.code for row in COMMANDS.values()} == as_another


def test_frames_may_come_byte_by_byte_and_several_at_once(node: IggyNode) -> None:
    line = logged_in(node, B3)
    frame = classic.request(IggyCode.PING, [])
    for byte in frame:
        line.feed(bytes([byte]))
    assert line.answers() == [b""]
    line.feed(frame * 3)
    assert line.answers() == [b"", b"", b""]


def test_requests_that_follow_one_another_are_answered_in_their_order(node: IggyNode) -> None:
    line = logged_in(node, B3)
    line.tell(CreateStreamRequest(name="main"))
    line.tell(CreateTopicRequest(stream=of_name("main"), partitions_count=1, name="orders"))
    chosen = Partitioning(PartitioningKind.PARTITION, 0)
    send = send_payload(B3, of_name("main"), of_name("orders"), chosen, [b"a"])
    frames = [
        line.frame(IggyCode.SEND_MESSAGES, send),
        line.frame(IggyCode.SEND_MESSAGES, send),
        line.frame(4711, b""),
        line.frame(IggyCode.PING, b""),
    ]
    line.feed(b"".join(frames))
    assert line.answers() == []  # the disk has not what the first one sent
    node.settle()
    line.feed(b"")
    assert line.answers() == [b"", b"", 3, b""]


def test_a_framed_change_that_is_sent_again_is_made_once(node: IggyNode) -> None:
    line = logged_in(node, V11)
    payload = b"".join(CreateStreamRequest(name="main").encode(V11.version))
    first = line.raw(IggyCode.CREATE_STREAM, payload)
    line.feed(line.frame_again(IggyCode.CREATE_STREAM, payload))
    assert line.answers() == [first]
    assert len(line.ask(GetStreamsRequest(), GetStreamsResponse).streams) == 1
    line.raw(IggyCode.CREATE_STREAM, b"".join(CreateStreamRequest(name="other").encode(V11.version)))
    line.feed(line.frame_again(IggyCode.CREATE_STREAM, payload, number=1))
    assert line.answers() == [59]


def test_the_cluster_is_this_broker_alone(node: IggyNode) -> None:
    line = logged_in(node, B3)
    found = line.ask(GetClusterMetadataRequest(), GetClusterMetadataResponse)
    assert [(each.ip, each.role, each.status) for each in found.nodes] == [("127.0.0.1", 0, 0)]


def test_a_client_sees_itself_and_the_broker_the_client(node: IggyNode) -> None:
    line = logged_in(node, B3)
    me = line.ask(GetMeRequest(), ClientDetails).client
    assert (me.id, me.user_id, me.transport) == (line.session.client_number, 0, 1)
    facts = line.session.client_facts()
    assert (facts.protocol, facts.client_id) == (ConnectionProtocol.IGGY, "iggy")
    assert (facts.software, facts.software_version) == ("iggy B3", "0.9.0")
    assert "get_me" in facts.requests


class LateView:
    """Controllers whose answers about their state wait for a test."""

    def __init__(self, node: IggyNode, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[Callable[[bool], None]] = []
        patch.setattr(node.state.requests, "await_view", self._await_view)

    def _await_view(self, done: Callable[[bool], None], *, of_client: bool = False) -> None:
        assert of_client, "a client is not kept waiting while no controller leads"
        self.asked.append(done)


def renamed(node: IggyNode, name: str) -> None:
    """Another broker's client gives the topic another name."""
    topic = node.state.view.topic("main.orders")
    assert topic is not None
    alter = pb.AlterIggyTopic(topic_id=topic.topic_id, name=name)
    assert not node.state.apply(pb.Command(alter_iggy_topic=alter)).error


def test_a_change_begins_when_the_view_has_all_that_was_committed(
    node: IggyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic of that name is another one by then, or none: no other topic is deleted in its place."""
    line = logged_in(node, B3)
    line.tell(CreateStreamRequest(name="main"))
    line.tell(CreateTopicRequest(stream=of_name("main"), partitions_count=1, name="orders"))
    late = LateView(node, monkeypatch)
    line.send(IggyCode.DELETE_TOPIC, payload_of(DeleteTopicRequest(of_name("main"), of_name("orders"))))
    assert line.answers() == []
    renamed(node, "kept")
    late.asked.pop()(True)
    assert line.answers() == [IggyError.TOPIC_NAME_NOT_FOUND]
    assert node.state.view.topic("main.orders") is not None, "for clients of other protocols"


def test_a_change_is_refused_while_the_controllers_do_not_answer(
    node: IggyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = logged_in(node, B3)
    late = LateView(node, monkeypatch)
    line.send(IggyCode.DELETE_STREAM, payload_of(DeleteStreamRequest(of_name("main"))))
    late.asked.pop()(False)
    assert line.answers() == [IggyError.DISCONNECTED]
    line.send(IggyCode.DELETE_STREAM, payload_of(DeleteStreamRequest(of_name("main"))))
    line.close()
    late.asked.pop()(True)
    assert line.answers() == []


def test_what_changes_nothing_does_not_ask_the_controllers(
    node: IggyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = logged_in(node, B3)
    late = LateView(node, monkeypatch)
    line.raw(IggyCode.GET_STREAMS)
    line.raw(IggyCode.PING)
    assert late.asked == []


def payload_of(request: Message) -> bytes:
    return b"".join(request.encode(B3.version))


def test_an_unknown_library_is_served_as_the_newest_classic_era_and_counted(node: IggyNode) -> None:
    line = IggyLine(node, B3)
    line.tell(LoginUserRequest("iggy", "iggy", "7.7.7", ""))
    assert line.session.era is B3
    assert node.metrics.iggy_unknown_sdks == {"7.7.7": 1}
    assert node.metrics.iggy_sessions == {"B3": 1}


def test_era_a1_shows_itself_by_its_first_topic(node: IggyNode) -> None:
    line = logged_in(node, A1)
    line.tell(CreateStreamRequest(stream_id=1, name="main"))
    line.tell(CreateTopicRequest(stream=of_name("main"), topic_id=1, partitions_count=1, name="orders"))
    assert line.session.era is A1
    assert {era: count for era, count in node.metrics.iggy_connections.items() if count} == {"A1": 1}
    line.close()
    line.close()
    assert not any(node.metrics.iggy_connections.values())


def test_a_user_who_logs_out_is_nobody(node: IggyNode) -> None:
    line = logged_in(node, B3)
    line.raw(IggyCode.LOGOUT_USER)
    with pytest.raises(IggyStatus, match="40"):
        line.raw(IggyCode.GET_STREAMS)


def test_requests_are_counted_by_command_era_and_outcome(node: IggyNode) -> None:
    line = logged_in(node, B3)
    line.raw(IggyCode.GET_STREAMS)
    with pytest.raises(IggyStatus):
        line.raw(4711)
    counted = node.metrics.iggy_requests
    assert counted["get_streams", "B3", "ok"] == 1
    assert counted["unknown", "B3", "unknown_command"] == 1
