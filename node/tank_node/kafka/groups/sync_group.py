"""SyncGroup (14): a member gets its assignment; the leader brings those of all members."""

from typing import TYPE_CHECKING, Final

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import MemberName, SyncAnswer, SyncRequest
from tank_node.kafka.errors import of_group, outcome_of
from tank_protos.generated.kafka import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_PROTOCOL_SINCE: Final = 5
"""The first version in which the member has to say its protocol and its type."""


def sync_group(call: "KafkaCall", body: memoryview) -> None:
    """Answers when the leader's assignments are stored."""
    request = SyncGroupRequest.decode(body, call.version)

    def done(answer: SyncAnswer) -> None:
        error = of_group(answer.error)
        response = SyncGroupResponse(
            error_code=error,
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol,
            assignment=answer.assignment,
        )
        call.answer(response, outcome_of(error))

    if call.version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        done(SyncAnswer(GroupError.INCONSISTENT_PROTOCOL))
        return
    syncs = SyncRequest(
        MemberName(request.group_id, request.member_id, request.group_instance_id),
        request.generation_id,
        {each.member_id: bytes(each.assignment) for each in request.assignments},
        request.protocol_type,
        request.protocol_name,
    )
    groups_of(call.session.broker).sync(syncs, done)
