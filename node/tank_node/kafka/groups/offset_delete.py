"""OffsetDelete (47): deletes a group's committed offsets of partitions that no member reads any more."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.kafka.errors import first_error, of_group, outcome_of
from tank_protos.generated.kafka import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponsePartitionCollection,
    OffsetDeleteResponseTopic,
    OffsetDeleteResponseTopicCollection,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def offset_delete(call: "KafkaCall", body: memoryview) -> None:
    """Answers with a result for each partition, when the deletions are stored."""
    request = OffsetDeleteRequest.decode(body, call.version)
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        numbers = wanted.setdefault(topic.name, {})
        numbers.update(dict.fromkeys(each.partition_index for each in topic.partitions))

    def done(error: GroupError, results: Mapping[TopicPartition, GroupError]) -> None:
        response = OffsetDeleteResponse(error_code=of_group(error))
        failed = response.error_code
        if not failed:
            response.topics = _results(wanted, results)
            failed = first_error(each for topic in response.topics for each in topic.partitions)
        call.answer(response, outcome_of(failed))

    partitions = [(name, number) for name, numbers in wanted.items() for number in numbers]
    groups_of(call.session.broker).delete_offsets(request.group_id, partitions, done)


def _results(
    wanted: Mapping[str, Mapping[int, None]], results: Mapping[TopicPartition, GroupError]
) -> OffsetDeleteResponseTopicCollection:
    """A result for each partition. One for which the coordinator has none is unknown."""
    return OffsetDeleteResponseTopicCollection(
        OffsetDeleteResponseTopic(
            name,
            OffsetDeleteResponsePartitionCollection(
                OffsetDeleteResponsePartition(
                    number, of_group(results.get((name, number), GroupError.UNKNOWN_TOPIC))
                )
                for number in numbers
            ),
        )
        for name, numbers in wanted.items()
    )
