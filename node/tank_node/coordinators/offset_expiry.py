"""Which committed offsets have not been used for so long that they go."""

from tank_node.coordinators.classic_group import ClassicGroup
from tank_node.coordinators.committed_offsets import CommittedOffsets
from tank_node.coordinators.group_requests import CommittedOffset, TopicPartition
from tank_node.coordinators.group_state import GroupState


def expired_offsets(
    group: ClassicGroup, offsets: CommittedOffsets, wall_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """The partitions whose offsets go now; none whose offset is just being changed.

    A group without members loses them `retention_ms` after its last member left or its last commit, a group
    of consumers only those of topics that none reads. While it rebalances nothing is lost, and other types of
    groups lose nothing while they have members: what those read is unknown.
    """
    if group.state is GroupState.STABLE:
        read = group.subscribed_topics()
        if read is None:
            return []
    elif group.state is GroupState.EMPTY:
        read = frozenset()
    else:
        return []
    since_ms = group.empty_since_ms

    def is_over(offset: CommittedOffset) -> bool:
        if offset.expire_ms >= 0:
            return offset.expire_ms <= wall_ms
        return wall_ms - max(offset.commit_ms, since_ms) >= retention_ms

    return [
        partition
        for partition, offset in offsets.items()
        if partition[0] not in read and not offsets.is_changing(partition) and is_over(offset)
    ]


def may_go(group: ClassicGroup, offsets: CommittedOffsets) -> bool:
    """Whether nothing is left of the group: neither members nor offsets, nor any that are about to be."""
    return group.has_nobody and offsets.is_unused
