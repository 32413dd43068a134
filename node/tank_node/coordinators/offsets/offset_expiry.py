"""Which committed offsets have not been used for so long that they go."""

from tank_node.coordinators.machine.committed_offset import CommittedOffset
from tank_node.coordinators.machine.group_machine import GroupMachine
from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.offsets.committed_offsets import CommittedOffsets


class OffsetExpiry:
    """What goes of a group's offsets, for as long as its members read the same."""

    __slots__ = ("_read", "_retention_ms", "_since_ms", "_wall_ms")

    def __init__(self, read: frozenset[str], since_ms: int, wall_ms: int, retention_ms: int) -> None:
        """read: the topics whose offsets stay. since_ms: since when the group has no members, or -1."""
        self._read = read
        self._since_ms = since_ms
        self._wall_ms = wall_ms
        self._retention_ms = retention_ms

    def takes(self, partition: TopicPartition, offset: CommittedOffset) -> bool:
        """Whether an offset goes that nothing is changing."""
        if offset.expire_ms >= 0:
            if offset.expire_ms > self._wall_ms:
                return False
        elif self._wall_ms - max(offset.commit_ms, self._since_ms) < self._retention_ms:
            return False
        return partition[0] not in self._read


def expiry_of(group: GroupMachine, wall_ms: int, retention_ms: int) -> OffsetExpiry | None:
    """What goes of the group's offsets now; None: nothing.

    A group without members loses them `retention_ms` after its last member left or its last commit, a group
    of consumers only those of topics that none reads. While it rebalances nothing is lost, and other types of
    groups lose nothing while they have members: what those read is unknown.
    """
    if group.keeps_offsets:
        return None
    if group.state is GroupState.STABLE:
        read = group.subscribed_topics()
        if read is None:
            return None
    elif group.state is GroupState.EMPTY:
        read = frozenset()
    else:
        return None
    return OffsetExpiry(read, group.empty_since_ms, wall_ms, retention_ms)


def may_go(group: GroupMachine, offsets: CommittedOffsets) -> bool:
    """Whether nothing is left of the group: neither members nor offsets, nor any that are about to be."""
    return group.has_nobody and offsets.is_unused
