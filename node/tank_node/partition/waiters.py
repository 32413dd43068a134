"""Who waits for a partition, and the tick they share: producers for their numbers, consumers for the mark."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from tank_node.partition.partition import Partition


class Settler(Protocol):
    """Who is told how an append ended."""

    def settle(self, token: int, error: int, first: int, last: int) -> None:
        """Called once for each append: `error` is an ErrorCode; 0: stored and past the high-water mark
        as first..last."""


class Waiter:
    """Somebody who waits for the high-water mark of some partitions; registered through `Broker.wait`."""

    __slots__ = ("deadline_ms", "done", "entries", "partitions")

    def __init__(self) -> None:
        self.partitions: tuple[Partition, ...] = ()
        self.deadline_ms = 0
        self.done = False
        self.entries = 0
        """How many partitions its request names, repeats included: what it costs to keep."""

    def advanced(self, partition: "Partition", appended_bytes: int) -> None:
        """The high-water mark of one of them moved, over that many bytes."""
        raise NotImplementedError

    def settled(self, partition: "Partition") -> None:
        """A new leader's mark has reached what an earlier one may have shown: the end may be told."""

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


class LateAnswer:
    """An answer of this tick that is made when the tick has written: `Broker.end_tick` does."""

    __slots__ = ()

    def make(self) -> None:
        """Called once."""
        raise NotImplementedError


@dataclass(slots=True)
class Tick:
    """What all partitions of a node share: the time of this tick, which of them were appended to, and what is
    answered behind that."""

    now_ms: int = 0
    """Wall clock."""
    monotonic_ms: int = 0
    monotonic_us: int = 0
    """The same moment, for measuring."""
    dropped_us: int = -1
    """The tick in which a whole log was dropped last, to be copied anew: one in each."""
    touched: "list[Partition]" = field(default_factory=list)
    late: list[LateAnswer] = field(default_factory=list)


Staged: TypeAlias = tuple[int, int, Settler, int, int, int, int]
"""An append, or a run of them, that is not answered yet: the last number, the first (0: the answer has no
numbers), settler, token, when it came (monotonic, us), deadline (monotonic, ms), number of batches. A tuple
for its price."""
