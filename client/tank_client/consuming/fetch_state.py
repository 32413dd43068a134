"""The position of a consumer in each partition, and how an answer changes it; pure.

A fetched chunk may hold more than was asked for: messages below the number (brokers send whole bundles),
messages above the high-water mark (not committed yet), and at its end a part of a bundle (brokers of the old
document cut chunks at the fetch size). All three are dropped here. Numbers may be missing (compaction,
explicit numbers): fetching goes on behind the last bundle.
"""

import logging
from dataclasses import dataclass, field

from tank_client import errors
from tank_client.consuming.batch import MessageBatch
from tank_client.consuming.chunk_readers import Reached, reader_of
from tank_client.model import Address, FetchedChunk
from tank_client.settings import DamagedPolicy, OutOfBoundsPolicy
from tank_client.wire.data_operations import MAX_FETCH_BYTES
from tank_protos.wire.errors import WireError

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class FetchRound:
    """One fetch of several partitions, at the broker to which it was sent."""

    address: Address


@dataclass(slots=True, eq=False)
class FetchState:
    """One partition of a consumer. Invariant: position <= fetch_from (but for 0, the first available, in
    both)."""

    topic: str
    partition: int
    position: int
    """The next number to hand out; 0: the first available."""
    fetch_from: int
    """The next number to fetch: messages between it and `position` are in the buffer."""
    stop_after: int | None = None
    """The last number to read; None: no end."""
    fetch_bytes: int = 0
    """The least number of bytes to request, which grows for a bundle larger than `fetch_bytes`; 0:
    `fetch_bytes`.
    """
    damaged: DamagedPolicy = DamagedPolicy.ERROR
    damages: list[errors.CorruptBundle] = field(default_factory=list)
    """Errors of all partitions of the consumer, which are raised before anything more is handed out."""
    generation: int = 0
    """A number that each seek raises, so that answers to earlier fetches are dropped."""
    round: FetchRound | None = None
    """The fetch under way; the answer to any other fetch is out of date."""
    last_round: int = 0
    """The number of the consumer's last fetch that had this partition."""
    behind: bool = True
    """Whether there may be more to fetch at once: the partition is not known to be at its end."""
    done: bool = False
    """Whether everything up to `stop_after` was fetched."""
    committed: int = -1
    """The position that was committed last; -1: none."""
    high_water_mark: int | None = None
    """The greatest committed number of the partition, as of the last fetch; None: no fetch was answered."""
    first_available: int = 1
    """The least number that the partition has, as far as fetches told it."""
    is_taken_back: bool = False
    """Whether the group took the partition back: nothing more of it is handed out."""
    failures: int = 0
    failing_since_ms: float = 0.0
    heard_ms: float = 0.0
    """When the partition last brought something new, or was begun."""
    retry_at_ms: float = 0.0
    redirected_until_ms: float = 0.0
    """The end of the pause after a redirect: `retry_at_ms` is never less, even if a new leader becomes
    known.
    """

    def seek(self, number: int) -> None:
        """Continues at that number."""
        self.position = self.fetch_from = number
        self.damages[:] = [each for each in self.damages if (each.topic, each.partition) != self.route]
        self.generation += 1
        self.round = None
        self.behind, self.done, self.failures, self.retry_at_ms = True, False, 0, 0.0
        self._look_for_end()

    def take_back(self) -> None:
        """Hands out nothing more: the group took the partition back."""
        self.is_taken_back = True
        self.damages[:] = [each for each in self.damages if (each.topic, each.partition) != self.route]
        self.generation += 1
        self.round = None

    @property
    def route(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def has_moved(self) -> bool:
        """Whether its position is another one than was committed last."""
        return self.position != 0 and self.position != self.committed

    @property
    def lag(self) -> int | None:
        """Committed messages that were not handed out, as of the last fetch; None: no fetch was answered."""
        mark = self.high_water_mark
        return None if mark is None else max(0, mark + 1 - max(self.position, self.first_available))

    def meet_damage(self, error: errors.CorruptBundle) -> bool:
        """Handles a bundle that cannot be read in a batch that was handed out. Returns whether to go on
        behind the bundle; otherwise the position stays before it, and the error is raised.
        """
        if self.damaged is DamagedPolicy.SKIP:
            logger.warning("skipped: %s", error)
            return True
        self.position = min(self.position, error.number)
        if not any(each.number == error.number for each in self.damages):
            self.damages.append(error)
        return False

    def take(self, chunk: FetchedChunk) -> MessageBatch | None:
        """Takes a fetch's answer; returns its batch, or None when it has nothing new. Raises
        CorruptBundle.
        """
        self.failures = 0
        self.high_water_mark = chunk.high_water_mark
        if chunk.first_available is not None:
            self.first_available = chunk.first_available
        if not chunk.chunk:
            self._take_nothing(chunk)
            return None
        asked = self.fetch_from
        upper = chunk.high_water_mark
        if self.stop_after is not None:
            upper = min(upper, self.stop_after)
        try:
            last, whole, is_empty = self._reach(chunk, asked)
        except errors.CorruptBundle as error:
            if self.damaged is not DamagedPolicy.SKIP:
                raise
            # How many numbers the unreadable bundle has is unknown: one, until another bundle comes.
            logger.warning("skipped: %s", error)
            self.fetch_from = max(asked, chunk.base) + 1
            self._look_for_end()
            return None
        if not whole:
            self._ask_for_more(chunk)
            return None
        last = min(last, upper)  # messages beyond `stop_after` are not to be read
        if last < asked:
            self.behind = False  # the chunk has nothing new: the high-water mark has to rise first
            return None
        if is_empty:
            self._pass_over(last, chunk)
            return None
        batch = MessageBatch(
            self.topic,
            self.partition,
            chunk=chunk.chunk,
            base=chunk.base,
            lower=asked,
            upper=upper,
            next_number=last + 1,
            high_water_mark=chunk.high_water_mark,
            on_damage=self.meet_damage,
            holds_records=chunk.holds_records,
        )
        self.fetch_from = last + 1
        self.fetch_bytes = 0
        self.behind = last < chunk.high_water_mark
        self._look_for_end()
        return batch

    def out_of_bounds(self, bounds: errors.OutOfBounds, policy: OutOfBoundsPolicy) -> None:
        """Handles a position outside of the partition: moves to where the policy says, or raises the
        error.
        """
        if policy is OutOfBoundsPolicy.ERROR:
            raise bounds
        self.high_water_mark, self.first_available = bounds.high_water_mark, bounds.first_available
        earliest = policy is OutOfBoundsPolicy.EARLIEST
        number = bounds.first_available if earliest else bounds.high_water_mark + 1
        if self.position == self.fetch_from:
            self.position = number
        self.fetch_from = number
        self.behind = True
        self._look_for_end()

    def _reach(self, chunk: FetchedChunk, asked: int) -> Reached:
        """How far the chunk goes, as far as it may be handed out. Raises CorruptBundle."""
        try:
            reader = reader_of(chunk.holds_records)
            return reader.reach(chunk.chunk, chunk.base, chunk.sparse, asked, chunk.high_water_mark)
        except WireError as error:
            raise errors.CorruptBundle(self.topic, self.partition, asked, str(error)) from None

    def _pass_over(self, last: int, chunk: FetchedChunk) -> None:
        """Goes on behind numbers that belong to no message."""
        if self.position == self.fetch_from:
            self.position = last + 1
        self.fetch_from = last + 1
        self.fetch_bytes = 0
        self.behind = last < chunk.high_water_mark
        self._look_for_end()

    def _take_nothing(self, chunk: FetchedChunk) -> None:
        self.behind = False
        if self.stop_after is not None and chunk.high_water_mark >= self.stop_after:
            self.done = True  # the log has no messages with the numbers up to the end

    def _ask_for_more(self, chunk: FetchedChunk) -> None:
        """Requests more bytes, because the chunk ends within its first bundle."""
        size = max(self.fetch_bytes, len(chunk.chunk))
        if size >= MAX_FETCH_BYTES:
            raise errors.CorruptBundle(
                self.topic, self.partition, self.fetch_from, f"a bundle over {MAX_FETCH_BYTES} bytes"
            )
        self.fetch_bytes = min(size * 2, MAX_FETCH_BYTES)

    def _look_for_end(self) -> None:
        if self.stop_after is not None and self.fetch_from > self.stop_after:
            self.done = True
