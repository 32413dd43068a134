"""The partitions that one command changes: collected, counted once, added to the delta. Pure."""

from collections.abc import Iterable

from tank_controller.state.codec import add_partition
from tank_controller.state.keys import partition_of, topic_of
from tank_controller.state.model import PartitionState
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb


class PartitionChanges:
    """Partitions that a command changes. `touch` one before changing it; `finish` when all is done."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._touched: dict[int, tuple[PartitionState, tuple[int, ...]]] = {}
        """By key: the partition, and its replicas as they were."""

    def touch(self, key: int, partition: PartitionState) -> None:
        """Announces a change of this partition. Its epoch rises once for all changes of one command."""
        if key not in self._touched:
            self._state.keep_for_images(key, partition)
            self._touched[key] = partition, partition.replicas
            self._state.uncount_leader(key, partition)
            partition.partition_epoch += 1

    def finish(self, delta: pb.Delta) -> None:
        """Counts the changes, and adds them to the delta."""
        topics: dict[int, pb.ChangedPartitions] = {}
        for key, (partition, replicas) in self._touched.items():
            if partition.replicas != replicas:
                self._move(key, replicas, partition.replicas)
            self._state.count_leader(key, partition)
            topic_id = topic_of(key)
            if (changed := topics.get(topic_id)) is None:
                changed = topics[topic_id] = delta.changed.add(topic_id=topic_id)
            add_partition(changed, partition_of(key), partition)
        self._touched.clear()

    def _move(self, key: int, before: Iterable[int], after: Iterable[int]) -> None:
        old, new = set(before), set(after)
        self._state.release(key, tuple(sorted(old - new)))
        self._state.hold(key, tuple(sorted(new - old)))
