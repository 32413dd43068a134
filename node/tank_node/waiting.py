"""Who waits for a partition: producers for their numbers, consumers for the high-water mark."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tank_node.partition import Partition


class Settler(Protocol):
    """Who is told how an append ended."""

    def settle(self, token: int, error: int, first: int, last: int) -> None:
        """Called once for each append: `error` is an ErrorCode; 0: stored and past the high-water mark
        as first..last."""


class Waiter:
    """Somebody who waits for the high-water mark of some partitions; registered through `Broker.wait`."""

    __slots__ = ("deadline_ms", "done", "partitions")

    def __init__(self) -> None:
        self.partitions: tuple[Partition, ...] = ()
        self.deadline_ms = 0
        self.done = False

    def advanced(self, partition: "Partition", appended_bytes: int) -> None:
        """The high-water mark of one of them moved, over that many bytes."""
        raise NotImplementedError

    def lost(self, partition: "Partition") -> None:
        """One of them can no longer be read here: deleted, damaged or led by another node."""
        raise NotImplementedError

    def expired(self) -> None:
        """The deadline has passed."""
        raise NotImplementedError


class Producer(NamedTuple):
    """An idempotent producer's name for one bundle."""

    producer_id: int
    epoch: int
    sequence: int
