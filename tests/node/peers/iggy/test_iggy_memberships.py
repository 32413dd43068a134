"""Members of Iggy's groups at several brokers, and the coordinator that shares the partitions out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.iggy.parts import iggy_topic_view
from tank_node.cluster.view import NO_LEADER
from tank_node.coordinators.view.view_groups import iggy_title
from tank_node.peers.group_router import Told, router_of
from tank_node.peers.group_service import Asker
from tank_node.session import Session
from tank_protos.error_codes import ErrorCode, GroupStateCode
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.tank import (
    CommitPositionsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    IggyGroupSaid,
    IggyGroupTold,
    IggyMemberListed,
    IggyMembersRequest,
    IggyMembersResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC
from tests.node.peers.group_cell import TOPIC, ask, commit_of
from tests.node.peers.iggy.iggy_cell import (
    BORN,
    GROUP,
    begin_join,
    begin_store,
    iggy_cell_of,
    join,
    may_poll,
    members_at,
    place,
)
from tests.support.nodes.broker_cell import BrokerCell


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = iggy_cell_of(tmp_path)
    yield cell
    cell.close()


def shared(cell: BrokerCell) -> None:
    """Connection 2 at broker 2 and 3 at broker 3 have two partitions each."""
    join(cell, 2, 2)
    join(cell, 3, 3)
    cell.run(2_500)
    assert (may_poll(cell, 2, 2), may_poll(cell, 3, 3)) == ((0, 1), (2, 3))


def test_brokers_with_members_share_the_partitions(cell: BrokerCell) -> None:
    shared(cell)
    assert members_at(cell, 2).groups_of(2) == [BORN]
    assert members_at(cell, 3).groups_of(2) == []


def test_any_broker_says_what_people_know_a_group_by(cell: BrokerCell) -> None:
    shared(cell)
    for node in cell.nodes.values():
        view = node.controller.view
        view.iggy.apply(pb.Delta(streams=[pb.IggyStream(number=0, name="main", born=3)]))
        part = pb.IggyPart(stream=0, number=0, name="orders", born=4)
        topic = view.topic_by_id(cell.topics[TOPIC].topic_id)
        assert topic is not None
        topic.iggy = iggy_topic_view(part)
        told = ask(cell, node.client(), ListGroupsRequest(2, 4), ListGroupsResponse, 2).listed
        assert [(each.group, each.title) for each in told] == [(GROUP, "main/orders/readers")]
        told = ask(cell, node.client(), ListGroupsRequest(1, 4), ListGroupsResponse, 1).listed
        assert [(each.group, each.title) for each in told] == [(GROUP, "")]
        assert iggy_title(view, "iggy:c:#3") == "consumer #3"
        assert iggy_title(view, "iggy:g:4711") == iggy_title(view, "orders") == ""
        view.feature_level = NATIVE_GROUPS
        assert iggy_title(view, "iggy:c:#3") == "", "an ordinary name"


def test_a_second_member_at_the_same_broker_has_its_share_when_its_join_is_answered(
    cell: BrokerCell,
) -> None:
    join(cell, 2, 2, is_sticky=False)
    told = begin_join(cell, 2, 4, is_sticky=False)
    while not told:
        cell.run(50)
    assert (may_poll(cell, 2, 2), may_poll(cell, 2, 4)) == ((0, 2), (1, 3))


def test_a_member_goes_round_its_partitions(cell: BrokerCell) -> None:
    shared(cell)
    members = members_at(cell, 3)
    numbers = []
    for _ in range(4):
        number = members.next_partition(BORN, 3)
        assert not isinstance(number, ErrorCode)
        numbers.append(number)
        members.polled(BORN, 3, number, None)
    assert numbers == [2, 3, 2, 3]
    assert members.last_polled(BORN, 3) == 3
    assert members.begin_poll(BORN, 3, 0) is ErrorCode.NOTHING_ASSIGNED
    assert members.begin_poll(BORN, 3, 2) is ErrorCode.NONE


def test_who_is_no_member_hears_it(cell: BrokerCell) -> None:
    members = members_at(cell, 2)
    assert members.next_partition(BORN, 2) is ErrorCode.UNKNOWN_MEMBER
    told: list[ErrorCode] = []
    members.leave(BORN, 2, told.append)
    assert told == [ErrorCode.UNKNOWN_MEMBER]
    assert begin_join(cell, 2, 2, born=6) == [ErrorCode.UNKNOWN_GROUP]


def test_below_their_level_nobody_joins_and_nothing_is_stored(cell: BrokerCell) -> None:
    """A broker of an earlier version closes connections with messages that it doesn't know."""
    cell.nodes[2].controller.view.feature_level = NATIVE_GROUPS
    assert begin_join(cell, 2, 2) == [ErrorCode.LEVEL_TOO_LOW]
    assert begin_store(cell, 2, place(cell, 0), 1) == [ErrorCode.LEVEL_TOO_LOW]


def test_a_connection_that_ends_leaves_its_partitions_to_others(cell: BrokerCell) -> None:
    shared(cell)
    broker = cell.nodes[2].broker
    broker.begin_tick()
    members_at(cell, 2).ended(2)
    broker.end_tick()
    cell.run(1_500)
    assert may_poll(cell, 3, 3) == (0, 1, 2, 3)
    assert may_poll(cell, 2, 2) is ErrorCode.UNKNOWN_MEMBER


def test_a_partition_that_was_polled_moves_when_its_offset_is_stored(cell: BrokerCell) -> None:
    join(cell, 2, 2)
    members = members_at(cell, 2)
    for number in range(4):
        assert members.begin_poll(BORN, 2, number) is ErrorCode.NONE
        members.polled(BORN, 2, number, 7)
    join(cell, 3, 3)
    cell.run(2_500)
    assert (may_poll(cell, 2, 2), may_poll(cell, 3, 3)) == ((0, 1), ())
    assert members_at(cell, 3).next_partition(BORN, 3) is ErrorCode.NOTHING_ASSIGNED
    cell.nodes[2].broker.begin_tick()
    members.stored(BORN, 2, 3, 7)
    cell.nodes[2].broker.end_tick()
    cell.run(2_500)
    assert may_poll(cell, 3, 3) == (3,)


def test_the_next_coordinator_goes_on_where_the_last_one_was(cell: BrokerCell) -> None:
    shared(cell)
    cell.change(0, GROUPS_TOPIC, leader=2)
    for _ in range(8):
        cell.run(500)
        assert (may_poll(cell, 2, 2), may_poll(cell, 3, 3)) == ((0, 1), (2, 3))


def test_without_a_coordinator_polls_go_on_for_six_seconds_and_then_wait(cell: BrokerCell) -> None:
    shared(cell)
    cell.change(0, GROUPS_TOPIC, leader=NO_LEADER)
    cell.run(4_500)
    assert may_poll(cell, 3, 3) == (2, 3)
    cell.run(2_500)
    assert may_poll(cell, 3, 3) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    heard: list[tuple[int, ...] | ErrorCode] = []
    cell.nodes[3].broker.begin_tick()
    members_at(cell, 3).when_heard(BORN, 3, lambda: heard.append(may_poll(cell, 3, 3)))
    cell.nodes[3].broker.end_tick()
    cell.change(0, GROUPS_TOPIC, leader=3)
    cell.run(3_000)
    assert heard == [(2, 3)]


def test_a_poll_does_not_wait_for_ever(cell: BrokerCell) -> None:
    shared(cell)
    cell.change(0, GROUPS_TOPIC, leader=NO_LEADER)
    cell.run(7_000)
    heard: list[tuple[int, ...] | ErrorCode] = []
    cell.nodes[3].broker.begin_tick()
    members_at(cell, 3).when_heard(BORN, 3, lambda: heard.append(may_poll(cell, 3, 3)))
    cell.nodes[3].broker.end_tick()
    cell.run(4_000)
    assert heard == []
    cell.run(1_500)
    assert heard == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_join_that_nobody_takes_is_refused_in_time(cell: BrokerCell) -> None:
    cell.change(0, GROUPS_TOPIC, leader=NO_LEADER)
    told = begin_join(cell, 2, 2)
    cell.run(4_000)
    assert told == []
    cell.run(2_000)
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert members_at(cell, 2).groups_of(2) == []


def test_the_members_of_a_broker_that_died_are_out(cell: BrokerCell) -> None:
    shared(cell)
    for number in range(4):
        cell.change(number, TOPIC, leader=1)
    cell.stop(3)
    cell.change(0, GROUPS_TOPIC, in_sync=(1, 2))
    cell.run(8_500)
    assert may_poll(cell, 2, 2) == (0, 1, 2, 3)


def test_a_broker_that_is_cut_off_stops_before_others_get_its_partitions(cell: BrokerCell) -> None:
    shared(cell)
    cell.disconnect(1, 3)
    cell.change(0, GROUPS_TOPIC, in_sync=(1, 2))
    for _ in range(20):
        cell.run(500)
        mine, theirs = may_poll(cell, 3, 3), may_poll(cell, 2, 2)
        if not isinstance(mine, ErrorCode):
            assert not isinstance(theirs, ErrorCode)
            assert not set(mine) & set(theirs)
    assert theirs == (0, 1, 2, 3)
    cell.connect(1, 3)
    cell.run(4_000)
    assert (may_poll(cell, 2, 2), may_poll(cell, 3, 3)) == ((0, 1), (2, 3))


def test_all_brokers_show_the_members(cell: BrokerCell) -> None:
    shared(cell)
    for broker_id in cell.nodes:
        told: list[tuple[ErrorCode, list[IggyMemberListed]]] = []
        broker = cell.nodes[broker_id].broker
        broker.begin_tick()
        members_at(cell, broker_id).describe(
            BORN,
            Session(),
            lambda error, members, told=told: told.append((error, list(members))),  # type: ignore[misc]
        )
        broker.end_tick()
        cell.run(300)
        assert told == [(ErrorCode.NONE, [IggyMemberListed(102, [0, 1]), IggyMemberListed(103, [2, 3])])]


def test_tools_show_the_group(cell: BrokerCell) -> None:
    shared(cell)
    client = cell.nodes[3].client()
    listed = ask(cell, client, ListGroupsRequest(1), ListGroupsResponse, 1).listed
    assert [(each.group, each.protocol_type, each.members) for each in listed] == [(GROUP, "iggy", 2)]
    (group,) = ask(cell, client, DescribeGroupsRequest(groups=[GROUP]), DescribeGroupsResponse).groups
    assert (group.protocol_type, group.state) == ("iggy", GroupStateCode.STABLE)
    assert [(each.client_name, each.assignment[0].partitions) for each in group.members] == [
        ("102", [0, 1]),
        ("103", [2, 3]),
    ]


def test_others_set_no_positions_of_the_group(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    told = ask(cell, client, commit_of(5, GROUP), CommitPositionsResponse)
    assert told.error == ErrorCode.OTHER_GROUP_TYPE
    deleted = ask(cell, client, DeleteGroupsRequest(groups=[GROUP]), DeleteGroupsResponse)
    assert [each.error for each in deleted.results] == [ErrorCode.OTHER_GROUP_TYPE]


def test_a_message_about_many_groups_is_answered_for_each(cell: BrokerCell) -> None:
    """The coordinator's end alone: a broker of a later version may say what it likes."""
    told: list[object] = []
    broker = cell.nodes[1].broker
    broker.begin_tick()
    request = IggyMembersRequest(2, 102, 1, [IggyGroupSaid(BORN), IggyGroupSaid(6), IggyGroupSaid(10**9)])
    router_of(broker).service.serve(request, Asker(1, None), told.append)
    broker.end_tick()
    cell.run(300)
    (answer,) = told
    assert isinstance(answer, IggyMembersResponse)
    assert [each.error for each in answer.groups] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_GROUP,
        ErrorCode.COORDINATOR_LOADING,
    ]


def test_a_partition_that_the_coordinator_cannot_take_back_is_not_offered_in_every_tick(
    cell: BrokerCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator in the same process answers at once: the tick would never end."""
    join(cell, 2, 2)
    members = members_at(cell, 2)
    assert members.begin_poll(BORN, 2, 1) is ErrorCode.NONE
    assert members.begin_poll(BORN, 2, 3) is ErrorCode.NONE
    begin_join(cell, 3, 3)
    cell.run(2_500)
    offers: list[IggyMembersRequest] = []

    def refuses(leader: int, request: Message, sender: Session, done: Told) -> None:
        assert isinstance(request, IggyMembersRequest)
        offers.append(request)
        refused = IggyGroupTold(ErrorCode.FENCED_MEMBER_EPOCH)
        done(IggyMembersResponse([refused] * len(request.groups)))

    with monkeypatch.context() as patch:
        patch.setattr(router_of(cell.nodes[2].broker), "ask_broker", refuses)
        members.polled(BORN, 2, 1, None)
        members.polled(BORN, 2, 3, None)
        cell.run(500)
    assert [each.partition for each in offers[0].groups[0].released]
    assert 3 <= len(offers) <= 10
    cell.run(2_500)
    both = [may_poll(cell, 2, 2), may_poll(cell, 3, 3)]
    assert both == [(0, 1), (2, 3)], "the coordinator takes it when it can"
