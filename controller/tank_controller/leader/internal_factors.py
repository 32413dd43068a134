"""The replication factors of internal topics, which rise as brokers join. Pure.

`balance` gives the partitions more replicas, a few at a time. When all have them, the topic's factor follows:
with it rises how many replicas must be in sync, so that it must not come first.
"""

from collections.abc import Iterator

from tank_controller.state.levels import is_internal
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import INTERNAL_TOPICS


def internal_topics(state: ClusterState) -> Iterator[TopicState]:
    """The topics in which brokers keep their own records."""
    for name in sorted(INTERNAL_TOPICS):
        topic = state.topic(name)
        if topic is not None and is_internal(state, topic):
            yield topic


def raised_factors(state: ClusterState) -> list[pb.Command]:
    """The commands that raise factors to the numbers of replicas that all partitions of the topic have."""
    found = []
    for topic in internal_topics(state):
        if any(partition.moves for partition in topic.partitions):
            continue
        factor = min(len(partition.replicas) for partition in topic.partitions)
        if factor > topic.replication_factor:
            alter = pb.AlterTopic(topic_id=topic.topic_id, replication_factor=factor)
            found.append(pb.Command(alter_topic=alter))
    return found
