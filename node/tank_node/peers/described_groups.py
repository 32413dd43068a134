"""A group in an answer to DescribeGroups (81), from what its coordinator knows."""

from tank_node.coordinators.classic.subscription import CONSUMER, topics_in
from tank_node.coordinators.groups import Groups
from tank_node.coordinators.iggy.iggy_group import IGGY
from tank_node.coordinators.machine.consumer_requests import DescribedConsumerGroup
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import DescribedMember
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.peers.group_errors import error_code, telling
from tank_protos.error_codes import GroupStateCode
from tank_protos.generated.kafka.consumer_protocol_assignment import ConsumerProtocolAssignment
from tank_protos.generated.tank import DescribedGroup, GroupMember, MemberTopic
from tank_protos.wire.errors import WireError

_VERSION_BYTES = 2
_MOST_NAME_BYTES = 0xFF
_MOST = 0xFFFF
"""The greatest count, and number, of a field of 16 bits."""


def described(groups: Groups, group_id: str, error: GroupError) -> DescribedGroup:
    """A group with its members, or why it can't be shown (error). What members of the type `consumer`
    say, and what Iggy's have, is read; of others it is left out."""
    if error:
        return DescribedGroup(error_code(error), telling(error), group_id)
    consumers = groups.describe_consumer(group_id)
    if not consumers.error:
        return _of_consumers(consumers)
    found = groups.describe(group_id)
    if found.state is GroupState.DEAD and not found.error:
        error = GroupError.UNKNOWN_GROUP
        return DescribedGroup(error_code(error), telling(error), group_id)
    if found.error:
        return DescribedGroup(error_code(found.error), telling(found.error), group_id)
    is_read = found.protocol_type in (CONSUMER, IGGY)
    return DescribedGroup(
        group=group_id,
        state=GroupStateCode[found.state.name],
        protocol_type=found.protocol_type,
        protocol=found.protocol,
        epoch=found.generation,
        members=[_classic(each, found.generation, is_read=is_read) for each in found.members],
    )


def _of_consumers(found: DescribedConsumerGroup) -> DescribedGroup:
    """A group whose coordinator assigns the partitions."""
    return DescribedGroup(
        group=found.group_id,
        state=GroupStateCode[found.state.name],
        protocol_type=CONSUMER,
        protocol=found.assignor,
        epoch=found.epoch,
        members=[
            GroupMember(
                each.member_id,
                each.instance_id or "",
                each.client_id,
                each.client_host,
                each.member_epoch,
                [name for name in sorted(each.topics) if _fits(name)][:_MOST],
                [
                    MemberTopic(name, list(numbers))
                    for name, numbers in sorted(each.assignment.items())
                    if _fits(name)
                ],
            )
            for each in found.members
        ],
    )


def _classic(member: DescribedMember, generation: int, *, is_read: bool) -> GroupMember:
    subscribed = topics_in(member.metadata) if is_read else None
    return GroupMember(
        member.member_id,
        member.instance_id or "",
        member.client_id,
        member.client_host,
        generation,
        [name for name in sorted(subscribed or ()) if _fits(name)][:_MOST],
        assigned_in(member.assignment) if is_read else [],
    )


def assigned_in(assignment: bytes) -> list[MemberTopic]:
    """The partitions of one consumer's assignment, whose version stands before it; none when it can't be
    read."""
    if len(assignment) < _VERSION_BYTES:
        return []
    version = int.from_bytes(assignment[:_VERSION_BYTES], "big", signed=True)
    known = min(version, ConsumerProtocolAssignment.VERSIONS[1])
    try:
        found, _ = ConsumerProtocolAssignment.read(memoryview(assignment)[_VERSION_BYTES:], 0, known)
    except (WireError, UnicodeDecodeError):
        return []
    return [
        MemberTopic(topic.topic, [number for number in topic.partitions if 0 <= number <= _MOST][:_MOST])
        for topic in found.assigned_partitions
        if _fits(topic.topic)
    ][:_MOST]


def _fits(name: str) -> bool:
    """Whether a name that a client chose can be that of a topic in our messages."""
    return len(name.encode("utf-8", "surrogateescape")) <= _MOST_NAME_BYTES
