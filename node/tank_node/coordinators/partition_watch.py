"""What a coordinator hears of its partition."""

from collections.abc import Callable

from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter


class PartitionWatch(Waiter[Partition]):
    """A waiter without a deadline, for as long as this broker leads the partition in one leader epoch. It is
    put into `Partition.waiters`, and taken out by its owner."""

    __slots__ = ("_end_known", "_lost", "_moved")

    def __init__(
        self, moved: Callable[[], None], end_known: Callable[[], None], lost: Callable[[], None]
    ) -> None:
        """moved: the high-water mark has. end_known: the leader knows its log's end. lost: it leads no more,
        or in another epoch."""
        super().__init__()
        self._moved = moved
        self._end_known = end_known
        self._lost = lost

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        self._moved()

    def end_known(self, partition: Partition) -> None:
        self._end_known()

    def epoch_began(self, partition: Partition) -> None:
        # Another broker may have led in between: what the log says is read anew.
        self._lost()

    def lost(self, partition: Partition) -> None:
        self._lost()

    def expired(self) -> None:
        raise AssertionError("the watch has no deadline")
