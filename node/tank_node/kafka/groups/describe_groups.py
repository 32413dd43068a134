"""DescribeGroups (15): the states and the members of groups."""

from typing import TYPE_CHECKING, Final

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.kafka import authorized_operations
from tank_node.kafka.errors import KafkaError, first_error, of_group, outcome_of
from tank_node.limits import DESCRIBED_MEMBER_BYTES
from tank_protos.generated.kafka import DescribeGroupsRequest, DescribeGroupsResponse
from tank_protos.generated.kafka.describe_groups_response import DescribedGroup, DescribedGroupMember

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_UNKNOWN_SINCE: Final = 6
"""The first version in which a group that isn't there is an error. Before that it is "Dead", without one."""


def describe_groups(call: "KafkaCall", body: memoryview) -> None:
    """Answers at once. Each group comes once, however often it is named. What members say is bounded
    together, but for the first group."""
    request = DescribeGroupsRequest.decode(body, call.version)
    session = call.session
    operations = authorized_operations.NOT_ASKED
    if request.include_authorized_operations:
        operations = authorized_operations.on_groups(session)
    found: list[DescribedGroup] = []
    room = DESCRIBED_MEMBER_BYTES
    for group_id in dict.fromkeys(request.groups):
        group = _described(call, group_id)
        room -= sum(len(each.member_metadata) + len(each.member_assignment) for each in group.members)
        if room < 0 and found:
            message = "an answer has so many members at most: ask for fewer groups"
            group = DescribedGroup(KafkaError.POLICY_VIOLATION, message, group_id)
        if not group.error_code:
            group.authorized_operations = operations
        found.append(group)
    call.answer(DescribeGroupsResponse(groups=found), outcome_of(first_error(found)))


def _described(call: "KafkaCall", group_id: str) -> DescribedGroup:
    found = groups_of(call.session.broker).describe(group_id)
    if found.error not in (GroupError.NONE, GroupError.UNKNOWN_GROUP):
        return DescribedGroup(of_group(found.error), group_id=group_id)
    if found.error or found.state is GroupState.DEAD:
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if call.version >= _UNKNOWN_SINCE:
            described.error_code = KafkaError.GROUP_ID_NOT_FOUND
            described.error_message = f"there is no group {group_id}"
        return described
    return DescribedGroup(
        group_id=group_id,
        group_state=found.state.value,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=[
            DescribedGroupMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.metadata,
                each.assignment,
            )
            for each in found.members
        ],
    )
