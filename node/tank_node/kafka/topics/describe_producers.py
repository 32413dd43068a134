"""DescribeProducers (61): the idempotent producers that partitions remember."""

from typing import TYPE_CHECKING, Final

from tank_node.kafka.errors import KafkaError, outcome_of
from tank_node.kafka.led import led_by_us
from tank_node.limits import DESCRIBED_PRODUCERS
from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.segment.errors import StorageError
from tank_protos.generated.kafka import DescribeProducersRequest, DescribeProducersResponse
from tank_protos.generated.kafka.describe_producers_response import (
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_NONE: Final = -1
"""Stands for the epoch of a coordinator, and for the offset of an open transaction."""


def describe_producers(call: "KafkaCall", body: memoryview) -> None:
    """Answers for each partition that this broker leads."""
    request = DescribeProducersRequest.decode(body, call.version)
    broker = call.session.broker
    outcome, room = OK, DESCRIBED_PRODUCERS
    topics = []
    for topic in request.topics:
        results = []
        for number in topic.partition_indexes:
            result = PartitionResponse(number)
            partition = led_by_us(broker, topic.name, number)
            if isinstance(partition, Partition):
                room = _fill(result, partition, room)
            else:
                result.error_code = partition
            if result.error_code:
                outcome = outcome_of(result.error_code)
            results.append(result)
        topics.append(TopicResponse(topic.name, results))
    call.answer(DescribeProducersResponse(topics=topics), outcome)


def _fill(result: PartitionResponse, partition: Partition, room: int) -> int:
    """Puts a partition's producers into its result, at most `room`; returns how many more the answer may
    have."""
    log = partition.log
    try:
        producers = log.producers.load(log.written)
    except StorageError as error:
        partition.note_error(error)
        result.error_code = KafkaError.STORAGE_ERROR
        return room
    if len(producers) > room:
        result.error_code = KafkaError.POLICY_VIOLATION
        result.error_message = (
            f"an answer names {DESCRIBED_PRODUCERS} producers at most: ask for fewer partitions"
        )
        return room
    result.active_producers = [
        ProducerState(each.producer_id, each.epoch, each.last_sequence, each.append_ms, _NONE, _NONE)
        for each in producers.remembered()
    ]
    return room - len(result.active_producers)
