"""OffsetForLeaderEpoch (23): where a leader epoch ends in a partition's log.

A consumer asks it for the epoch of the last record that it has read: an end below its position means that
records which it has read were truncated.
"""

from typing import TYPE_CHECKING

from tank_node.kafka.errors import KafkaError, outcome_of
from tank_node.kafka.fetch.epoch_ends import end_of
from tank_node.kafka.led import led_by_us
from tank_node.metrics import OK
from tank_protos.generated.kafka import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tank_protos.generated.kafka.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderTopicResult,
    OffsetForLeaderTopicResultCollection,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def offset_for_leader_epoch(call: "KafkaCall", body: memoryview) -> None:
    """Answers for each partition with the end of the epoch that is asked for, and with the epoch that this
    end is of."""
    request = OffsetForLeaderEpochRequest.decode(body, call.version)
    broker = call.session.broker
    outcome = OK
    topics = []
    for topic in request.topics:
        ends = []
        for asked in topic.partitions:
            end = EpochEndOffset(0, asked.partition)
            partition = led_by_us(broker, topic.topic, asked.partition, asked.current_leader_epoch)
            if isinstance(partition, KafkaError):
                end.error_code = partition
                outcome = outcome_of(partition)
            else:
                end.leader_epoch, end.end_offset = end_of(partition, asked.leader_epoch)
            ends.append(end)
        topics.append(OffsetForLeaderTopicResult(topic.topic, ends))
    call.answer(OffsetForLeaderEpochResponse(topics=OffsetForLeaderTopicResultCollection(topics)), outcome)
