"""A read of stored batches at the partition's leader, which may wait for messages."""

from collections.abc import Callable

from tank_node.broker.broker import Broker
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.segment.errors import StorageError
from tank_node.session import Session
from tank_node.stored.leader.reading import read_stored
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.places import readable_here
from tank_node.stored.results import Fetched, Place, StoredWanted
from tank_node.stored.strategy import StoredStrategy


class ReadWait(Waiter[Partition]):
    """One read. `begin` ends it at once, or has it wait."""

    __slots__ = ("_broker", "_place", "_told", "_wanted")

    def __init__(
        self,
        broker: Broker,
        place: Place,
        wanted: StoredWanted,
        asked_by: Session,
        told: Callable[[Fetched], None],
    ) -> None:
        """told: called once with what was found; not after `asked_by` was closed during a wait."""
        super().__init__()
        self.asked_by = asked_by
        self.entries = 1
        self._broker = broker
        self._place = place
        self._wanted = wanted
        self._told = told

    def begin(self) -> None:
        """Reads, and waits if there is nothing and the request may wait."""
        broker = self._broker
        found = self._look()
        if self._is_answer(found) or not self._wanted.wait_ms:
            self._told(found)
            return
        partition = readable_here(broker, self._place)
        assert isinstance(partition, Partition), "it was read"
        limits = broker.limits
        if (
            len(partition.waiters) >= limits.waits_per_partition
            or broker.deadlines.entries >= limits.all_wait_entries
        ):
            broker.metrics.refused["too_many_waits"] += 1
            self._told(found)
            return
        broker.deadlines.wait(self, (partition,), min(self._wanted.wait_ms, limits.forwarded_wait_ms))

    def _look(self) -> Fetched:
        """Reads the partition as it is now."""
        partition = readable_here(self._broker, self._place)
        if isinstance(partition, StoredOutcome):
            return Fetched(partition)
        if not partition.end_known and self._wanted.strategy is StoredStrategy.LAST:
            return Fetched(StoredOutcome.NO_LEADER)
        try:
            found = read_stored(partition, self._wanted)
        except StorageError as error:
            partition.note_error(error)
            return Fetched(StoredOutcome.STORAGE)
        if not found.batches and not partition.end_known:
            # The mark of a new leader may be below one that an earlier leader has shown.
            return Fetched(StoredOutcome.NO_LEADER)
        return found

    def _is_answer(self, found: Fetched) -> bool:
        """Whether this ends the wait."""
        return bool(found.outcome or found.batches or not self._wanted.count)

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        if self._is_gone():
            return
        found = self._look()
        if self._is_answer(found):
            self._end(found)

    def lost(self, partition: Partition) -> None:
        if not self._is_gone():
            found = readable_here(self._broker, self._place)
            self._end(Fetched(found if isinstance(found, StoredOutcome) else StoredOutcome.NO_LEADER))

    def expired(self) -> None:
        if not self._is_gone():
            self._end(self._look())

    def _is_gone(self) -> bool:
        """Whether the wait has ended, or ends now because nobody is there to be told."""
        assert self.asked_by is not None
        if self.asked_by.closed:
            self._broker.deadlines.forget(self)
        return self.done

    def _end(self, found: Fetched) -> None:
        self._broker.deadlines.forget(self)
        self._told(found)
