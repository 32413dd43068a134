"""Whether this broker leads a partition that a request names."""

from tank_node.broker.broker import Broker
from tank_node.cluster.view import PartitionView
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role
from tank_node.stored.outcome import StoredOutcome, of_refusal
from tank_node.stored.results import Place


def placed(broker: Broker, place: Place) -> PartitionView | StoredOutcome:
    """The partition in this broker's view; or why the view doesn't have it."""
    topic_id, number = place
    topic = broker.link.view.topic_by_id(topic_id)
    if topic is None:
        return StoredOutcome.UNKNOWN_TOPIC
    if not 0 <= number < len(topic.partitions):
        return StoredOutcome.UNKNOWN_PARTITION
    return topic.partitions[number]


def leads(broker: Broker, place: Place) -> bool:
    """Whether this broker leads the partition, as its view says."""
    seen = placed(broker, place)
    return isinstance(seen, PartitionView) and seen.leader == broker.link.view.broker_id


def led_here(broker: Broker, place: Place) -> Partition | StoredOutcome:
    """The partition, which this broker leads; or the outcome of a request for it. Its log may be damaged."""
    seen = placed(broker, place)
    if isinstance(seen, StoredOutcome):
        return seen
    partition = broker.partition_by_id(*place)
    if partition is not None:
        return partition if partition.role is Role.LEADER else StoredOutcome.NO_LEADER
    topic_id, number = place
    view = broker.link.view.topic_by_id(topic_id)
    topic = None if view is None else broker.topics.get(view.name)
    is_broken = topic is not None and number in topic.broken
    return StoredOutcome.STORAGE if is_broken else StoredOutcome.NO_LEADER


def readable_here(broker: Broker, place: Place) -> Partition | StoredOutcome:
    """As `led_here`, for a request that reads."""
    partition = led_here(broker, place)
    if isinstance(partition, Partition) and partition.unreadable:
        return of_refusal(partition.refusal)
    return partition


def stable_mark(partition: Partition) -> int:
    """The greatest number that readers may see: no transaction can be open below it."""
    return partition.high_water_mark
