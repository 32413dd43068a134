"""Groups of the consumer protocol (KIP-848) from Kafka's requests down to the disk."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tank_node.broker.topic_ids import topic_uuid
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.kafka.errors import KafkaError
from tank_protos.generated.kafka import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tank_protos.generated.kafka.consumer_group_describe_response import DescribedGroup
from tank_protos.generated.kafka.consumer_group_heartbeat_request import TopicPartitions
from tests.support.groups.coordinating import Coordinating, coordinating
from tests.support.nodes.kafka_line import KafkaLine

GROUP = "g"
TEN = list(range(10))
HEARTBEAT, DESCRIBE = 1, 1


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Coordinating]:
    settings = GroupSettings(topic_partitions=1, initial_delay_ms=0)
    with coordinating(tmp_path / "data", settings=settings) as there:
        there.found(GROUP)
        there.load()
        yield there


class Client:
    """A client of the newest version, on a connection of its own."""

    def __init__(self, there: Coordinating, member_id: str = "a") -> None:
        self.there = there
        self.line = KafkaLine(there.node)
        self.line.session.came_from = lambda: "10.0.0.7"
        self.member_id = member_id
        view = there.node.controller.view
        topic = view.topic("orders")
        assert topic is not None
        self.orders = topic_uuid(view.cluster_id, topic.topic_id)

    def heartbeat(
        self,
        epoch: int,
        owned: Sequence[int] | None = None,
        *,
        regex: str | None = None,
        group: str = GROUP,
        version: int = HEARTBEAT,
    ) -> ConsumerGroupHeartbeatResponse:
        joins = epoch == 0
        partitions = None if owned is None else [TopicPartitions(self.orders, list(owned))]
        request = ConsumerGroupHeartbeatRequest(
            group,
            self.member_id,
            epoch,
            None,
            None,
            60_000 if joins else -1,
            ["orders"] if joins and regex is None else None,
            regex,
            None,
            [] if joins else partitions,
        )
        self.line.send(request, version)
        self.there.settle()
        (frame,) = self.line.frames()
        return self.line.read(frame, ConsumerGroupHeartbeatResponse, version)[1]

    def assigned(self, answer: ConsumerGroupHeartbeatResponse) -> list[int] | None:
        assert answer.error_code == 0, answer.error_message
        if answer.assignment is None:
            return None
        for each in answer.assignment.topic_partitions:
            assert each.topic_id == self.orders
            return each.partitions
        return []

    def described(self, version: int = DESCRIBE) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest([GROUP, GROUP], True)
        (group,) = self.line.ask(request, ConsumerGroupDescribeResponse, version).groups
        return group

    def commit(self, offset: int, epoch: int, version: int = 9) -> int:
        topics = [OffsetCommitRequestTopic("orders", [OffsetCommitRequestPartition(0, offset)])]
        self.line.send(OffsetCommitRequest(GROUP, epoch, self.member_id, topics=topics), version)
        self.there.settle()
        (frame,) = self.line.frames()
        (topic,) = self.line.read(frame, OffsetCommitResponse, version)[1].topics
        return topic.partitions[0].error_code

    def committed(self, epoch: int) -> tuple[int, int]:
        group = OffsetFetchRequestGroup(
            GROUP, self.member_id, epoch, [OffsetFetchRequestTopics("orders", [0])]
        )
        (found,) = self.line.ask(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 9).groups
        if found.error_code:
            return found.error_code, -1
        return 0, found.topics[0].partitions[0].committed_offset


def test_two_members_share_a_topic(there: Coordinating) -> None:
    first, second = Client(there), Client(there, "b")
    assert first.assigned(first.heartbeat(0)) == TEN
    assert second.assigned(second.heartbeat(0)) == []
    assert first.assigned(first.heartbeat(1, TEN)) == TEN[:5]
    answer = first.heartbeat(1, TEN[:5])
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert second.assigned(second.heartbeat(2)) == TEN[5:]


def test_a_member_of_version_0_gets_its_id_from_the_coordinator(there: Coordinating) -> None:
    client = Client(there, "")
    answer = client.heartbeat(0, version=0)
    assert answer.error_code == 0
    assert answer.member_id == "test-1"


def test_a_member_of_version_1_has_an_id(there: Coordinating) -> None:
    answer = Client(there, "").heartbeat(0)
    assert answer.error_code == KafkaError.INVALID_REQUEST
    assert answer.error_message
    assert answer.member_id is None


def test_a_group_has_a_name(there: Coordinating) -> None:
    answer = Client(there, "a").heartbeat(0, group="")
    assert answer.error_code == KafkaError.INVALID_REQUEST
    assert answer.error_message


def test_a_member_may_read_by_a_regular_expression(there: Coordinating) -> None:
    client = Client(there)
    assert client.assigned(client.heartbeat(0, regex="ord.*")) == TEN
    assert Client(there, "b").heartbeat(0, regex="(").error_code == KafkaError.INVALID_REGULAR_EXPRESSION


def test_wrong_epochs_and_members_have_kafkas_errors(there: Coordinating) -> None:
    client = Client(there)
    client.heartbeat(0)
    assert client.heartbeat(7).error_code == KafkaError.FENCED_MEMBER_EPOCH
    assert Client(there, "b").heartbeat(1).error_code == KafkaError.UNKNOWN_MEMBER_ID


def test_partitions_of_unknown_topics_are_not_owned(there: Coordinating) -> None:
    client, other = Client(there), Client(there, "b")
    client.heartbeat(0)
    other.heartbeat(0)
    client.heartbeat(1, TEN)
    client.orders = bytes(15) + b"\7"
    answer = client.heartbeat(1, TEN)
    assert answer.member_epoch == 2, "it has nothing of what it was to give up"


def test_tools_see_the_group(there: Coordinating) -> None:
    client = Client(there)
    assert client.described().error_code == KafkaError.GROUP_ID_NOT_FOUND
    client.heartbeat(0)
    group = client.described()
    assert (group.group_id, group.group_state, group.group_epoch, group.assignment_epoch) == (
        GROUP,
        "Stable",
        1,
        1,
    )
    assert group.assignor_name == "uniform"
    assert group.authorized_operations > 0
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == ("a", "test", "/10.0.0.7")
    assert (member.member_epoch, member.subscribed_topic_names, member.member_type) == (1, ["orders"], 1)
    for assignment in (member.assignment, member.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (topic.topic_id, topic.topic_name, topic.partitions) == (client.orders, "orders", TEN)


def test_the_list_of_groups_has_types_and_states(there: Coordinating) -> None:
    client = Client(there)
    client.heartbeat(0)

    def listed(states: list[str], types: list[str]) -> list[tuple[str, str, str]]:
        groups = client.line.ask(ListGroupsRequest(states, types), ListGroupsResponse, 5).groups
        return [(each.group_id, each.group_state, each.group_type) for each in groups]

    assert listed([], []) == [(GROUP, "Stable", "consumer")]
    assert listed(["stable"], ["Consumer"]) == [(GROUP, "Stable", "consumer")]
    assert listed([], ["classic"]) == []
    assert listed(["Empty"], []) == []


def test_as_a_classic_group_it_is_not_there(there: Coordinating) -> None:
    client = Client(there)
    client.heartbeat(0)
    (group,) = client.line.ask(DescribeGroupsRequest([GROUP]), DescribeGroupsResponse, 6).groups
    assert (group.error_code, group.group_state) == (KafkaError.GROUP_ID_NOT_FOUND, "Dead")
    (group,) = client.line.ask(DescribeGroupsRequest([GROUP]), DescribeGroupsResponse, 5).groups
    assert (group.error_code, group.group_state) == (0, "Dead")


def test_offsets_are_a_members_in_its_epoch(there: Coordinating) -> None:
    client = Client(there)
    client.heartbeat(0)
    assert client.commit(7, 1) == 0
    assert client.committed(1) == (0, 7)
    assert client.commit(8, 2) == KafkaError.STALE_MEMBER_EPOCH
    assert client.commit(8, 2, version=8) == KafkaError.UNSUPPORTED_VERSION
    assert client.committed(2) == (KafkaError.STALE_MEMBER_EPOCH, -1)
    assert Client(there, "b").committed(1) == (KafkaError.UNKNOWN_MEMBER_ID, -1)
