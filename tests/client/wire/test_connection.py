"""The protocol core, byte by byte: no sockets, no clock."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_client import errors
from tank_client.model import Features
from tank_client.settings import ClientSettings
from tank_client.wire.connection import Answered, ClientConnection, Lost, Negotiation, ServerKnown, State
from tank_protos.generated import tank
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.framing import frame

GOLDEN = Path(__file__).parents[2] / "golden" / "tank"
SETTINGS = ClientSettings(connect_timeout_ms=1000, max_in_flight_per_connection=4)
PING = bytes.fromhex("0300000000")


def captured(file: str, name: str) -> bytes:
    frames = json.loads((GOLDEN / f"{file}.json").read_text())["frames"]
    return next(bytes.fromhex(entry["hex"]) for entry in frames if entry["name"] == name)


def joined(buffers: list[Buffer]) -> bytes:
    return b"".join(map(bytes, buffers))


def answer(message: tank.StatusResponse | tank.FeaturesResponse | tank.ListGroupsResponse) -> bytes:
    return joined(frame(message.ID, message.encode()))


def connected(version: int = 400) -> ClientConnection:
    connection = ClientConnection(SETTINGS)
    connection.start(0)
    connection.receive_data(answer(tank.StatusResponse(request_id=1, version=version)), 0)
    connection.data_to_send()
    return connection


def test_the_question_is_the_captured_status_request() -> None:
    connection = ClientConnection(SETTINGS)
    assert connection.start(0) == []
    assert joined(connection.data_to_send()) == captured("09_admin_and_peer", "status.req")
    assert connection.state is State.NEGOTIATING


def test_the_captured_status_answer_is_the_cpp_broker() -> None:
    connection = ClientConnection(SETTINGS)
    connection.start(0)
    data = PING + captured("09_admin_and_peer", "status.resp")
    events = [event for byte in data for event in connection.receive_data(bytes([byte]), 0)]
    assert events == [ServerKnown(Features(400))]
    assert connection.state is State.READY


def test_a_newer_broker_is_asked_for_its_features() -> None:
    connection = ClientConnection(SETTINGS)
    connection.start(0)
    connection.data_to_send()
    assert connection.receive_data(answer(tank.StatusResponse(request_id=1, version=1000)), 0) == []
    assert joined(connection.data_to_send()) == joined(frame(64, tank.FeaturesRequest(request_id=2).encode()))
    features = tank.FeaturesResponse(
        request_id=2,
        cluster_id="c",
        broker_id=7,
        features=[tank.Feature("await_ends", 0, 1)],
        limits=[tank.Limit("in_flight", 9)],
    )
    assert connection.receive_data(answer(features), 0) == [
        ServerKnown(Features(1000, "c", 7, {"await_ends": (0, 1)}, {"in_flight": 9}))
    ]


def test_without_the_question_it_is_ready_at_once_and_old() -> None:
    connection = ClientConnection(SETTINGS)
    assert connection.start(0, ask=False) == [ServerKnown(Features(0))]
    assert connection.data_to_send() == []


def test_nothing_can_be_sent_before_it_is_known_who_answers() -> None:
    connection = ClientConnection(SETTINGS)
    connection.start(0)
    with pytest.raises(errors.ConnectionLost):
        connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 10, "list")


def test_answers_out_of_order_find_their_requests() -> None:
    connection = connected()
    ids = [connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 10, "list") for _ in range(3)]
    assert len(set(ids)) == 3
    for request_id in reversed(ids):
        message = tank.ListGroupsResponse(request_id=request_id, groups=[str(request_id)])
        assert connection.receive_data(answer(message), 0) == [Answered(request_id, message)]
    assert connection.in_flight == 0


def test_the_captured_overtaking_answers_are_matched() -> None:
    connection = ClientConnection(SETTINGS)
    connection.start(0, ask=False)
    sent = b""
    for name in ("pipe.req1", "pipe.req2"):
        request = tank.ConsumeRequest.decode(captured("08_pipelining", name)[5:])
        connection.send(request, tank.ConsumeResponse, 10, name)
        sent += captured("08_pipelining", name)
    produce = tank.ProduceRequest.decode(captured("08_pipelining", "pipe.req3")[5:])
    connection.send(produce, tank.ProduceResponse, 10, "produce")
    assert joined(connection.data_to_send()) == sent + captured("08_pipelining", "pipe.req3")
    data = b"".join(
        captured("08_pipelining", name) for name in ("pipe.resp_first", "pipe.resp_second", "pipe.resp_third")
    )
    events = connection.receive_data(data, 0)
    assert [event.request_id for event in events if isinstance(event, Answered)] == [2, 1, 3]


@given(st.lists(st.integers(1, 30), max_size=20))
def test_however_the_bytes_are_cut_the_answers_are_the_same(cuts: list[int]) -> None:
    connection = connected()
    ids = [connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 10, "list") for _ in range(3)]
    data = PING.join(answer(tank.ListGroupsResponse(request_id=i, groups=["a", "b"])) for i in ids)
    found = []
    for size in [*cuts, len(data)]:
        piece, data = data[:size], data[size:]
        found += [
            event.request_id for event in connection.receive_data(piece, 0) if isinstance(event, Answered)
        ]
    assert found == ids


def test_too_many_requests_at_once_are_refused_and_leave_nothing_behind() -> None:
    connection = connected()
    for _ in range(4):
        connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 10, "list")
    before = connection.in_flight
    with pytest.raises(errors.Overloaded):
        connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 10, "list")
    assert connection.in_flight == before


def test_what_does_not_fit_the_wire_is_the_callers_mistake() -> None:
    connection = connected()
    with pytest.raises(errors.InvalidArgument, match="delete"):
        connection.send(tank.DeleteTopicRequest(name="x" * 256), tank.DeleteTopicResponse, 10, "delete")
    assert connection.in_flight == 0
    assert connection.data_to_send() == []


def test_an_answer_that_is_late_ends_the_connection() -> None:
    connection = connected()
    first = connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 50, "list groups")
    second = connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 90, "list groups")
    assert connection.next_deadline_ms() == 50
    assert connection.expire(49) == []
    (lost,) = connection.expire(50)
    assert isinstance(lost, Lost)
    assert lost.unanswered == (first, second)
    assert "list groups" in str(lost.error)
    assert connection.state is State.CLOSED
    assert connection.receive_data(PING, 60) == connection.receive_eof() == connection.expire(99) == []


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("an answer nobody asked for", answer(tank.ListGroupsResponse(request_id=77))),
        ("an answer of another kind", answer(tank.StatusResponse(request_id=2))),
        ("an answer without a request id", joined(frame(74, [b"\1\0"]))),
        ("an answer that ends too soon", joined(frame(74, [b"\2\0\0\0\0"]))),
        (
            "bytes behind the answer",
            joined(frame(74, [*tank.ListGroupsResponse(request_id=2).encode(), b"x"])),
        ),
        ("a frame beyond the limit", b"\x4a\xff\xff\xff\xff"),
        ("another protocol", b"HTTP/1.1 400 Bad Request\r\n"),
    ],
)
def test_what_is_no_answer_ends_the_connection(what: str, data: bytes) -> None:
    connection = connected()
    request_id = connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 50, "list")
    assert request_id == 2
    (lost,) = connection.receive_data(data, 0)
    assert isinstance(lost, Lost), what
    assert isinstance(lost.error, errors.ProtocolViolation)
    assert lost.unanswered == (2,)


def test_request_ids_wrap_and_skip_those_that_wait() -> None:
    connection = connected()
    connection.next_id = 0xFFFFFFFF
    assert connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 50, "list") == 0xFFFFFFFF
    assert connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 50, "list") == 1
    connection.next_id = 0xFFFFFFFF
    assert connection.send(tank.ListGroupsRequest(), tank.ListGroupsResponse, 50, "list") == 2


def closed_at_the_question(*, greeted: bool) -> Lost:
    connection = ClientConnection(SETTINGS)
    connection.start(0)
    if greeted:
        connection.receive_data(PING, 0)
    (lost,) = connection.receive_eof()
    assert isinstance(lost, Lost)
    return lost


def test_two_closed_doors_mean_the_old_document() -> None:
    negotiation = Negotiation()
    asks = [negotiation.asks]
    for _ in range(2):
        negotiation.ended(closed_at_the_question(greeted=True), None)
        asks.append(negotiation.asks)
    assert asks == [True, True, False], "one may be a broker that was just stopping"


def test_a_port_that_never_greets_is_no_broker_of_the_old_document() -> None:
    negotiation = Negotiation()
    for _ in range(5):
        negotiation.ended(closed_at_the_question(greeted=False), None)
    assert negotiation.asks


def test_an_address_that_once_answered_is_no_broker_of_the_old_document_however_often_it_stops() -> None:
    negotiation = Negotiation()
    negotiation.ended(closed_at_the_question(greeted=True), None)
    negotiation.ended(Lost(errors.ConnectionLost("gone"), ()), Features(1000))
    for _ in range(5):
        negotiation.ended(closed_at_the_question(greeted=True), None)
    assert negotiation.asks


def test_a_broker_that_closed_one_door_and_is_gone_then_was_only_stopping() -> None:
    negotiation = Negotiation()
    for _ in range(5):
        negotiation.ended(closed_at_the_question(greeted=True), None)
        negotiation.failed()
    assert negotiation.asks


def test_after_an_old_connection_the_question_is_asked_once_more() -> None:
    negotiation = Negotiation()
    for _ in range(2):
        negotiation.ended(closed_at_the_question(greeted=True), None)
    over = Lost(errors.ConnectionLost("gone"), ())
    asks = []
    for lost, server in (
        (over, Features(0)),
        (closed_at_the_question(greeted=True), None),
        (over, Features(1000)),
    ):
        negotiation.ended(lost, server)
        asks.append(negotiation.asks)
    assert asks == [True, False, True]
