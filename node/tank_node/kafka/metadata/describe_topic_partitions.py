"""DescribeTopicPartitions (75): topics with their partitions, page by page, in the order of their names."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tank_node.broker.topic_ids import topic_uuid
from tank_node.cluster.view import PartitionView
from tank_node.kafka import authorized_operations, topic_names
from tank_node.kafka.errors import KafkaError, outcome_of
from tank_node.kafka.leaders import NO_BROKER
from tank_node.kafka.metadata.listed_brokers import ListedBroker, listed_brokers
from tank_protos.generated.kafka import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tank_protos.generated.kafka.describe_topic_partitions_response import Cursor

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def describe_topic_partitions(call: "KafkaCall", body: memoryview) -> None:
    """Answers with the topics that are asked for, from the request's cursor on. The answer has as many
    partitions as the client asks for, but at most `Limits.described_partitions`; its own cursor says where
    the next page begins."""
    request = DescribeTopicPartitionsRequest.decode(body, call.version)
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        _refuse(call, request, KafkaError.INVALID_REQUEST)
        return
    session = call.session
    view = session.broker.link.view
    asks_all = not request.topics
    asked = (topic.name for topic in view.topics()) if asks_all else (each.name for each in request.topics)
    names = set(asked)
    first = 0
    if cursor is not None:
        names = {name for name in names if name >= cursor.topic_name}
        first = cursor.partition_index
        if not asks_all:
            names.add(cursor.topic_name)
    left = max(min(request.response_partition_limit, session.limits.described_partitions), 1)
    listed = listed_brokers(session)
    allowed = authorized_operations.on_topics(session)
    response = DescribeTopicPartitionsResponse()
    for name in sorted(names):
        if not left:
            response.next_cursor = Cursor(name, 0)
            break
        begin = first if cursor is not None and name == cursor.topic_name else 0
        described = DescribeTopicPartitionsResponseTopic(
            name=name, is_internal=topic_names.is_internal(name), topic_authorized_operations=allowed
        )
        response.topics.append(described)
        topic = view.topic(name)
        if topic is None:
            described.error_code = topic_names.absence_of(name)
            continue
        described.topic_id = topic_uuid(view.cluster_id, topic.topic_id)
        end = begin + left
        described.partitions = [_described(each, listed) for each in topic.partitions[begin:end]]
        left -= len(described.partitions)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(name, end)
            break
    call.answer(response)


def _described(
    placed: PartitionView, listed: Mapping[int, ListedBroker]
) -> DescribeTopicPartitionsResponsePartition:
    has_leader = placed.leader in listed
    return DescribeTopicPartitionsResponsePartition(
        error_code=KafkaError.NONE if has_leader else KafkaError.LEADER_NOT_AVAILABLE,
        partition_index=placed.partition,
        leader_id=placed.leader if has_leader else NO_BROKER,
        leader_epoch=placed.leader_epoch,
        replica_nodes=list(placed.replicas),
        isr_nodes=list(placed.in_sync),
        eligible_leader_replicas=[each for each in placed.eligible if each not in placed.impaired],
        # As Kafka's: they are elected only if messages may be lost.
        last_known_elr=[each for each in placed.eligible if each in placed.impaired],
        offline_replicas=[each for each in placed.replicas if each not in listed],
    )


def _refuse(call: "KafkaCall", request: DescribeTopicPartitionsRequest, error: KafkaError) -> None:
    """Answers with an error for each topic: there is none for the whole request."""
    response = DescribeTopicPartitionsResponse()
    for name in dict.fromkeys(topic.name for topic in request.topics):
        response.topics.append(DescribeTopicPartitionsResponseTopic(error, name))
    call.answer(response, outcome_of(error))
