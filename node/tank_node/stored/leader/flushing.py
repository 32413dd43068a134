"""Flushing a partition that this broker leads, at a client's request."""

from collections.abc import Callable
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import LateAnswer, Waiter
from tank_node.session import Session
from tank_node.stored.outcome import StoredOutcome, of_refusal
from tank_node.stored.places import led_here
from tank_node.stored.results import Place


class FlushWait(Waiter[Partition]):
    """One flush: of all that the log holds when it is asked for, appends of the same tick included. It is
    done when the leader's disk has it, and the high-water mark has passed it."""

    __slots__ = ("_broker", "_place", "_through", "_told")

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
        self._through = 0

    def begin(self, *, waits: bool) -> None:
        """Asks the disk, and waits for it and for the replicas; without `waits`, `told` is called at once."""
        broker = self._broker
        partition = led_here(broker, self._place)
        if isinstance(partition, StoredOutcome):
            self._told(partition)
            return
        if partition.log.state is not LogState.ACTIVE:
            self._told(StoredOutcome.STORAGE)
            return
        self._through = partition.end()
        if not waits or broker.deadlines.entries >= broker.limits.all_wait_entries:
            self._soon(partition, partial(broker.flusher.request, partition.log, self._through))
            self._told(StoredOutcome.MAYBE_STORED if waits else StoredOutcome.DONE)
            return
        broker.deadlines.wait(self, (partition,), broker.limits.ack_timeout_ms)
        partition.start.watchers[self.look] = None
        self._soon(partition, self.look)

    def _soon(self, partition: Partition, act: Callable[[], None]) -> None:
        """Does this when what is staged in this tick is written."""
        if partition.touched:
            assert self.asked_by is not None
            self._broker.tick.late.append(FlushAfterWrites(self.asked_by, act))
        else:
            act()

    def look(self) -> None:
        """Ends the wait if all is done, and asks the disk again where it has less."""
        partition = self.partitions[0]
        if self.done or self._is_gone(partition):
            return
        log = partition.log
        if log.state is not LogState.ACTIVE:
            self._end(partition, StoredOutcome.STORAGE)
        elif log.synced < self._through:
            self._broker.flusher.request(log, self._through)
        elif partition.high_water_mark >= self._through:
            self._end(partition, StoredOutcome.DONE)

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        self.look()

    def lost(self, partition: Partition) -> None:
        """What was written may be lost now, with the flush of it."""
        if not self._is_gone(partition):
            is_bad = of_refusal(partition.refusal) is StoredOutcome.STORAGE
            self._end(partition, StoredOutcome.STORAGE if is_bad else StoredOutcome.MAYBE_STORED)

    def expired(self) -> None:
        partition = self.partitions[0]
        if not self._is_gone(partition):
            self._end(partition, StoredOutcome.MAYBE_STORED)

    def _is_gone(self, partition: Partition) -> bool:
        """Whether nobody is there to be told; the wait ends then."""
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


class FlushAfterWrites(LateAnswer):
    """Asks the disk for what the tick has written."""

    __slots__ = ("_act",)

    def __init__(self, asked_by: Session, act: Callable[[], None]) -> None:
        super().__init__(asked_by)
        self._act = act

    def make(self) -> None:
        self._act()
