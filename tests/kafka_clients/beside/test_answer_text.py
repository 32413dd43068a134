"""Answers of two servers are the same text when they say the same, and another one when they don't."""

from tank_protos.generated.kafka import (
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    MemberResponse,
)
from tank_protos.generated.kafka.fetch_response import LeaderIdAndEpoch
from tests.kafka_clients.beside.answer_text import AnswerText

UUIDS = ("0b6b2c7e-8a0f-4d5a-9f3e-1c2d3e4f5a6b", "ffffffff-0000-4000-8000-0123456789ab")
RANDOM = "abcdefghijklmnopqrstuv"


def test_ids_that_a_broker_chose_are_called_in_the_order_they_come() -> None:
    texts = []
    for first, second in (UUIDS, UUIDS[::-1]):
        text = AnswerText()
        joined = JoinGroupResponse(member_id=f"test-{first}", leader=f"test-{first}", protocol_name=None)
        other = JoinGroupResponse(member_id=f"test-{second}", leader=f"test-{first}", protocol_name=None)
        texts.append((text.of(joined), text.of(other)))
    assert texts[0] == texts[1]
    assert "member_id=<test-1>" in texts[0][0]
    assert "leader=<test-1>, member_id=<test-2>" in texts[0][1]


def test_ids_that_a_client_chose_stay() -> None:
    assert "'nobody'" in AnswerText().of(LeaveGroupResponse(members=[MemberResponse("nobody", None, 25)]))


def test_an_id_without_the_clients_name_is_one_that_a_broker_chose() -> None:
    assert AnswerText().of(JoinGroupResponse(member_id=RANDOM)) == "(member_id=<1>)"


def test_members_come_by_what_they_said() -> None:
    def texts(*said: bytes) -> str:
        members = [JoinGroupResponseMember(f"c-{UUIDS[each == b'b']}", None, each) for each in said]
        return AnswerText().of(JoinGroupResponse(members=members))

    assert texts(b"a", b"b") == texts(b"b", b"a") != texts(b"a")


def test_errors_count_and_their_words_do_not() -> None:
    refused = HeartbeatResponse(throttle_time_ms=3, error_code=25)
    assert AnswerText().of(refused) == "(error_code=25)"
    assert AnswerText().of(HeartbeatResponse()) == "()"


def test_of_a_broker_it_counts_whether_there_is_one() -> None:
    text = AnswerText()
    found = text.of(FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=9092, error_message="x"))
    assert (
        found
        == text.of(FindCoordinatorResponse(node_id=4, host="localhost", port=19092))
        == ("(node_id=a broker, host=a host, port=a port)")
    )
    assert text.of(FindCoordinatorResponse(error_code=15, node_id=-1, port=-1)) != found


def test_leader_epochs_and_topics_have_names() -> None:
    text = AnswerText()
    text.name_epoch(7, "the first")
    assert text.of(LeaderIdAndEpoch(1, 7)) == "(leader_id=a broker, leader_epoch=the first)"
    assert text.of(LeaderIdAndEpoch(1, 8)) == "(leader_id=a broker, leader_epoch=8)"
