"""ConsumerGroupHeartbeat (68): a member of a group of the consumer protocol joins, lives, or leaves
(KIP-848)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tank_node.broker.topic_ids import topic_by_uuid, topic_uuid
from tank_node.cluster.view import ClusterView
from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.kafka.client_host import client_host
from tank_node.kafka.errors import of_group, outcome_of
from tank_protos.generated.kafka import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tank_protos.generated.kafka.consumer_group_heartbeat_request import TopicPartitions
from tank_protos.generated.kafka.consumer_group_heartbeat_response import Assignment
from tank_protos.generated.kafka.consumer_group_heartbeat_response import TopicPartitions as Assigned

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_CHOOSES_ID_SINCE: Final = 1
"""The first version in which a member chooses its id itself."""


def consumer_group_heartbeat(call: "KafkaCall", body: memoryview) -> None:
    """Answers when what the member hears is stored."""
    request = ConsumerGroupHeartbeatRequest.decode(body, call.version)
    session = call.session
    view = session.broker.link.view

    def done(answer: ConsumerHeartbeatAnswer) -> None:
        error = of_group(answer.error)
        if error:
            response = ConsumerGroupHeartbeatResponse(error_code=error, error_message=answer.message)
        else:
            response = ConsumerGroupHeartbeatResponse(
                member_id=answer.member_id,
                member_epoch=answer.member_epoch,
                heartbeat_interval_ms=answer.heartbeat_ms,
                assignment=_assignment(view, answer.assignment),
            )
        call.answer(response, outcome_of(error))

    message = ""
    if not request.group_id:
        message = "a group has a name"
    elif call.version >= _CHOOSES_ID_SINCE and not request.member_id:
        message = "a member chooses its id"
    if message:
        done(ConsumerHeartbeatAnswer(GroupError.INVALID_REQUEST, message))
        return
    topics = request.subscribed_topic_names
    heartbeat = ConsumerHeartbeat(
        request.group_id,
        request.member_id,
        request.instance_id,
        request.member_epoch,
        request.rack_id,
        request.rebalance_timeout_ms,
        None if topics is None else tuple(topics),
        request.subscribed_topic_regex,
        request.server_assignor,
        _owned(view, request.topic_partitions),
        call.client_id or "",
        client_host(session),
    )
    groups_of(session.broker).consumer_heartbeat(heartbeat, done)


def _owned(view: ClusterView, said: Sequence[TopicPartitions] | None) -> Mapping[str, tuple[int, ...]] | None:
    """The partitions that a member has, by their topics' names; those of deleted topics are no more."""
    if said is None:
        return None
    found: dict[str, set[int]] = {}
    for each in said:
        topic = topic_by_uuid(view, each.topic_id)
        if topic is not None:
            found.setdefault(topic.name, set()).update(each.partitions)
    return {name: tuple(sorted(numbers)) for name, numbers in found.items()}


def _assignment(view: ClusterView, partitions: Mapping[str, tuple[int, ...]] | None) -> Assignment | None:
    if partitions is None:
        return None
    found = []
    for name, numbers in partitions.items():
        topic = view.topic(name)
        if topic is not None:
            found.append(Assigned(topic_uuid(view.cluster_id, topic.topic_id), list(numbers)))
    return Assignment(found)
