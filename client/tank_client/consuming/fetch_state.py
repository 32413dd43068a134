"""Where a consumer stands in each partition, and what an answer makes of it; pure.

A fetched chunk may hold more than was asked for: messages below the number (the bundle that holds it comes
whole), messages above the high-water mark (not committed yet), and at its end a part of a bundle (brokers
of the old document cut chunks at the fetch size). All three are dropped here. Numbers may be missing
(compaction, explicit numbers): a track just goes on behind the last bundle it saw.
"""

import logging
from dataclasses import dataclass, field

from tank_client import errors
from tank_client.consuming.batch import MessageBatch
from tank_client.model import Address, FetchedChunk
from tank_client.settings import DamagedPolicy, OutOfBoundsPolicy
from tank_client.wire.data_operations import MAX_FETCH_BYTES
from tank_protos.bundle import bundles, read_header
from tank_protos.wire.errors import InvalidBundle

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Wave:
    """A fetch of some tracks, at the broker that it went to."""

    address: Address


@dataclass(slots=True, eq=False)
class Track:
    """One partition of a consumer. Invariant: position <= fetch_from (but for 0, the first available, in
    both)."""

    topic: str
    partition: int
    position: int
    """The next number to hand out; 0: the first available."""
    fetch_from: int
    """The next number to fetch: what is between is in the buffer."""
    stop_after: int | None = None
    """The last number wanted; None: no end."""
    fetch_bytes: int = 0
    """What to ask for at least: grown when a bundle is larger than the usual; 0: the usual."""
    damaged: DamagedPolicy = DamagedPolicy.ERROR
    damages: list[errors.CorruptBundle] = field(default_factory=list)
    """Of all partitions of the consumer: what must be said before anything more is handed out."""
    generation: int = 0
    """Raised by a seek, so that what was asked for before is dropped."""
    wave: Wave | None = None
    """The fetch that is under way; what another one brings is out of date."""
    last_wave: int = 0
    """Which fetch of the consumer's it was last part of, by their order."""
    behind: bool = True
    """It is not known to be at its end."""
    done: bool = False
    """Everything up to `stop_after` was fetched."""
    committed: int = -1
    """What was committed last; -1: nothing."""
    failures: int = 0
    failing_since_ms: float = 0.0
    heard_ms: float = 0.0
    """When it began, or brought something new last."""
    retry_at_ms: float = 0.0
    redirected_until_ms: float = 0.0
    """The pause after a redirect: no news of a leader makes `retry_at_ms` less than this."""

    def seek(self, number: int) -> None:
        """Goes on at that number."""
        self.position = self.fetch_from = number
        self.damages[:] = [each for each in self.damages if (each.topic, each.partition) != self.route]
        self.generation += 1
        self.wave = None
        self.behind, self.done, self.failures, self.retry_at_ms = True, False, 0, 0.0
        self._look_for_end()

    @property
    def route(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition

    def meet_damage(self, error: errors.CorruptBundle) -> bool:
        """A batch that was handed out holds a bundle that cannot be read. Whether to go on behind it; else
        the consumer stands before it and says so."""
        if self.damaged is DamagedPolicy.SKIP:
            logger.warning("skipped: %s", error)
            return True
        self.position = min(self.position, error.number)
        if not any(each.number == error.number for each in self.damages):
            self.damages.append(error)
        return False

    def take(self, chunk: FetchedChunk) -> MessageBatch | None:
        """A fetch's answer: the batch that it holds, None when there is nothing new. CorruptBundle."""
        self.failures = 0
        if not chunk.chunk:
            self._take_nothing(chunk)
            return None
        asked = self.fetch_from
        upper = chunk.high_water_mark
        if self.stop_after is not None:
            upper = min(upper, self.stop_after)
        try:
            last, whole = self._last_number(chunk, asked)
        except errors.CorruptBundle as error:
            if self.damaged is not DamagedPolicy.SKIP:
                raise
            # Nothing tells how many numbers it takes up: the next one, until another bundle comes.
            logger.warning("skipped: %s", error)
            self.fetch_from = max(asked, chunk.base) + 1
            self._look_for_end()
            return None
        if not whole:
            self._ask_for_more(chunk)
            return None
        last = min(last, upper)  # what is beyond the end that was asked for was not read
        if last < asked:
            self.behind = False  # nothing of it is new: the broker waits, or the mark has to move first
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
        )
        self.fetch_from = last + 1
        self.fetch_bytes = 0
        self.behind = last < chunk.high_water_mark
        self._look_for_end()
        return batch

    def out_of_bounds(self, bounds: errors.OutOfBounds, policy: OutOfBoundsPolicy) -> None:
        """The number is not there: goes where the policy says, or raises the error."""
        if policy is OutOfBoundsPolicy.ERROR:
            raise bounds
        earliest = policy is OutOfBoundsPolicy.EARLIEST
        number = bounds.first_available if earliest else bounds.high_water_mark + 1
        if self.position == self.fetch_from:
            self.position = number
        self.fetch_from = number
        self.behind = True
        self._look_for_end()

    def _last_number(self, chunk: FetchedChunk, asked: int) -> tuple[int, bool]:
        """The last number of the chunk that may be handed out, and whether it holds a whole bundle at all."""
        number, last, whole = chunk.base, 0, False
        try:
            for bundle in bundles(chunk.chunk):
                header = read_header(bundle)
                first = header.first if header.sparse else number
                if not whole and chunk.sparse and not header.sparse:
                    raise InvalidBundle(
                        "the answer says that the first bundle has its own numbers, and it has none"
                    )
                whole = True
                if first > chunk.high_water_mark:
                    break
                number = first + header.span + 1
                last = min(number - 1, chunk.high_water_mark)
        except InvalidBundle as error:
            if last < asked:
                raise errors.CorruptBundle(self.topic, self.partition, asked, str(error)) from None
            # What stands before it is good, and the next fetch meets it first.
        return last, whole

    def _take_nothing(self, chunk: FetchedChunk) -> None:
        self.behind = False
        if self.stop_after is not None and chunk.high_water_mark >= self.stop_after:
            self.done = True  # what is missing up to the end are numbers that nobody has

    def _ask_for_more(self, chunk: FetchedChunk) -> None:
        """The chunk ends within its first bundle."""
        size = max(self.fetch_bytes, len(chunk.chunk))
        if size >= MAX_FETCH_BYTES:
            raise errors.CorruptBundle(
                self.topic, self.partition, self.fetch_from, f"a bundle over {MAX_FETCH_BYTES} bytes"
            )
        self.fetch_bytes = min(size * 2, MAX_FETCH_BYTES)

    def _look_for_end(self) -> None:
        if self.stop_after is not None and self.fetch_from > self.stop_after:
            self.done = True
