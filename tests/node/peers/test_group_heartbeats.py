"""Heartbeats of members of our own client, by way of any broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.error_codes import ErrorCode, GroupStateCode
from tank_protos.feature_levels import GROUPS, NATIVE_GROUPS
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OwnedTopic,
    PositionToCommit,
)
from tank_protos.wire.names import GROUPS_TOPIC
from tests.support.nodes.bench_node import BenchClient
from tests.support.nodes.broker_cell import BrokerCell

TOPIC = "orders"
PASSING = (ErrorCode.COORDINATOR_LOADING, ErrorCode.TIMED_OUT)
JOINS, LEAVES = 0, -1

Assigned = dict[str, list[int]]


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers; broker 1 coordinates all groups."""
    cell = BrokerCell(tmp_path, 3)
    for node in cell.nodes.values():
        node.controller.view.feature_level = NATIVE_GROUPS
    cell.create(TOPIC, 4, flush="replicated")
    cell.create(GROUPS_TOPIC, 1, flush="replicated", log_format="kafka", log_cleanup_policy="cleanup")
    cell.run(300)
    yield cell
    cell.close()


class Member:
    """One member, and what it heard last."""

    def __init__(self, cell: BrokerCell, broker_id: int, member_id: str, instance_id: str = "") -> None:
        self._cell = cell
        self._client: BenchClient = cell.nodes[broker_id].client()
        self._client.session.came_from = lambda: f"10.0.0.{broker_id}"
        self._member_id, self._instance_id = member_id, instance_id
        self.epoch = JOINS
        self.owned: Assigned = {}

    def says(self, epoch: int, **more: object) -> GroupHeartbeatResponse:
        """Sends one heartbeat; the coordinator may have to read its groups first."""
        request = GroupHeartbeatRequest(
            request_id=9,
            group="g",
            member_id=self._member_id,
            instance_id=self._instance_id,
            member_epoch=epoch,
            rebalance_timeout_ms=30_000,
            has_topics=int(epoch == JOINS),
            topics=[TOPIC] if epoch == JOINS else [],
            has_owned=1,
            owned=[OwnedTopic(topic, numbers) for topic, numbers in self.owned.items()],
            client_name="a test",
        )
        for name, value in more.items():
            setattr(request, name, value)
        for _ in range(20):
            self._client.send(request)
            self._cell.run(300)
            ((message_id, payload),) = self._client.answers()
            assert message_id == GroupHeartbeatResponse.ID
            told = GroupHeartbeatResponse.decode(payload)
            assert told.request_id == 9
            if told.error not in PASSING:
                return told
        raise AssertionError("it is refused for ever")

    def beats(self) -> Assigned:
        """A heartbeat that is accepted. Returns what the member has then."""
        told = self.says(self.epoch)
        assert not told.error, told.message
        self.epoch = told.member_epoch
        assert told.heartbeat_interval_ms > 0
        if told.has_assignment:
            self.owned = {each.topic: list(each.partitions) for each in told.assignment}
        return self.owned

    def commits(self, epoch: int) -> list[int]:
        """The errors of a commit in this epoch: that of the request, and the position's."""
        request = CommitPositionsRequest(
            1, 4, "g", self._member_id, epoch, [PositionToCommit(TOPIC, 0, 7, "")]
        )
        self._client.send(request)
        self._cell.run(300)
        ((_, payload),) = self._client.answers()
        told = CommitPositionsResponse.decode(payload)
        return [told.error, *(each.error for each in told.results)]


@pytest.mark.parametrize("rebalance_timeout_ms", [2**31, 2**32 - 1])
def test_a_member_with_a_time_that_no_record_holds_is_refused_and_others_go_on(
    cell: BrokerCell, rebalance_timeout_ms: int
) -> None:
    other = Member(cell, 2, "b")
    assert other.beats() == {TOPIC: [0, 1, 2, 3]}
    told = Member(cell, 3, "a").says(JOINS, rebalance_timeout_ms=rebalance_timeout_ms)
    assert told.error == ErrorCode.INVALID_REQUEST
    assert other.beats() == {TOPIC: [0, 1, 2, 3]}


def test_a_member_that_says_no_rebalance_timeout_has_the_usual_one(cell: BrokerCell) -> None:
    told = Member(cell, 3, "a").says(JOINS, rebalance_timeout_ms=0)
    assert (told.error, told.member_epoch) == (0, 1)


def settle(*members: Member) -> list[Assigned]:
    """What each has when they have told each other what they gave up."""
    for _ in range(4):
        shares = [member.beats() for member in members]
    return shares


def test_members_at_different_brokers_share_a_topics_partitions(cell: BrokerCell) -> None:
    first = Member(cell, 1, "a")
    assert first.beats() == {TOPIC: [0, 1, 2, 3]}
    others = [Member(cell, 2, "b"), Member(cell, 3, "c")]
    shares = settle(first, *others)
    assert sorted(number for share in shares for number in share[TOPIC]) == [0, 1, 2, 3]
    assert {len(share[TOPIC]) for share in shares} == {1, 2}


def test_an_answer_without_news_repeats_no_partitions(cell: BrokerCell) -> None:
    member = Member(cell, 2, "a")
    member.beats()
    told = member.says(member.epoch, has_owned=0, owned=[])
    assert (told.error, told.member_epoch, told.has_assignment) == (0, member.epoch, 0)


def test_a_member_that_leaves_gives_its_partitions_to_the_others(cell: BrokerCell) -> None:
    first, second = Member(cell, 1, "a"), Member(cell, 2, "b")
    settle(first, second)
    told = second.says(LEAVES)
    assert (told.error, told.member_epoch) == (0, LEAVES)
    assert settle(first) == [{TOPIC: [0, 1, 2, 3]}]


def test_refusals_have_a_code_of_ours_and_a_sentence(cell: BrokerCell) -> None:
    member = Member(cell, 3, "a")
    member.beats()
    refused = {
        ErrorCode.FENCED_MEMBER_EPOCH: member.says(member.epoch + 5),
        ErrorCode.UNKNOWN_MEMBER: Member(cell, 2, "nowhere").says(3),
        ErrorCode.UNSUPPORTED_ASSIGNOR: Member(cell, 2, "b").says(JOINS, assignor="sticky"),
        ErrorCode.INVALID_NAME: Member(cell, 2, "b").says(JOINS, group=""),
    }
    assert {code: told.error for code, told in refused.items()} == {code: code for code in refused}
    assert all(told.message and told.member_epoch == -1 for told in refused.values())


def test_a_static_member_is_not_replaced_while_it_lives(cell: BrokerCell) -> None:
    Member(cell, 1, "a", "rack-1").beats()
    told = Member(cell, 2, "b", "rack-1").says(JOINS)
    assert told.error == ErrorCode.UNRELEASED_INSTANCE


def test_commits_of_a_member_need_its_epoch(cell: BrokerCell) -> None:
    member = Member(cell, 2, "a")
    member.beats()
    assert member.commits(member.epoch) == [0, 0]
    assert member.commits(member.epoch + 1) == [ErrorCode.STALE_MEMBER_EPOCH]


def test_a_group_is_described_with_its_members_and_what_they_have(cell: BrokerCell) -> None:
    member = Member(cell, 2, "a", "rack-1")
    member.beats()
    client = cell.nodes[3].client()
    client.send(DescribeGroupsRequest(0, 1, ["g"]))
    cell.run(300)
    ((_, payload),) = client.answers()
    (group,) = DescribeGroupsResponse.decode(payload).groups
    assert (group.protocol_type, group.epoch) == ("consumer", member.epoch)
    (shown,) = group.members
    assert (shown.member_id, shown.instance_id, shown.host) == ("a", "rack-1", "10.0.0.2")
    assert (shown.client_name, shown.epoch, shown.subscribed) == ("a test", member.epoch, [TOPIC])
    assert [(each.topic, each.partitions) for each in shown.assignment] == [(TOPIC, [0, 1, 2, 3])]


def test_every_broker_lists_a_group_with_the_number_of_its_members(cell: BrokerCell) -> None:
    settle(Member(cell, 1, "a"), Member(cell, 2, "b"))
    for node in cell.nodes.values():
        client = node.client()
        client.send(ListGroupsRequest(1, 1))
        cell.run(300)
        ((_, payload),) = client.answers()
        listed = ListGroupsResponse.decode(payload, 1).listed
        assert [(each.group, each.state, each.members) for each in listed] == [
            ("g", GroupStateCode.STABLE, 2)
        ]


def test_below_the_level_members_hear_what_to_wait_for(cell: BrokerCell) -> None:
    cell.nodes[2].controller.view.feature_level = GROUPS
    told = Member(cell, 2, "a").says(JOINS)
    assert told.error == ErrorCode.LEVEL_TOO_LOW
    assert "feature level 4" in told.message
