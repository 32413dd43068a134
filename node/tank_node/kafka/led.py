"""The partition that a request names, if this broker may answer for it."""

from tank_node.broker.broker import Broker
from tank_node.kafka.errors import KafkaError, of_refusal
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal

NO_EPOCH = -1
"""Stands in messages for a leader epoch that isn't known."""


def replica_of(broker: Broker, topic_name: str, number: int) -> Partition | KafkaError:
    """This broker's replica of a partition, whether it leads or not; or the error of a request for it."""
    topic = broker.topics.get(topic_name)
    if topic is None or number < 0:
        return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions.get(number)
    return of_refusal(topic.absence(number)) if partition is None else partition


def led_by_us(
    broker: Broker, topic_name: str, number: int, current_epoch: int = NO_EPOCH
) -> Partition | KafkaError:
    """The partition, which this broker leads and can read; or the error of a request for it. current_epoch:
    the leader epoch that the client knows."""
    partition = replica_of(broker, topic_name, number)
    if isinstance(partition, KafkaError):
        return partition
    if current_epoch != NO_EPOCH and current_epoch != partition.leader_epoch:
        is_old = current_epoch < partition.leader_epoch
        return KafkaError.FENCED_LEADER_EPOCH if is_old else KafkaError.UNKNOWN_LEADER_EPOCH
    if partition.unreadable:
        return of_refusal(partition.refusal or Refusal.NO_LEADER)
    return partition


def record_epoch(partition: Partition, number: int) -> int:
    """The leader epoch of the record at a number, as messages carry it. Behind the log's end it is that of
    the last record."""
    for epoch, first in reversed(partition.log.epochs):
        if first <= number:
            return epoch or NO_EPOCH
    return NO_EPOCH
