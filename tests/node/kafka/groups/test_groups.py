"""Groups from Kafka's requests down to the disk: members share partitions, commit, and are shown to tools."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_protos.generated.kafka import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupRequestProtocolCollection,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteRequestTopicCollection,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tank_protos.wire.message import Message
from tests.support.groups.coordinating import Coordinating, coordinating
from tests.support.nodes.kafka_line import KafkaLine

GROUP = "g"
M = TypeVar("M", bound=Message)
JOIN, SYNC, HEARTBEAT, COMMIT, FETCH = 9, 5, 4, 9, 7
"""The versions that these clients speak."""
DELAY_MS = 10
"""How long a new group waits for more members."""


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Coordinating]:
    settings = GroupSettings(topic_partitions=1, initial_delay_ms=DELAY_MS)
    with coordinating(tmp_path / "data", settings=settings) as there:
        there.found(GROUP)
        there.load()
        yield there


class Client:
    """A client of the newest version, on a connection of its own."""

    def __init__(self, there: Coordinating) -> None:
        self.there = there
        self.line = KafkaLine(there.node)
        self.line.session.came_from = lambda: "10.0.0.7"
        self.member_id = ""
        self.generation = -1

    def answer(self, kind: type[M], version: int) -> M:
        """The only answer, when the disk has what it waits for."""
        self.there.settle()
        (frame,) = self.line.frames()
        return self.line.read(frame, kind, version)[1]

    def begin_join(self, metadata: bytes = b"subscription", instance_id: str | None = None) -> None:
        protocols = JoinGroupRequestProtocolCollection([JoinGroupRequestProtocol("range", metadata)])
        request = JoinGroupRequest(GROUP, 10_000, 60_000, self.member_id, instance_id, "consumer", protocols)
        self.line.send(request, JOIN)

    def joined(self) -> JoinGroupResponse:
        answer = self.answer(JoinGroupResponse, JOIN)
        if answer.member_id:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def ask_for_id(self) -> None:
        self.begin_join()
        answer = self.joined()
        assert (answer.error_code, answer.generation_id) == (79, -1)

    def begin_sync(self, assignments: dict[str, bytes] | None = None) -> None:
        given = [SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()]
        request = SyncGroupRequest(GROUP, self.generation, self.member_id, None, "consumer", "range", given)
        self.line.send(request, SYNC)

    def synced(self) -> tuple[int, bytes]:
        answer = self.answer(SyncGroupResponse, SYNC)
        return answer.error_code, bytes(answer.assignment)

    def heartbeat(self) -> int:
        request = HeartbeatRequest(GROUP, self.generation, self.member_id)
        return self.line.ask(request, HeartbeatResponse, HEARTBEAT).error_code

    def commit(self, offset: int) -> int:
        partitions = [OffsetCommitRequestPartition(0, offset)]
        topics = [OffsetCommitRequestTopic("orders", partitions)]
        self.line.send(OffsetCommitRequest(GROUP, self.generation, self.member_id, topics=topics), COMMIT)
        (topic,) = self.answer(OffsetCommitResponse, COMMIT).topics
        return topic.partitions[0].error_code

    def committed(self) -> int:
        request = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic("orders", [0])])
        answer = self.line.ask(request, OffsetFetchResponse, FETCH)
        assert answer.error_code == 0
        return answer.topics[0].partitions[0].committed_offset


def gather(there: Coordinating) -> None:
    """Time passes until a new group waits for no more members: a delay follows each in which one came."""
    for _ in range(10):
        there.node.pass_ms(DELAY_MS)


def two_members(there: Coordinating) -> tuple[Client, Client]:
    """A leader and a follower, both in the group's next generation, before they sync."""
    one, two = Client(there), Client(there)
    for each in (one, two):
        each.ask_for_id()
    one.begin_join()
    two.begin_join()
    gather(there)
    first, second = one.joined(), two.joined()
    assert (first.error_code, second.error_code) == (0, 0)
    assert first.generation_id == second.generation_id
    assert first.leader == second.leader
    return (one, two) if first.leader == one.member_id else (two, one)


def stable_pair(there: Coordinating) -> tuple[Client, Client]:
    """The same, with their assignments."""
    leader, follower = two_members(there)
    leader.begin_sync({leader.member_id: b"0-4", follower.member_id: b"5-9"})
    assert leader.synced() == (0, b"0-4")
    follower.begin_sync()
    assert follower.synced() == (0, b"5-9")
    return leader, follower


def test_the_first_question_for_a_coordinator_creates_its_topic(tmp_path: Path) -> None:
    with coordinating(tmp_path / "data") as there:
        line = KafkaLine(there.node)
        answer = line.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse, 6)
        (found,) = answer.coordinators
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "127.0.0.1", 9092)
        assert there.node.controller.view.topic("__consumer_offsets") is not None


def test_the_leader_alone_hears_of_all_members(there: Coordinating) -> None:
    one, two = Client(there), Client(there)
    for each in (one, two):
        each.ask_for_id()
        each.begin_join()
    gather(there)
    answers = [one.joined(), two.joined()]
    lists = [[member.member_id for member in answer.members] for answer in answers]
    assert sorted(map(sorted, lists)) == [[], sorted([one.member_id, two.member_id])]


def test_a_follower_that_syncs_before_the_leader_waits_for_it(there: Coordinating) -> None:
    leader, follower = two_members(there)
    follower.begin_sync()
    assert follower.line.frames() == []
    leader.begin_sync({leader.member_id: b"0-4", follower.member_id: b"5-9"})
    assert leader.synced() == (0, b"0-4")
    assert follower.synced() == (0, b"5-9")


def test_a_leader_that_joins_again_with_the_same_subscription_begins_a_rebalance(
    there: Coordinating,
) -> None:
    """So it finds new partitions of its topics."""
    leader, follower = stable_pair(there)
    leader.begin_join()
    assert follower.heartbeat() == 27


def test_a_follower_that_joins_again_with_the_same_subscription_disturbs_nobody(
    there: Coordinating,
) -> None:
    leader, follower = stable_pair(there)
    before = follower.generation
    follower.begin_join()
    assert follower.joined().generation_id == before
    assert leader.heartbeat() == 0


def test_a_commit_while_the_group_gathers_its_members_is_taken_and_one_before_the_assignment_is_to_wait(
    there: Coordinating,
) -> None:
    """Libraries that hear UNKNOWN_MEMBER_ID (25) lose their place in the group; after 27 they join again."""
    leader, follower = stable_pair(there)
    third = Client(there)
    third.ask_for_id()
    third.begin_join()
    assert leader.commit(5) == 0
    leader.begin_join()
    follower.begin_join()
    gather(there)
    for each in (leader, follower, third):
        each.joined()
    assert leader.commit(6) == 27
    assert leader.committed() == 5


def test_a_member_of_a_former_generation_commits_nothing(there: Coordinating) -> None:
    leader, _ = stable_pair(there)
    leader.generation -= 1
    assert leader.commit(5) == 22
    leader.member_id, leader.generation = "somebody", leader.generation + 1
    assert leader.commit(5) == 25
    assert leader.committed() == -1


def test_a_member_that_leaves_is_out_and_the_others_gather(there: Coordinating) -> None:
    leader, follower = stable_pair(there)
    request = LeaveGroupRequest(GROUP, members=[MemberIdentity(follower.member_id)])
    follower.line.send(request, 5)
    answer = follower.answer(LeaveGroupResponse, 5)
    assert (answer.error_code, [each.error_code for each in answer.members]) == (0, [0])
    assert leader.heartbeat() == 27
    assert follower.heartbeat() == 25


def test_a_member_that_is_silent_for_a_session_is_out(there: Coordinating) -> None:
    leader, follower = stable_pair(there)
    for _ in range(11):
        there.node.pass_ms(1_000)
        leader.heartbeat()
    assert follower.heartbeat() == 25


def test_a_client_without_a_group_commits_and_fetches(there: Coordinating) -> None:
    client = Client(there)
    assert client.committed() == -1
    assert client.commit(7) == 0
    assert client.committed() == 7


def test_tools_see_groups_and_delete_them_when_they_are_empty(there: Coordinating) -> None:
    leader, follower = stable_pair(there)
    assert leader.commit(5) == 0
    line = KafkaLine(there.node)
    listed = line.ask(ListGroupsRequest(), ListGroupsResponse, 5)
    assert [(each.group_id, each.group_state, each.group_type) for each in listed.groups] == [
        (GROUP, "Stable", "classic")
    ]
    (described,) = line.ask(DescribeGroupsRequest([GROUP]), DescribeGroupsResponse, 6).groups
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert sorted(
        (each.client_id, each.client_host, bytes(each.member_metadata), bytes(each.member_assignment))
        for each in described.members
    ) == [
        ("test", "/10.0.0.7", b"subscription", b"0-4"),
        ("test", "/10.0.0.7", b"subscription", b"5-9"),
    ]
    assert deleted(there, line) == 68
    members = [MemberIdentity(each.member_id) for each in (leader, follower)]
    leader.line.send(LeaveGroupRequest(GROUP, members=members), 5)
    leader.answer(LeaveGroupResponse, 5)
    assert deleted(there, line) == 0
    assert deleted(there, line) == 69
    assert line.ask(ListGroupsRequest(), ListGroupsResponse, 5).groups == []


def deleted(there: Coordinating, line: KafkaLine) -> int:
    """Deletes the group; returns the error."""
    line.send(DeleteGroupsRequest([GROUP]), 2)
    there.settle()
    (frame,) = line.frames()
    (result,) = line.read(frame, DeleteGroupsResponse, 2)[1].results
    return result.error_code


def test_an_offset_is_deleted_alone(there: Coordinating) -> None:
    client = Client(there)
    assert client.commit(7) == 0
    partitions = [OffsetDeleteRequestPartition(0)]
    topics = OffsetDeleteRequestTopicCollection([OffsetDeleteRequestTopic("orders", partitions)])
    client.line.send(OffsetDeleteRequest(GROUP, topics), 0)
    answer = client.answer(OffsetDeleteResponse, 0)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert client.committed() == -1
