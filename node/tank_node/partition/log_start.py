"""Raising the start of a leader's log at a client's request."""

from collections.abc import Callable

from tank_node.log.log import PartitionLog
from tank_node.replication.role import LeaderRole


class LogStart:
    """The start of a replica's log; a part of `partition.Partition`."""

    __slots__ = ("_log", "watchers")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.watchers: dict[Callable[[], None], None] = {}
        """Called when a start that was raised may have become safer: a follower has it, or the log was
        synced."""

    def raise_to(self, number: int, leadership: LeaderRole | None) -> None:
        """Deletes all messages below `number`, which is at most the high-water mark + 1, and lets the
        followers know. leadership: the partition's. Raises StorageError."""
        if number > self._log.first_available:
            self._log.retain_from(number)
            if leadership is not None:
                leadership.start_moved()

    def lowest(self, leadership: LeaderRole | None) -> int:
        """The lowest log start of the in-sync replicas, by what this leader knows of them; 1 of an empty
        log."""
        return (self._log.first_available or 1) if leadership is None else leadership.lowest_start

    def is_safer(self) -> None:
        """Calls the watchers."""
        if self.watchers:
            for watcher in tuple(self.watchers):
                watcher()
