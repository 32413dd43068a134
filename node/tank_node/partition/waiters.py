"""Who waits for a partition, and the tick they share: producers for their numbers, consumers for the mark."""

from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

P = TypeVar("P")
"""What is waited for and written: `partition.Partition`, which stands above this module."""


class Settler(Protocol):
    """Who is told how an append ended."""

    def settle(self, token: int, error: int, first: int, last: int) -> None:
        """Called once for each append: `error` is an ErrorCode; 0: stored and past the high-water mark
        as first..last."""


class Waiter(Generic[P]):
    """Somebody who waits for the high-water mark of some partitions; registered through `Broker.wait`."""

    __slots__ = ("deadline_ms", "done", "entries", "partitions")

    def __init__(self) -> None:
        self.partitions: tuple[P, ...] = ()
        self.deadline_ms = 0
        self.done = False
        self.entries = 0
        """How many partitions its request names, repeats included: what it costs to keep."""

    def advanced(self, partition: P, appended_bytes: int) -> None:
        """The high-water mark of one of them moved, over that many bytes."""
        raise NotImplementedError

    def settled(self, partition: P) -> None:
        """A new leader's mark has reached what an earlier one may have shown: the end may be told."""

    def lost(self, partition: P) -> None:
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


class LateAnswer:
    """An answer of this tick that is made when the tick has written: `Broker.end_tick` does."""

    __slots__ = ()

    def make(self) -> None:
        """Called once."""
        raise NotImplementedError


class Tick(Generic[P]):
    """What all partitions of a node share: the time of this tick, which of them were appended to, and what is
    answered behind that."""

    __slots__ = ("dropped_us", "late", "monotonic_ms", "monotonic_us", "now_ms", "touched")

    def __init__(self) -> None:
        self.now_ms = 0
        """Wall clock."""
        self.monotonic_ms = 0
        self.monotonic_us = 0
        """The same moment, for measuring."""
        self.dropped_us = -1
        """The tick in which a whole log was dropped last, to be copied anew: one in each."""
        self.touched: list[P] = []
        self.late: list[LateAnswer] = []


Staged: TypeAlias = tuple[int, int, Settler, int, int, int, int]
"""An append, or a run of them, that is not answered yet: the last number, the first (0: the answer has no
numbers), settler, token, when it came (monotonic, us), deadline (monotonic, ms), number of batches. A tuple
for its price."""
