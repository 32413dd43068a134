"""Where the logs of this node's replicas end, for the controllers, which ask before a lossy election."""

from collections.abc import Callable, Sequence

from tank_node.cluster.link import ReplicaEnd
from tank_node.log.epoch_history import epoch_at
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition


def ends_of(
    replica: Callable[[int, int], Partition | None], asked: Sequence[tuple[int, int]]
) -> list[ReplicaEnd]:
    """The ends of these replicas' logs, (topic id, partition); leaves out those that can't lead. The
    controllers ask all eligible replicas. replica: finds the open replica of a partition."""
    found = []
    for topic_id, number in asked:
        partition = replica(topic_id, number)
        if partition is not None and partition.log.health.state in (LogState.ACTIVE, LogState.DAMAGED):
            log, end = partition.log, partition.log.tail.written
            if log.health.state is LogState.DAMAGED:  # records behind the recovery point were not checked
                end = min(end, log.health.recovery_point)
            found.append(
                ReplicaEnd(topic_id, number, epoch_at(log.segments.epochs, end), end, log.is_impaired)
            )
    return found
