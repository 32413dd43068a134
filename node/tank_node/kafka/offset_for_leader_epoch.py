"""OffsetForLeaderEpoch (23): where a leader epoch ends in a partition's log.

A consumer asks it for the epoch of the last record that it has read: an end below its position means that
records which it has read were truncated.
"""

from typing import TYPE_CHECKING

from tank_node.kafka.errors import KafkaError, outcome_of
from tank_node.kafka.led import led_by_us
from tank_node.log.log import PartitionLog
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
    """Answers for each partition with the end of the greatest epoch that is not above the one asked for, and
    with that epoch."""
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
                end.leader_epoch, end.end_offset = _end_of(partition.log, asked.leader_epoch)
            ends.append(end)
        topics.append(OffsetForLeaderTopicResult(topic.topic, ends))
    call.answer(OffsetForLeaderEpochResponse(topics=OffsetForLeaderTopicResultCollection(topics)), outcome)


def _end_of(log: PartitionLog, epoch: int) -> tuple[int, int]:
    """The greatest epoch at or below this one, and the offset behind its last record. Where the log holds
    records of no greater epoch, that is the log's end, committed or not.

    Where it holds records of greater epochs alone, because those of this one are gone from its front, the
    epoch asked for ends where the oldest known begins, as Kafka answers: after (-1, -1), which stands for no
    answer, consumers would take what they have read for lost, and begin anew."""
    if epoch < 0 or not log.epochs:
        return -1, -1
    end = log.written
    for own, first in reversed(log.epochs):
        if own <= epoch:
            return own, end
        end = first - 1
    return epoch, end
