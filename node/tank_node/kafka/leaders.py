"""Leaders of partitions and addresses of brokers, as Kafka's clients get them."""

from typing import TYPE_CHECKING, Final

from tank_node.cluster.view import NO_LEADER, ClusterView, TopicView
from tank_node.partition.partition import Partition

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaSession

NO_BROKER: Final = -1
"""The broker id in a message that names no broker."""
UNKNOWN_EPOCH: Final = -1
"""The leader epoch where it isn't known."""


def leader_of(view: ClusterView, topic: TopicView, partition: int) -> tuple[int, int]:
    """Returns the id of the broker that leads the partition, and the leader epoch. The broker is NO_BROKER
    while the partition has no leader; both are unknown when the topic has no such partition.

    The topic's present view counts, not `topic` itself: a caller may hold an object that a change has
    replaced."""
    current = view.topic_by_id(topic.topic_id)
    if current is None or not 0 <= partition < len(current.partitions):
        return NO_BROKER, UNKNOWN_EPOCH
    placed = current.partitions[partition]
    return (NO_BROKER if placed.leader == NO_LEADER else placed.leader), placed.leader_epoch


def leader_elsewhere(
    view: ClusterView, topic: TopicView, number: int, partition: Partition | None
) -> tuple[int, int]:
    """As `leader_of`, for a client that is to go to another broker. partition: this broker's replica, if it
    has one open. Both are unknown while this broker knows of a later epoch than the view, or the view still
    names this broker: a client that goes where it is sent would come back at once."""
    leader, epoch = leader_of(view, topic, number)
    is_stale = partition is not None and partition.leader_epoch > epoch
    if is_stale or leader in (NO_BROKER, view.broker_id):
        return NO_BROKER, UNKNOWN_EPOCH
    return leader, epoch


def endpoint_of(session: "KafkaSession", broker_id: int) -> tuple[str, int] | None:
    """Returns the host and port at which the session's client reaches this broker with Kafka's protocol, by
    the side of the network on which the client is. None when the broker is gone or fenced, or serves no
    clients of Kafka's."""
    broker = session.broker.link.view.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return None
    return broker.kafka_address(outside=session.is_outside)
