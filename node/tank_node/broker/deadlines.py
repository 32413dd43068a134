"""The deadlines of requests that wait for the high-water mark of some partitions."""

import heapq
import itertools
import logging
from typing import Final

from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Tick, Waiter

logger = logging.getLogger(__name__)

FAILED: Final = "internal_error"
"""The reason for which the connection of a wait is closed that a bug has left without an answer."""


class Deadlines:
    """All waiters of a node, with their deadlines. A part of `broker.Broker`, whose tick gives the time."""

    __slots__ = ("_deadlines", "_metrics", "_order", "_tick", "entries", "has_ended", "waits")

    def __init__(self, tick: Tick[Partition], metrics: Metrics) -> None:
        self._tick = tick
        self._metrics = metrics
        self.entries = 0
        """The sum of `Waiter.entries` of all waiters."""
        self._deadlines: list[tuple[int, int, Waiter[Partition]]] = []
        self._order = itertools.count()
        self.waits = 0
        """Number of waits that have not ended."""
        self.has_ended = False
        """Whether the node stops: waits end although their time has not come."""

    @property
    def kept(self) -> int:
        """Number of deadlines in the heap, those of ended waits included."""
        return len(self._deadlines)

    def wait(self, waiter: Waiter[Partition], partitions: tuple[Partition, ...], max_wait_ms: int) -> None:
        """Registers a waiter until `forget`. The waiter is called when the mark of one of the partitions
        moves, and when `max_wait_ms` have passed."""
        # Plus 1, because the clock's milliseconds are rounded down: no wait ends early.
        waiter.deadline_ms = self._tick.monotonic_ms + max_wait_ms + 1
        waiter.partitions = partitions
        for partition in partitions:
            partition.waiters[waiter] = None
        heapq.heappush(self._deadlines, (waiter.deadline_ms, next(self._order), waiter))
        self.waits += 1
        self._metrics.waiting += waiter.is_request
        self.entries += waiter.entries
        if len(self._deadlines) > 2 * self.waits + 1024:
            # A waiter that ended early leaves its deadline in the heap; up to an hour's worth would pile up.
            self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
            heapq.heapify(self._deadlines)

    def forget(self, waiter: Waiter[Partition]) -> None:
        """Ends a wait; does nothing when it has ended."""
        if waiter.done:
            return
        waiter.done = True
        for partition in waiter.partitions:
            partition.waiters.pop(waiter, None)
        self.waits -= 1
        self._metrics.waiting -= waiter.is_request
        self.entries -= waiter.entries

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline (monotonic); None when no request waits."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].done:
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def expire(self) -> None:
        """Ends the waits whose deadline has passed. Call `begin_tick` first."""
        now_ms = self._tick.monotonic_ms
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            self._expire(heapq.heappop(self._deadlines)[2])

    def end_waits(self) -> None:
        """Ends all waits at once, when the node stops, as if their deadlines had passed."""
        self.has_ended = True
        # The latest first: a consume that waits in several steps ends as a whole before a step begins anew.
        for _, _, waiter in sorted(self._deadlines, reverse=True):
            if not waiter.done:
                self._expire(waiter)
        self._deadlines = []

    def _expire(self, waiter: Waiter[Partition]) -> None:
        """Ends one wait; an unexpected exception of it must not stop the others."""
        try:
            waiter.expired()
            assert waiter.done, "an expired waiter must be forgotten"
        except Exception:
            logger.exception(
                "a bug of ours: an expired wait is not answered; its connection is closed, the others go on, "
                "please report it"
            )
            self.fail(waiter)

    def fail(self, waiter: Waiter[Partition]) -> None:
        """Ends a wait that a bug has left without an answer, and closes its connection: the client would wait
        for the answer as long as it waits for a broker, and nothing behind it would be answered either."""
        self.forget(waiter)
        if waiter.asked_by is not None:
            waiter.asked_by.hang_up(FAILED)
