"""What sessions ask for and are told of stored batches. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.strategy import StoredStrategy
from tank_protos.wire.buffer import Buffer

Place: TypeAlias = tuple[int, int]
"""A partition: its topic's id, and its number."""


@dataclass(slots=True, frozen=True)
class StoredWanted:
    """What a read is to bring."""

    strategy: StoredStrategy
    value: int
    """A number or a time, as the strategy says."""
    count: int
    """How many messages are wanted; 0: none."""
    max_bytes: int = 0
    """The most bytes of batches, but for the first one; 0: as many as an answer may have."""
    wait_ms: int = 0
    """How long to wait if there is nothing."""


@dataclass(slots=True, frozen=True)
class BatchAsStored:
    """A batch as it is stored."""

    first: int
    """The number of its first message."""
    messages: int
    append_ms: int
    """When the leader appended it; it never falls from one batch to the next."""
    data: Buffer
    """A bundle of TANK's with its length before it, or a record batch of Kafka's."""


@dataclass(slots=True, frozen=True)
class Fetched:
    """What a read has found; nothing, if `outcome` isn't DONE."""

    outcome: StoredOutcome
    start: int = 0
    """The number that the read begins with: earlier messages of the first batch were not asked for."""
    mark: int = 0
    """The greatest number that readers may see; 0: none so far."""
    log_start: int = 0
    """The smallest number that can be read, or that an empty log begins with."""
    next: int = 0
    """The number behind the last batch that was looked at. Where compaction has left holes, batches may have
    no message from `start` on: then the read goes on here."""
    is_bundles: bool = False
    """Whether the batches are TANK's bundles, and not Kafka's record batches."""
    batches: Sequence[BatchAsStored] = ()
    """Whole batches, which may have more messages than were wanted."""


@dataclass(slots=True, frozen=True)
class Appended:
    """What became of an append. `first` and `last` are the messages' numbers if it is DONE, else 0."""

    outcome: StoredOutcome
    first: int = 0
    last: int = 0


@dataclass(slots=True, frozen=True)
class PartitionExtent:
    """How much a partition holds."""

    first: int
    """The smallest number that can be read, or that an empty log begins with."""
    mark: int
    """The greatest number that readers may see; 0: none so far."""
    size_bytes: int
    """The bytes of all stored batches."""
    segments: int

    @property
    def messages(self) -> int:
        """How many numbers can be read; compaction may have removed the messages of some."""
        return max(self.mark - self.first + 1, 0)
