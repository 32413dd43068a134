"""Everybody's deadlines: consumers and others who wait for the high-water mark of some partitions."""

import heapq
import itertools
import logging

from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Tick, Waiter

logger = logging.getLogger(__name__)


class WaitList:
    """Who waits, with their deadlines; what `broker.Broker` is made of."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.tick: Tick[Partition] = Tick()
        self.wait_entries = 0
        """Of all waiters together."""
        self._deadlines: list[tuple[int, int, Waiter[Partition]]] = []
        self._order = itertools.count()

    def wait(self, waiter: Waiter[Partition], partitions: tuple[Partition, ...], max_wait_ms: int) -> None:
        """Registers a waiter until `forget`; it is told when a mark moves, and when `max_wait_ms` have
        passed."""
        # One more, because the clock's milliseconds are cut off: nobody is sent away before the time.
        waiter.deadline_ms = self.tick.monotonic_ms + max_wait_ms + 1
        waiter.partitions = partitions
        for partition in partitions:
            partition.waiters[waiter] = None
        heapq.heappush(self._deadlines, (waiter.deadline_ms, next(self._order), waiter))
        self.metrics.waiting += 1
        self.wait_entries += waiter.entries
        if len(self._deadlines) > 2 * self.metrics.waiting + 1024:
            # Those who were woken leave their deadline behind; without this an hour's worth of them would
            # pile up.
            self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
            heapq.heapify(self._deadlines)

    def forget(self, waiter: Waiter[Partition]) -> None:
        """Ends a wait. Harmless when it has ended."""
        if waiter.done:
            return
        waiter.done = True
        for partition in waiter.partitions:
            partition.waiters.pop(waiter, None)
        self.metrics.waiting -= 1
        self.wait_entries -= waiter.entries

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do, on the monotonic clock; None: not before somebody waits."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].done:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def expire(self) -> None:
        """Tells all waiters whose deadline has passed. Call `begin_tick` first."""
        now_ms = self.tick.monotonic_ms
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            self._expire(heapq.heappop(self._deadlines)[2])

    def answer_late(self) -> None:
        """Makes the answers that waited for what this tick wrote."""
        late, self.tick.late = self.tick.late, []
        for answer in late:
            try:
                answer.make()
            except Exception:
                logger.exception("a fetch was not answered, by a bug of ours; the others go on")

    def end_waits(self) -> None:
        """Ends all waits now, as their deadlines would: the node stops."""
        # The latest first: what waits again and again ends as a whole, before a part of it begins anew.
        for _, _, waiter in sorted(self._deadlines, reverse=True):
            if not waiter.done:
                self._expire(waiter)
        self._deadlines = []

    def _expire(self, waiter: Waiter[Partition]) -> None:
        """Tells one that its time is over. What goes wrong with it is not to hurt the others."""
        try:
            waiter.expired()
            assert waiter.done, "an expired waiter must be forgotten"
        except Exception:
            logger.exception("a wait could not be ended, by a bug of ours; the others go on")
            self.forget(waiter)
