"""How much the requests of one tick may unpack together, and those that wait for another tick."""

from collections.abc import Callable
from typing import Final, TypeAlias

from tank_node.broker.deadlines import Deadlines
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Tick, Waiter

_RESUMED: Final = 16
"""How many of the queue are called in one tick. Each costs a copy of what its connection has received, and
the first ones may use the room up."""

_Asks: TypeAlias = object
"""What asks: a session. It asks anew when it is called."""


class Unpacking:
    """The room of a tick for unpacked bytes, which `Tick.unpacked_bytes` counts. One request may go beyond
    it, by what a request alone may unpack; the requests behind it wait. A part of `broker.Broker`."""

    __slots__ = ("_deadlines", "_most_bytes", "_queue", "_tick", "_wake")

    def __init__(self, deadlines: Deadlines, tick: Tick[Partition], most_bytes: int) -> None:
        self._deadlines = deadlines
        self._tick = tick
        self._most_bytes = most_bytes
        self._queue: dict[_Asks, Callable[[], None]] = {}
        """The longest waiting first."""
        self._wake: NextTick | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def may_begin(self, asks: _Asks, go_on: Callable[[], None]) -> bool:
        """Whether a request that may have to unpack something may begin now. If not, `go_on` is called in a
        later tick, when it is the turn of the one that asks; the request may ask anew then, and keeps its
        place if the room is used up again."""
        queue = self._queue
        if self._tick.unpacked_bytes < self._most_bytes and (not queue or asks in queue):
            queue.pop(asks, None)
            return True
        queue.setdefault(asks, go_on)
        if self._wake is None:
            self._wake = NextTick(self._next_tick)
            self._deadlines.wait(self._wake, (), 0)
        return False

    def leave(self, asks: _Asks) -> None:
        """Forgets one that waits: its connection has ended."""
        self._queue.pop(asks, None)

    def _next_tick(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            self._deadlines.forget(wake)
        if not self._queue:
            return
        # Those that find the room used up ask again, and all others are called after them.
        self._wake = NextTick(self._next_tick)
        self._deadlines.wait(self._wake, (), 0)
        for go_on in list(self._queue.values())[:_RESUMED]:
            go_on()


class NextTick(Waiter[Partition]):
    """The wait for the next tick."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self._then = then

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        raise AssertionError("the wait is on no partition")

    def lost(self, partition: Partition) -> None:
        raise AssertionError("the wait is on no partition")

    def expired(self) -> None:
        self._then()
