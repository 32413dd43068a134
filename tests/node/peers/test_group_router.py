"""Requests about groups, which any broker takes, and brings to the one that coordinates the groups."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tank_node.cluster.view import NO_LEADER, PartitionView, TopicView
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    CommittedOffset,
    MemberName,
    TopicPartition,
)
from tank_node.limits import Limits
from tank_node.peers.group_router import router_of
from tank_protos.error_codes import ErrorCode, GroupStateCode
from tank_protos.feature_levels import GROUPS, NATIVE_GROUPS
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeletePositionsRequest,
    DeletePositionsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FeaturesRequest,
    FeaturesResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    GroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    PositionsOfTopic,
    PositionToCommit,
)
from tank_protos.topic_settings import from_pairs
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC
from tests.node.peers.group_cell import (
    TOPIC,
    answered,
    ask,
    cell_of,
    commit,
    commit_of,
    fetched,
    line,
    numbers,
)
from tests.support.nodes.broker_cell import BrokerCell


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers; broker 1 coordinates all groups."""
    cell = cell_of(tmp_path)
    yield cell
    cell.close()


def test_every_broker_takes_commits_and_shows_them(cell: BrokerCell) -> None:
    for number, broker_id in enumerate((1, 2, 3, 2, 1), 5):
        commit(cell, cell.nodes[broker_id].client(), number)
        for node in cell.nodes.values():
            told = fetched(cell, node.client())
            assert (told.request_id, numbers(told)) == (3, {(TOPIC, 0): number})
            assert told.positions[0].metadata == "a note"
            assert told.positions[0].committed_ms > 0


def test_each_position_has_its_own_error(cell: BrokerCell) -> None:
    positions = [
        PositionToCommit(TOPIC, 1, 7, ""),
        PositionToCommit(TOPIC, 99, 7, ""),
        PositionToCommit("nowhere", 0, 7, ""),
        PositionToCommit(TOPIC, 2, 7, "x" * 5_000),
        PositionToCommit(TOPIC, 3, 2**64 - 1, ""),
    ]
    request = CommitPositionsRequest(1, 1, "g", positions=positions)
    told = ask(cell, cell.nodes[2].client(), request, CommitPositionsResponse)
    assert [each.error for each in told.results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_PARTITION,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.TOO_LARGE,
        ErrorCode.INVALID_REQUEST,
    ]
    assert numbers(fetched(cell, cell.nodes[3].client())) == {(TOPIC, 1): 7}


def test_positions_of_a_topic_that_is_not_there_are_not_none(cell: BrokerCell) -> None:
    commit(cell, cell.nodes[1].client(), 5)
    request = FetchPositionsRequest(0, 3, "g", ["nowhere"])
    assert ask(cell, cell.nodes[2].client(), request, FetchPositionsResponse).error == ErrorCode.UNKNOWN_TOPIC
    request = FetchPositionsRequest(0, 3, "g", [TOPIC])
    assert len(ask(cell, cell.nodes[2].client(), request, FetchPositionsResponse).positions) == 1


def test_a_commit_for_a_member_that_is_not_there_is_refused(cell: BrokerCell) -> None:
    request = CommitPositionsRequest(1, 1, "g", "nobody", 3, [PositionToCommit(TOPIC, 0, 7, "")])
    told = ask(cell, cell.nodes[2].client(), request, CommitPositionsResponse)
    assert told.error == ErrorCode.UNKNOWN_GROUP
    assert told.message
    assert not told.results


def test_groups_are_listed_described_and_deleted_by_any_broker(cell: BrokerCell) -> None:
    commit(cell, cell.nodes[1].client(), 5, "b")
    commit(cell, cell.nodes[2].client(), 5, "a")
    for node in cell.nodes.values():
        client = node.client()
        listed = ask(cell, client, ListGroupsRequest(1, 4), ListGroupsResponse, 1)
        assert [(each.group, each.state, each.members) for each in listed.listed] == [
            ("a", GroupStateCode.EMPTY, 0),
            ("b", GroupStateCode.EMPTY, 0),
        ]
        assert ask(cell, client, ListGroupsRequest(0, 4), ListGroupsResponse).groups == ["a", "b"]
        request = DescribeGroupsRequest(0, 5, ["b", "none", "a"])
        described = ask(cell, client, request, DescribeGroupsResponse).groups
        assert [(each.group, each.error, each.state) for each in described] == [
            ("b", 0, GroupStateCode.EMPTY),
            ("none", ErrorCode.UNKNOWN_GROUP, GroupStateCode.DEAD),
            ("a", 0, GroupStateCode.EMPTY),
        ]
    client = cell.nodes[3].client()
    deleted = ask(cell, client, DeleteGroupsRequest(0, 6, ["a", "none"]), DeleteGroupsResponse).results
    assert [each.error for each in deleted] == [0, ErrorCode.UNKNOWN_GROUP]
    assert ask(cell, client, ListGroupsRequest(0, 4), ListGroupsResponse).groups == ["b"]


def test_positions_are_deleted_by_any_broker(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    commit(cell, client, 5)
    request = DeletePositionsRequest(0, 6, "g", [PositionsOfTopic(TOPIC, [0, 1, 99])])
    told = ask(cell, client, request, DeletePositionsResponse)
    codes = [each.error for each in told.results]
    assert (told.error, codes) == (0, [0, 0, ErrorCode.UNKNOWN_PARTITION])
    assert fetched(cell, client).error == ErrorCode.UNKNOWN_GROUP
    assert ask(cell, client, request, DeletePositionsResponse).error == ErrorCode.UNKNOWN_GROUP


def test_without_a_coordinator_the_client_hears_that_it_is_a_matter_of_time(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    cell.change(0, GROUPS_TOPIC, leader=NO_LEADER)
    client.send(commit_of(5))
    cell.run(3_000)
    ((_, payload),) = client.answers()
    assert CommitPositionsResponse.decode(payload).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    client.send(commit_of(5, version=0))
    cell.run(3_000)
    ((_, payload),) = client.answers()
    assert CommitPositionsResponse.decode(payload).error == ErrorCode.TIMED_OUT, "an older client"


def test_a_coordinator_that_is_cut_off_is_not_waited_for_for_ever(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    commit(cell, client, 5)
    cell.disconnect(1, 2)
    client.send(commit_of(6))
    cell.run(12_000, 200)
    ((_, payload),) = client.answers()
    assert CommitPositionsResponse.decode(payload).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    cell.connect(1, 2)
    cell.run(5_000)
    commit(cell, client, 7)


def no_answer(done: Callable[[bool], None], *, of_client: bool = False) -> None:
    """Of the controllers."""
    done(False)


def test_a_broker_that_may_have_been_replaced_shows_no_positions(cell: BrokerCell) -> None:
    client = cell.nodes[1].client()
    commit(cell, client, 5)
    controller = cell.nodes[1].controller
    controller.await_view = no_answer  # type: ignore[method-assign]
    for other in (2, 3):
        cell.disconnect(1, other)
    client.send(FetchPositionsRequest(0, 3, "g"))
    cell.run(1_000)
    assert client.answers() == []
    for other in (2, 3):
        cell.connect(1, other)
    cell.run(5_000)
    ((_, payload),) = client.answers()
    assert numbers(FetchPositionsResponse.decode(payload)) == {(TOPIC, 0): 5}


def test_while_the_controllers_are_silent_the_replicas_say_who_coordinates(cell: BrokerCell) -> None:
    client = cell.nodes[1].client()
    commit(cell, client, 5)
    controller = cell.nodes[1].controller
    controller.silence_ms = 3_000
    assert numbers(fetched(cell, client)) == {(TOPIC, 0): 5}
    controller.silence_ms = 0
    controller.await_view = no_answer  # type: ignore[method-assign]
    assert numbers(fetched(cell, client)) == {(TOPIC, 0): 5}


def test_a_broker_that_has_not_heard_of_groups_asks_whether_there_are_some(tmp_path: Path) -> None:
    """A client commits by way of one broker, the first of the cluster, and goes on at another one at once."""
    cell = BrokerCell(tmp_path, 2)
    for node in cell.nodes.values():
        node.controller.view.feature_level = NATIVE_GROUPS
    cell.create(TOPIC, 4, flush="replicated")
    late = cell.nodes[2]
    late_client = late.client()
    router = router_of(late.broker)
    cell.run(300)
    assert router.has_no_groups
    assert fetched(cell, late_client).error == ErrorCode.UNKNOWN_GROUP
    settings = {"flush": "replicated", "log.format": "kafka", "log.cleanup.policy": "cleanup"}
    internal = TopicView(
        99, GROUPS_TOPIC, 2, from_pairs(settings), settings, [PartitionView(0, 1, 1, 1, (1, 2), (1, 2))]
    )
    cell.publish(internal, (1,))
    asked: list[Callable[[bool], None]] = []
    late.controller.await_view = asked.append  # type: ignore[method-assign, assignment]
    late_client.send(FetchPositionsRequest(0, 3, "g"))
    cell.run(300)
    assert late_client.answers() == []
    del cell.topics[GROUPS_TOPIC]  # the other broker has not heard of it
    cell.publish(internal, (2,))
    cell.run(300)
    commit(cell, cell.nodes[1].client(), 5)
    del late.controller.await_view
    asked.pop()(True)
    told = answered(cell, late_client, FetchPositionsResponse)
    assert numbers(told) == {(TOPIC, 0): 5}
    cell.close()


def test_below_the_level_the_controllers_keep_positions(cell: BrokerCell) -> None:
    node = cell.nodes[2]
    node.controller.view.feature_level = GROUPS
    client = node.client()
    commit(cell, client, 5)
    assert node.controller.positions["g"][TOPIC, 0].sequence_number == 5
    assert numbers(fetched(cell, client)) == {(TOPIC, 0): 5}
    assert ask(cell, client, ListGroupsRequest(0, 4), ListGroupsResponse).groups == ["g"]
    too_low = ErrorCode.LEVEL_TOO_LOW
    assert ask(cell, client, ListGroupsRequest(1, 4), ListGroupsResponse, 1).error == too_low
    request = CommitPositionsRequest(1, 1, "g", "me", 3, [])
    assert ask(cell, client, request, CommitPositionsResponse).error == too_low
    described = ask(cell, client, DescribeGroupsRequest(0, 5, ["g"]), DescribeGroupsResponse).groups
    assert [each.error for each in described] == [too_low]
    deleted = ask(cell, client, DeleteGroupsRequest(0, 5, ["g"]), DeleteGroupsResponse).results
    assert [each.error for each in deleted] == [too_low]
    deletion = DeletePositionsRequest(0, 6, "g", [])
    assert ask(cell, client, deletion, DeletePositionsResponse).error == too_low


def test_features_name_what_the_level_allows(cell: BrokerCell) -> None:
    node = cell.nodes[2]
    versions = {}
    for level in (GROUPS, NATIVE_GROUPS):
        node.controller.view.feature_level = level
        told = ask(cell, node.client(), FeaturesRequest(0, 1), FeaturesResponse)
        versions[level] = {each.name: each.max_version for each in told.features}
    added = versions[NATIVE_GROUPS].keys() - versions[GROUPS].keys()
    assert added >= {"describe_groups", "delete_groups", "delete_positions"}
    assert [each["commit_positions"] for each in versions.values()] == [0, 1]
    assert [each["list_groups"] for each in versions.values()] == [0, 2]


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[BrokerCell]:
    """As `cell`, but no answer to another broker fits; broker 2 has asked broker 1 for one."""
    cell = cell_of(tmp_path, Limits(forwarded_answer_bytes=1))
    told = ask(cell, cell.nodes[2].client(), ListGroupsRequest(1, 4), ListGroupsResponse, 1)
    assert told.error == ErrorCode.TOO_LARGE
    yield cell
    cell.close()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (commit_of(5), CommitPositionsResponse),
        (FetchPositionsRequest(0, 9, "g"), FetchPositionsResponse),
        (GroupHeartbeatRequest(0, 9, "g", "a", rebalance_timeout_ms=1), GroupHeartbeatResponse),
        (DeletePositionsRequest(0, 9, "g", [PositionsOfTopic(TOPIC, [0])]), DeletePositionsResponse),
    ],
)
def test_an_answer_that_is_too_large_to_be_passed_on_is_a_refusal_of_its_kind(
    request_: Message, answer: type[Message], narrow: BrokerCell
) -> None:
    before = line(narrow, 2, 1)
    told: Any = ask(narrow, narrow.nodes[2].client(), request_, answer)
    assert (told.request_id, told.error) == (9, ErrorCode.TOO_LARGE)
    assert line(narrow, 2, 1) is before, "the connection goes on"


def test_groups_of_an_answer_that_is_too_large_to_be_passed_on_are_refused(narrow: BrokerCell) -> None:
    client = narrow.nodes[2].client()
    before = line(narrow, 2, 1)
    deleted = ask(narrow, client, DeleteGroupsRequest(0, 9, ["a", "b"]), DeleteGroupsResponse).results
    described = ask(narrow, client, DescribeGroupsRequest(0, 9, ["a", "b"]), DescribeGroupsResponse).groups
    assert [each.error for each in deleted] == [ErrorCode.TOO_LARGE] * 2
    assert [(each.error, each.group) for each in described] == [
        (ErrorCode.TOO_LARGE, "a"),
        (ErrorCode.TOO_LARGE, "b"),
    ]
    assert line(narrow, 2, 1) is before, "the connection goes on"


def test_clients_may_not_speak_as_brokers(cell: BrokerCell) -> None:
    request = commit_of(5)
    about = GroupRequest(message_id=request.ID, payload=b"".join(request.encode()))
    with pytest.raises(WireError):
        cell.nodes[1].client().send(about)


def test_other_protocols_commit_and_ask_by_any_broker(cell: BrokerCell) -> None:
    for node in cell.nodes.values():
        router, sender = router_of(node.broker), node.client().session
        results: list[Mapping[TopicPartition, GroupError]] = []
        offsets = {
            (TOPIC, 0): CommittedOffset(node.broker_id, metadata="m"),
            (TOPIC, 99): CommittedOffset(1),
            (TOPIC, 1): CommittedOffset(-7),
        }
        router.commit(CommitRequest(MemberName("kafka", ""), -1, offsets), sender, results.append)
        cell.run(300)
        assert results == [
            {
                (TOPIC, 0): GroupError.NONE,
                (TOPIC, 99): GroupError.UNKNOWN_TOPIC,
                (TOPIC, 1): GroupError.INVALID_REQUEST,
            }
        ]
        found: list[tuple[GroupError, Mapping[TopicPartition, CommittedOffset]]] = []
        asked: tuple[list[TopicPartition] | None, ...] = (None, [(TOPIC, 0)], [(TOPIC, 2)])
        for places in asked:
            router.committed("kafka", places, sender, partial(_keep, found))
        cell.run(300)
        assert [error for error, _ in found] == [GroupError.NONE] * 3
        assert [{place: each.offset for place, each in told.items()} for _, told in found] == [
            {(TOPIC, 0): node.broker_id},
            {(TOPIC, 0): node.broker_id},
            {},
        ]


def _keep(
    found: list[tuple[GroupError, Mapping[TopicPartition, CommittedOffset]]],
    error: GroupError,
    told: Mapping[TopicPartition, CommittedOffset],
) -> None:
    found.append((error, told))
