"""The times at which a coordinator has to look at its groups, as one wait among the broker's deadlines."""

from collections.abc import Callable
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter

_LONGEST_MS: Final = 3_600_000


class GroupTimer:
    """Calls `due` at the earliest of the times that it was given, and once more at the broker's end."""

    __slots__ = ("_broker", "_due", "_stopped", "_wait")

    def __init__(self, broker: Broker, due: Callable[[], None], stopped: Callable[[], None]) -> None:
        """stopped: called when the broker stops, and ends all waits."""
        self._broker = broker
        self._due = due
        self._stopped = stopped
        self._wait: _Alarm | None = None

    def by(self, deadline_ms: int) -> None:
        """Makes `due` be called at this time (monotonic), or earlier."""
        wait = self._wait
        if wait is not None:
            if wait.wanted_ms <= deadline_ms:
                return
            self._broker.deadlines.forget(wait)
        wait = self._wait = _Alarm(self, deadline_ms)
        wait_ms = deadline_ms - self._broker.tick.monotonic_ms
        self._broker.deadlines.wait(wait, (), max(min(wait_ms, _LONGEST_MS), 0))
        self._broker.wake()

    def rang(self, wait: "_Alarm") -> None:
        """The wait's time has come, or the broker stops."""
        self._wait = None
        self._broker.deadlines.forget(wait)
        if self._broker.deadlines.has_ended:
            self._stopped()
        else:
            self._due()


class _Alarm(Waiter[Partition]):
    """One wait of a timer."""

    __slots__ = ("_timer", "wanted_ms")

    def __init__(self, timer: GroupTimer, wanted_ms: int) -> None:
        super().__init__()
        self.is_request = False
        self._timer = timer
        self.wanted_ms = wanted_ms

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        raise AssertionError("the wait is on no partition")

    def lost(self, partition: Partition) -> None:
        raise AssertionError("the wait is on no partition")

    def expired(self) -> None:
        self._timer.rang(self)
