"""ConsumerGroupDescribe (69): the states and the members of groups of the consumer protocol (KIP-848)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tank_node.broker.topic_ids import topic_uuid
from tank_node.cluster.view import ClusterView
from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.consumer_requests import DescribedConsumerMember
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.kafka import authorized_operations
from tank_node.kafka.errors import KafkaError, first_error, of_group, outcome_of
from tank_node.limits import DESCRIBED_PARTITIONS
from tank_protos.generated.kafka import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, Member
from tank_protos.generated.kafka.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_CLASSIC: Final = 0
_CONSUMER: Final = 1


def consumer_group_describe(call: "KafkaCall", body: memoryview) -> None:
    """Answers at once. Each group comes once, however often it is named. Their partitions are bounded
    together, but for the first group."""
    request = ConsumerGroupDescribeRequest.decode(body, call.version)
    session = call.session
    operations = authorized_operations.NOT_ASKED
    if request.include_authorized_operations:
        operations = authorized_operations.on_groups(session)
    found: list[DescribedGroup] = []
    room = DESCRIBED_PARTITIONS
    for group_id in dict.fromkeys(request.group_ids):
        group = _described(call, group_id)
        room -= sum(_size(each.assignment) + _size(each.target_assignment) + 1 for each in group.members)
        if room < 0 and found:
            message = "an answer has so many partitions at most: ask for fewer groups"
            group = DescribedGroup(KafkaError.POLICY_VIOLATION, message, group_id)
        if not group.error_code:
            group.authorized_operations = operations
        found.append(group)
    call.answer(ConsumerGroupDescribeResponse(groups=found), outcome_of(first_error(found)))


def _described(call: "KafkaCall", group_id: str) -> DescribedGroup:
    broker = call.session.broker
    found = groups_of(broker).describe_consumer(group_id)
    if found.error:
        message = None
        if found.error is GroupError.UNKNOWN_GROUP:
            message = f"there is no group {group_id} of the consumer protocol"
        return DescribedGroup(of_group(found.error), message, group_id)
    view = broker.link.view
    return DescribedGroup(
        group_id=group_id,
        group_state=found.state.value,
        group_epoch=found.epoch,
        assignment_epoch=found.assignment_epoch,
        assignor_name=found.assignor,
        members=[_member(view, each) for each in found.members],
    )


def _member(view: ClusterView, member: DescribedConsumerMember) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        list(member.topics),
        member.regex,
        _assignment(view, member.assignment),
        _assignment(view, member.target),
        _CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(view: ClusterView, partitions: Mapping[str, tuple[int, ...]]) -> Assignment:
    found = []
    for name, numbers in partitions.items():
        topic = view.topic(name)
        if topic is not None:
            found.append(TopicPartitions(topic_uuid(view.cluster_id, topic.topic_id), name, list(numbers)))
    return Assignment(found)


def _size(assignment: Assignment) -> int:
    return sum(len(each.partitions) for each in assignment.topic_partitions)
