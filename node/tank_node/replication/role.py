"""What a replica is to its partition, as the partition itself sees it: plain base classes."""

from enum import Enum


class Role(Enum):
    """Of one replica."""

    LEADER = "leader"
    FOLLOWER = "follower"
    NONE = "none"
    """Nobody leads it as far as this node knows, or this node may not take orders yet."""


class LeaderRole:
    """The duties of a leader that has followers; a partition alone on its node has none."""

    __slots__ = ()

    @property
    def in_sync_size(self) -> int:
        """How many are in sync, the leader included: what a producer may ask for."""
        raise NotImplementedError

    @property
    def start_end(self) -> int:
        """The end of the log when the leader's epoch began."""
        raise NotImplementedError

    def written(self) -> None:
        """The log has grown: tells the followers, and moves the mark if that is all that was missing."""
        raise NotImplementedError

    def synced(self) -> None:
        """An fsync of the leader's own log has ended."""
        raise NotImplementedError

    def end(self) -> None:
        """The node leads this partition no more, or not in this epoch."""
        raise NotImplementedError


class FollowerRole:
    """Who takes a leader's pushes for a partition."""

    __slots__ = ()

    def agrees_with(self, leader: int, leader_epoch: int) -> bool:
        """Whether that broker has pushed in that epoch what this log ends with, and is still connected."""
        raise NotImplementedError

    def synced(self) -> None:
        """An fsync of the follower's log has ended, well or not."""
        raise NotImplementedError

    def failed(self) -> None:
        """The follower's log takes no more, whoever found it out: its leader must not count it any more."""
        raise NotImplementedError
