"""Deleting the oldest segments of a partition that this broker leads, at a client's request."""

from collections.abc import Callable

from tank_node.broker.broker import Broker
from tank_node.log.log import LogState, PartitionLog
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.segment.errors import StorageError
from tank_node.session import Session
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.places import led_here, stable_mark
from tank_node.stored.results import Place
from tank_protos.topic_settings import CleanupPolicy


def start_without_oldest(log: PartitionLog, count: int, mark: int) -> int:
    """The log start that deletes the `count` oldest sealed segments, or as many as lie wholly at or below the
    mark."""
    start = log.log_start
    for following in log.segments.list[1 : count + 1]:
        if following.base - 1 > mark:
            break
        start = max(start, following.base)
    return start


class SegmentDeletion(Waiter[Partition]):
    """One deletion. It is answered when it outlives this broker's end: its disk says the new log start, and
    all in-sync followers have it, one of which would lead next."""

    __slots__ = ("_asked", "_broker", "_place", "_saved", "_start", "_told")

    def __init__(
        self, broker: Broker, place: Place, asked_by: Session, told: Callable[[StoredOutcome], None]
    ) -> None:
        """told: called once; not after `asked_by` was closed."""
        super().__init__()
        self.asked_by = asked_by
        self.entries = 1
        self._broker = broker
        self._place = place
        self._told = told
        self._start = 0
        self._asked = self._saved = False
        """Whether the checkpoint that says the log start was asked for, and is written."""

    def begin(self, count: int) -> None:
        """Deletes the `count` oldest sealed segments, and begins to wait."""
        broker = self._broker
        partition = led_here(broker, self._place)
        if isinstance(partition, StoredOutcome):
            self._told(partition)
            return
        refused = self._refusal(partition)
        log = partition.log
        if refused:
            self._told(refused)
            return
        start = start_without_oldest(log, count, stable_mark(partition))
        if start <= log.log_start:
            self._told(StoredOutcome.DONE)
            return
        try:
            partition.start.raise_to(start, partition.leadership)
        except StorageError as error:
            partition.note_error(error)
            self._told(StoredOutcome.STORAGE)
            return
        self._start = max(start, log.first_available)
        broker.deadlines.wait(self, (partition,), broker.limits.ack_timeout_ms)
        partition.start.watchers[self.look] = None
        # Behind the synced end a log start doesn't survive a crash: see recovery.
        broker.flusher.request(log, self._start - 1)
        self.look()

    def _refusal(self, partition: Partition) -> StoredOutcome:
        view = self._broker.link.view.topic_by_id(self._place[0])
        if view is None:
            return StoredOutcome.UNKNOWN_TOPIC
        if view.settings.cleanup_policy is CleanupPolicy.CLEANUP or self._broker.is_internal(view.name):
            return StoredOutcome.REFUSED  # the newest message of each key is to stay
        if partition.log.state is not LogState.ACTIVE:
            return StoredOutcome.STORAGE
        # The mark of a new leader may be below segments that an earlier leader has shown.
        return StoredOutcome.DONE if partition.end_known else StoredOutcome.NO_LEADER

    def look(self) -> None:
        """Ends the wait if the deletion is safe, and asks for the checkpoint when the disk may say it."""
        partition = self.partitions[0]
        if self.done or self._is_gone(partition):
            return
        if not self._asked and partition.log.synced >= self._start - 1:
            self._asked = True
            broker = self._broker
            broker.data_folder.write_checkpoint_with(broker.flusher, self._written)
            return
        if self._saved and partition.start.lowest(partition.leadership) >= self._start:
            self._end(partition, StoredOutcome.DONE)

    def _written(self, ok: bool) -> None:
        if self.done:
            return
        self._saved = ok
        if ok:
            self.look()
        else:
            self._end(self.partitions[0], StoredOutcome.STORAGE)

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        """Does nothing: a raised log start doesn't depend on the high-water mark."""

    def lost(self, partition: Partition) -> None:
        """The next leader may not have heard of the new log start."""
        if not self._is_gone(partition):
            self._end(partition, StoredOutcome.MAYBE_STORED)

    def expired(self) -> None:
        self.lost(self.partitions[0])

    def _is_gone(self, partition: Partition) -> bool:
        """Whether nobody is there to be told; the wait ends then. What was deleted stays so."""
        assert self.asked_by is not None
        if self.asked_by.closed:
            self._forget(partition)
        return self.asked_by.closed

    def _end(self, partition: Partition, outcome: StoredOutcome) -> None:
        self._forget(partition)
        self._told(outcome)

    def _forget(self, partition: Partition) -> None:
        self._broker.deadlines.forget(self)
        partition.start.watchers.pop(self.look, None)
