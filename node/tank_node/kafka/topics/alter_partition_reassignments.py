"""AlterPartitionReassignments (45): moves replicas to other brokers, and stops that."""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.cluster.link import Placement
from tank_node.cluster.view import PartitionView
from tank_node.kafka.errors import KafkaError, of_controllers, outcome_of
from tank_node.kafka.topics.replica_changes import ReplicaChange, propose_in_turn
from tank_node.metrics import OK
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from tank_protos.generated.kafka.alter_partition_reassignments_request import ReassignablePartition
from tank_protos.generated.kafka.alter_partition_reassignments_response import (
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_CODES: Final = {
    ErrorCode.UNKNOWN_BROKER: KafkaError.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.INELIGIBLE_REPLICA: KafkaError.INVALID_REPLICA_ASSIGNMENT,
    ErrorCode.IN_USE: KafkaError.REASSIGNMENT_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS: KafkaError.NOT_ENOUGH_REPLICAS,
}
"""What `of_controllers` has no other use for, and this request does."""
_SENTENCES: Final = {
    ErrorCode.UNKNOWN_BROKER: "there is no broker of one of these ids",
    ErrorCode.INELIGIBLE_REPLICA: "one of these brokers is being drained, or has no room",
    ErrorCode.INVALID_REPLICATION_FACTOR: "a partition keeps as many replicas as its topic has, each on a "
    "broker of its own",
    ErrorCode.IN_USE: "the replicas move to other brokers already: stop that first",
    ErrorCode.NOT_ENOUGH_REPLICAS: "the added replicas hold records that too few others have: wait until "
    "more are in sync",
}


def alter_partition_reassignments(call: "KafkaCall", body: memoryview) -> None:
    """Answers for each partition when the controllers have judged it. The moves go on after that."""
    request = AlterPartitionReassignmentsRequest.decode(body, call.version)
    broker = call.session.broker
    view, requests = broker.link.view, broker.link.requests
    moves: list[tuple[Placement, ReassignablePartitionResponse]] = []
    stops: list[tuple[tuple[int, int], ReassignablePartitionResponse]] = []
    topics = []
    for named in request.topics:
        topic = view.topic(named.name)
        results = []
        for asked in named.partitions:
            result = ReassignablePartitionResponse(asked.partition_index, error_message=None)
            results.append(result)
            if topic is None or not 0 <= asked.partition_index < len(topic.partitions):
                result.error_code = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
                continue
            placed = topic.partitions[asked.partition_index]
            result.error_code = _obstacle(placed, asked)
            if result.error_code:
                continue
            if asked.replicas is None:
                stops.append(((topic.topic_id, placed.partition), result))
            else:
                moves.append((Placement(topic.topic_id, placed.partition, tuple(asked.replicas)), result))
        topics.append(ReassignableTopicResponse(named.name, results))
    at_once = broker.limits.changes_per_proposal
    changes: deque[ReplicaChange] = deque()
    for at in range(0, len(stops), at_once):
        stopped = stops[at : at + at_once]
        propose = partial(requests.cancel_reassign, [ref for ref, _ in stopped])
        changes.append(ReplicaChange(propose, [partial(_take, result) for _, result in stopped]))
    for at in range(0, len(moves), at_once):
        moved = moves[at : at + at_once]
        propose = partial(requests.reassign, [placement for placement, _ in moved])
        changes.append(ReplicaChange(propose, [partial(_take, result) for _, result in moved]))
    propose_in_turn(changes, partial(_answer, call, request, topics))


def _obstacle(placed: PartitionView, asked: ReassignablePartition) -> KafkaError:
    """Why nothing is proposed; NONE: it is."""
    if asked.replicas is None:
        is_moving = placed.adding or placed.removing
        return KafkaError.NONE if is_moving else KafkaError.NO_REASSIGNMENT_IN_PROGRESS
    if not asked.replicas or min(asked.replicas) < 0 or len(set(asked.replicas)) < len(asked.replicas):
        return KafkaError.INVALID_REPLICA_ASSIGNMENT
    return KafkaError.NONE


def _take(result: ReassignablePartitionResponse, code: ErrorCode, message: str) -> None:
    result.error_code = _CODES.get(code) or of_controllers(code)
    result.error_message = message or _SENTENCES.get(code)


def _answer(
    call: "KafkaCall", request: AlterPartitionReassignmentsRequest, topics: list[ReassignableTopicResponse]
) -> None:
    failed = [each.error_code for topic in topics for each in topic.partitions if each.error_code]
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=topics,
    )
    call.answer(response, outcome_of(failed[0]) if failed else OK)
