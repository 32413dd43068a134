"""A member's heartbeat (80), in the words of the groups' coordinator, and the answer."""

from collections.abc import Callable

from tank_node.coordinators.machine.consumer_requests import (
    JOINS,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
)
from tank_node.peers.group_errors import error_code, telling
from tank_protos.generated.tank import AssignedTopic, GroupHeartbeatRequest, GroupHeartbeatResponse

_UNSAID = -1
_NO_EPOCH = -1
_DEFAULT_REBALANCE_MS = 300_000
"""How long a member may take to give partitions up that says no time of its own when it joins: what stock
clients of Kafka give themselves."""

Heartbeats = Callable[[ConsumerHeartbeat, Callable[[ConsumerHeartbeatAnswer], None]], None]
"""As `Groups.consumer_heartbeat`."""


def heartbeat(
    take: Heartbeats,
    request: GroupHeartbeatRequest,
    host: str,
    done: Callable[[GroupHeartbeatResponse], None],
) -> None:
    """Has the coordinator take a heartbeat. host: the client's address."""
    owned = {each.topic: tuple(each.partitions) for each in request.owned}
    unsaid_ms = _DEFAULT_REBALANCE_MS if request.member_epoch == JOINS else _UNSAID
    take(
        ConsumerHeartbeat(
            group_id=request.group,
            member_id=request.member_id,
            instance_id=request.instance_id or None,
            member_epoch=request.member_epoch,
            rebalance_ms=request.rebalance_timeout_ms or unsaid_ms,
            topics=tuple(request.topics) if request.has_topics else None,
            assignor=request.assignor or None,
            owned=owned if request.has_owned else None,
            client_id=request.client_name,
            client_host=host,
        ),
        lambda answer: done(_answer(answer)),
    )


def _answer(answer: ConsumerHeartbeatAnswer) -> GroupHeartbeatResponse:
    if answer.error:
        message = answer.message or telling(answer.error)
        return GroupHeartbeatResponse(0, error_code(answer.error), message, _NO_EPOCH)
    assigned = [] if answer.assignment is None else _topics(answer)
    return GroupHeartbeatResponse(
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_ms,
        has_assignment=answer.assignment is not None,
        assignment=assigned,
    )


def _topics(answer: ConsumerHeartbeatAnswer) -> list[AssignedTopic]:
    return [AssignedTopic(name, list(numbers)) for name, numbers in sorted((answer.assignment or {}).items())]
