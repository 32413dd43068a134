"""LeaveGroup (13): members leave a classic group, or are taken out by an administrator."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.kafka.errors import first_error, of_group, outcome_of
from tank_protos.generated.kafka import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_SEVERAL_SINCE: Final = 3
"""The first version that names several members, and has a result for each."""


def leave_group(call: "KafkaCall", body: memoryview) -> None:
    """Answers with a result for each member; in older versions the only one's is the answer's own."""
    request = LeaveGroupRequest.decode(body, call.version)
    are_several = call.version >= _SEVERAL_SINCE
    members = request.members if are_several else [MemberIdentity(request.member_id)]

    def done(error: GroupError, results: Sequence[GroupError]) -> None:
        response = LeaveGroupResponse(error_code=of_group(error))
        if not error:
            response.members = [
                MemberResponse(each.member_id, each.group_instance_id, of_group(result))
                for each, result in zip(members, results, strict=True)
            ]
        failed = response.error_code or first_error(response.members)
        if not are_several:
            response = LeaveGroupResponse(error_code=failed)
        call.answer(response, outcome_of(failed))

    named = [(each.member_id, each.group_instance_id) for each in members]
    groups_of(call.session.broker).leave(request.group_id, named, done)
