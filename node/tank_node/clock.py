"""Time, as the node's rooms see it: an interface, and the machine's own clock behind it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the node takes the time from. Tests pass one that moves only when told."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970. May jump when the machine's clock is set."""
        ...

    def monotonic_ms(self) -> int:
        """A clock for waits and deadlines, in milliseconds: it never goes back."""
        ...

    def monotonic_us(self) -> int:
        """The same clock in microseconds, for measuring."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1_000
