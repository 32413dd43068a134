"""ListGroups (16): the groups that this broker coordinates. Tools ask every broker."""

from typing import TYPE_CHECKING, Final

from tank_node.coordinators.groups import groups_of
from tank_node.kafka.errors import of_group, outcome_of
from tank_protos.generated.kafka import ListGroupsRequest, ListGroupsResponse
from tank_protos.generated.kafka.list_groups_response import ListedGroup

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_TYPE: Final = "classic"
"""The type of all groups: their members coordinate themselves by JoinGroup and SyncGroup."""


def list_groups(call: "KafkaCall", body: memoryview) -> None:
    """Answers at once. States and types to list are compared without regard to case; none: all are listed."""
    request = ListGroupsRequest.decode(body, call.version)
    states = {state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    error, listed = groups_of(call.session.broker).listed()
    code = of_group(error)
    groups = [
        ListedGroup(each.group_id, each.protocol_type, each.state.value, _TYPE)
        for each in listed
        if (not states or each.state.value.lower() in states) and (not types or _TYPE in types)
    ]
    call.answer(ListGroupsResponse(error_code=code, groups=groups), outcome_of(code))
