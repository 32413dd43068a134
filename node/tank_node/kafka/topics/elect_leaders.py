"""ElectLeaders (43): makes preferred replicas leaders again, or any live replica where no leader is left."""

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.cluster.view import NO_LEADER, ClusterView, PartitionView
from tank_node.kafka.errors import KafkaError, of_controllers, outcome_of
from tank_node.kafka.topics.replica_changes import ReplicaChange, propose_in_turn
from tank_node.metrics import OK
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import ElectLeadersRequest, ElectLeadersResponse
from tank_protos.generated.kafka.elect_leaders_response import PartitionResult, ReplicaElectionResult

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


def elect_leaders(call: "KafkaCall", body: memoryview) -> None:
    """Answers for each partition when the controllers have judged it. Of all partitions (null) only those are
    answered whose leader is not the right one."""
    request = ElectLeadersRequest.decode(body, call.version)
    unclean = request.election_type == _UNCLEAN
    view = call.session.broker.link.view
    known = request.election_type in (_PREFERRED, _UNCLEAN)
    results: dict[str, ReplicaElectionResult] = {}
    wanted: list[tuple[tuple[int, int], PartitionResult]] = []
    for name, number in _named(request, view):
        topic = view.topic(name)
        result = PartitionResult(number, error_message=None)
        if not known:
            result.error_code = KafkaError.INVALID_REQUEST
        elif topic is None or not 0 <= number < len(topic.partitions):
            result.error_code = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        else:
            result.error_code = _obstacle(topic.partitions[number], unclean=unclean)
            if result.error_code == KafkaError.ELECTION_NOT_NEEDED and request.topic_partitions is None:
                continue
            if not result.error_code:
                wanted.append(((topic.topic_id, number), result))
        results.setdefault(name, ReplicaElectionResult(name)).partition_result.append(result)
    changes = _changes(call, wanted, unclean=unclean)
    propose_in_turn(changes, partial(_answer, call, list(results.values())))


def _named(request: ElectLeadersRequest, view: ClusterView) -> Iterator[tuple[str, int]]:
    """The partitions that are asked for, by topic and number."""
    if request.topic_partitions is None:
        for known in sorted(view.topics(), key=lambda topic: topic.name):
            for number in range(len(known.partitions)):
                yield known.name, number
    else:
        for named in request.topic_partitions:
            for number in named.partitions:
                yield named.topic, number


def _obstacle(placed: PartitionView, *, unclean: bool) -> KafkaError:
    """Why no election is proposed; NONE: one is."""
    if unclean:
        return KafkaError.NONE if placed.leader == NO_LEADER else KafkaError.ELECTION_NOT_NEEDED
    preferred = placed.replicas[0]
    if placed.leader == preferred:
        return KafkaError.ELECTION_NOT_NEEDED
    is_possible = placed.leader != NO_LEADER and preferred in placed.in_sync
    return KafkaError.NONE if is_possible else KafkaError.PREFERRED_LEADER_NOT_AVAILABLE


def _changes(
    call: "KafkaCall", wanted: list[tuple[tuple[int, int], PartitionResult]], *, unclean: bool
) -> deque[ReplicaChange]:
    broker = call.session.broker
    # The controllers judge an unclean election by the ends of the replicas' logs, one partition at a time.
    at_once = 1 if unclean else broker.limits.changes_per_proposal
    changes: deque[ReplicaChange] = deque()
    for at in range(0, len(wanted), at_once):
        part = wanted[at : at + at_once]
        propose = partial(broker.link.requests.elect_leaders, [ref for ref, _ in part], unclean=unclean)
        changes.append(ReplicaChange(propose, [partial(_take, result, unclean) for _, result in part]))
    return changes


def _take(result: PartitionResult, unclean: bool, code: ErrorCode, message: str) -> None:
    if code is ErrorCode.NOT_ELECTABLE:
        result.error_code = KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
        if unclean:
            result.error_code = KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE
    else:
        result.error_code = of_controllers(code)
    result.error_message = message or None


def _answer(call: "KafkaCall", results: list[ReplicaElectionResult]) -> None:
    failed = [each.error_code for topic in results for each in topic.partition_result if each.error_code]
    response = ElectLeadersResponse(replica_election_results=results)
    call.answer(response, outcome_of(failed[0]) if failed else OK)
