"""Heartbeat (12): a member of a classic group is alive."""

from typing import TYPE_CHECKING

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import MemberName
from tank_node.kafka.errors import of_group, outcome_of
from tank_protos.generated.kafka import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def heartbeat(call: "KafkaCall", body: memoryview) -> None:
    """Answers at once. While the coordinator reads its groups, every member lives, as Kafka's brokers say:
    each has one session more when it is through, and some clients end with any error but those they know."""
    request = HeartbeatRequest.decode(body, call.version)
    member = MemberName(request.group_id, request.member_id, request.group_instance_id)
    refusal = groups_of(call.session.broker).heartbeat(member, request.generation_id)
    error = of_group(GroupError.NONE if refusal is GroupError.LOADING else refusal)
    call.answer(HeartbeatResponse(error_code=error), outcome_of(error))
