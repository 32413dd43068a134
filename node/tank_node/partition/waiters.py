"""Interfaces of requests that wait for a partition (producers and consumers), and the tick that partitions
share."""

from collections.abc import Callable
from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from tank_node.partition.refusal import Refusal
from tank_node.session import Session

P = TypeVar("P")
"""Stands for `partition.Partition`, which this module can't import because that one imports it."""


class Acked(Enum):
    """When an append is complete."""

    COMMITTED = 0
    """All in-sync replicas have it: the high-water mark has passed it."""
    WRITTEN = 1
    """This leader has it, by its own flush, whatever its followers have. It is lost if another replica leads
    that lacks it."""


class Completion(Protocol):
    """The receiver of an append's result: a protocol's answer, which waits for it."""

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        """Called once for each append, or run of appends, with the caller's token. Refusal.NONE: it is stored
        as first to last (0 and 0 when unknown), and committed, or written for `Acked.WRITTEN`."""


class Waiter(Generic[P]):
    """A request that waits for the high-water mark of some partitions. `broker.deadlines` keeps its
    deadline."""

    __slots__ = ("asked_by", "deadline_ms", "done", "entries", "is_request", "partitions")

    def __init__(self) -> None:
        self.is_request = True
        """Whether a request waits; False: something of the broker's own, which no metric counts."""
        self.asked_by: Session | None = None
        """The session of the client that waits. Its connection is closed if a bug keeps it from its answer: a
        client takes silence for a slow broker."""
        self.partitions: tuple[P, ...] = ()
        self.deadline_ms = 0
        self.done = False
        self.entries = 0
        """Number of partitions that the request names, repeats included: a measure of its memory."""

    def advanced(self, partition: P, appended_bytes: int) -> None:
        """Called when the high-water mark of one of the partitions has moved, by this many bytes."""
        raise NotImplementedError

    def end_known(self, partition: P) -> None:
        """Called when a new leader's mark has reached `Partition.end_known_at`, so that answers may show the
        end."""

    def epoch_began(self, partition: P) -> None:
        """Called when this broker goes on leading one of the partitions, in a new leader epoch."""

    def lost(self, partition: P) -> None:
        """Called when one of the partitions can't be read here any more: deleted, damaged or led by another
        broker."""
        raise NotImplementedError

    def expired(self) -> None:
        """Called when the deadline has passed. Must lead to `Deadlines.forget`."""
        raise NotImplementedError


class ProducerStamp(NamedTuple):
    """The identity of a bundle of an idempotent producer."""

    producer_id: int
    epoch: int
    sequence: int


class LateAnswer:
    """An answer that `Broker.end_tick` makes after the tick's writes."""

    __slots__ = ("asked_by",)

    def __init__(self, asked_by: Session) -> None:
        """asked_by: the session of the client, whose connection is closed if a bug keeps it from its
        answer."""
        self.asked_by = asked_by

    def make(self) -> None:
        """Makes the answer; called once."""
        raise NotImplementedError


class Tick(Generic[P]):
    """The state of a tick that all partitions of a node share: its time, the partitions to write, and what is
    done before and after that."""

    __slots__ = (
        "dropped_us", "early", "late", "monotonic_ms", "monotonic_us", "now_ms", "touched",
        "unpacked_bytes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.now_ms = 0
        """The wall clock."""
        self.monotonic_ms = 0
        self.monotonic_us = 0
        """The monotonic clock at the same moment, for measuring."""
        self.dropped_us = -1
        """The `monotonic_us` of the tick that last emptied a log for a refill: each tick may empty one."""
        self.early: list[Callable[[], None]] = []
        """Work to do at the tick's end, before the writes."""
        self.touched: list[P] = []
        """Partitions to write at the tick's end."""
        self.late: list[LateAnswer] = []
        """Answers to make after that."""
        self.unpacked_bytes = 0
        """The bytes that requests of this tick have unpacked, or made by converting batches."""


Staged: TypeAlias = tuple[int, int, Completion, int, int, int, int]
"""An append, or a run of appends, without an answer so far: the last number, the first (0: the answer has no
numbers), completion, token, time of arrival (monotonic, us), deadline (monotonic, ms), number of batches. A
tuple, because it is cheaper than a class."""
