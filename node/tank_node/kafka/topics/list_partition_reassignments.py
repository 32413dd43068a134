"""ListPartitionReassignments (46): the partitions whose replicas move, by this broker's view."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tank_node.cluster.view import TopicView
from tank_protos.generated.kafka import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from tank_protos.generated.kafka.list_partition_reassignments_response import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def list_partition_reassignments(call: "KafkaCall", body: memoryview) -> None:
    """Answers with the moves of all partitions, or of those that are named. Unknown partitions don't move."""
    request = ListPartitionReassignmentsRequest.decode(body, call.version)
    view = call.session.broker.link.view
    found = []
    if request.topics is None:
        for topic in sorted(view.topics(), key=lambda topic: topic.name):
            found += _moving(topic, range(len(topic.partitions)))
    else:
        wanted: dict[str, set[int]] = {}
        for named in request.topics:
            wanted.setdefault(named.name, set()).update(named.partition_indexes)
        for name, numbers in wanted.items():
            known = view.topic(name)
            if known is not None:
                found += _moving(known, sorted(numbers))
    call.answer(ListPartitionReassignmentsResponse(topics=found))


def _moving(topic: TopicView, numbers: Iterable[int]) -> list[OngoingTopicReassignment]:
    """The topic with those of its partitions that move; an empty list if none does."""
    placed = [topic.partitions[number] for number in numbers if 0 <= number < len(topic.partitions)]
    moves = [
        OngoingPartitionReassignment(
            each.partition, list(each.replicas), list(each.adding), list(each.removing)
        )
        for each in placed
        if each.adding or each.removing
    ]
    return [OngoingTopicReassignment(topic.name, moves)] if moves else []
