"""The roles of a replica, and what a partition asks of its leader's or follower's part: plain base
classes."""

from enum import Enum


class Role(Enum):
    """The role of one replica."""

    LEADER = "leader"
    FOLLOWER = "follower"
    NONE = "none"
    """No broker leads the partition as far as this node knows, or this node's registration is not done."""


class LeaderRole:
    """The part of a leader that has followers; a partition's only replica has none."""

    __slots__ = ()

    @property
    def in_sync_size(self) -> int:
        """Number of in-sync replicas, the leader included."""
        raise NotImplementedError

    @property
    def start_end(self) -> int:
        """The end of the log when the leader's epoch began."""
        raise NotImplementedError

    @property
    def lowest_start(self) -> int:
        """The lowest log start of the in-sync replicas, the leader included."""
        raise NotImplementedError

    def start_moved(self) -> None:
        """Notes that the log start was raised: followers must be told."""
        raise NotImplementedError

    def is_followed(self, silence_ms: int) -> bool:
        """Whether so many followers have taken this leader's pushes, and have been heard within `silence_ms`,
        that a later leader could not have committed anything without one of them."""
        raise NotImplementedError

    def written(self) -> None:
        """Notes that the log has grown: there is more to push, and the high-water mark may move."""
        raise NotImplementedError

    def synced(self) -> None:
        """Notes that an fsync of the leader's own log has ended."""
        raise NotImplementedError

    def end(self) -> None:
        """Ends the pushes: the node no longer leads this partition in this epoch."""
        raise NotImplementedError


class FollowerRole:
    """The part of a follower: it takes a leader's pushes."""

    __slots__ = ()

    def agrees_with(self, leader: int, leader_epoch: int) -> bool:
        """Whether that broker is connected, and its last stretch in that epoch was taken."""
        raise NotImplementedError

    def synced(self) -> None:
        """Notes that an fsync of the follower's log has ended or failed, and tells the leader."""
        raise NotImplementedError

    def failed(self) -> None:
        """Tells the leader that the follower's log takes no more batches, so that it leaves the in-sync
        set."""
        raise NotImplementedError
