"""JoinGroup (11): a client becomes a member of a classic group's next generation."""

from typing import TYPE_CHECKING, Final

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_requests import JoinAnswer, JoinRequest, MemberName
from tank_node.kafka.client_host import client_host
from tank_node.kafka.errors import of_group, outcome_of
from tank_protos.generated.kafka import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_NEEDS_MEMBER_ID_SINCE: Final = 4
"""The first version in which a new member gets its id before it is one."""
_NULLS_SINCE: Final = 7
"""The first version in which no protocol is null; before that it is empty."""
_SKIP_ASSIGNMENT_SINCE: Final = 9
"""The first version in which a leader can be told that its generation has its assignments."""


def join_group(call: "KafkaCall", body: memoryview) -> None:
    """Answers when the generation has its members, which may take as long as the longest rebalance timeout
    of a member. What the client sends meanwhile on the same connection waits, as at Kafka's brokers: clients
    send no heartbeats while they join."""
    request = JoinGroupRequest.decode(body, call.version)
    instance_id = request.group_instance_id
    session_ms, rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
    joins = JoinRequest(
        MemberName(request.group_id, request.member_id, instance_id),
        call.client_id or "",
        client_host(call.session),
        session_ms,
        session_ms if rebalance_ms < 0 else rebalance_ms,
        request.protocol_type,
        tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        needs_member_id=call.version >= _NEEDS_MEMBER_ID_SINCE and instance_id is None,
        may_skip_assignment=call.version >= _SKIP_ASSIGNMENT_SINCE,
    )

    def done(answer: JoinAnswer) -> None:
        error = of_group(answer.error)
        none = None if call.version >= _NULLS_SINCE else ""
        response = JoinGroupResponse(
            error_code=error,
            generation_id=answer.generation,
            protocol_type=answer.protocol_type,
            protocol_name=none if answer.protocol is None else answer.protocol,
            leader=answer.leader_id,
            skip_assignment=answer.skip_assignment,
            member_id=answer.member_id,
            members=[
                JoinGroupResponseMember(each.member_id, each.instance_id, each.metadata)
                for each in answer.members
            ],
        )
        call.answer(response, outcome_of(error))

    groups_of(call.session.broker).join(joins, done)
