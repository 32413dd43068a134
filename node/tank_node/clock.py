"""Time, as the node's rooms see it: an interface, and the machine's own clock behind it."""

import logging
import time
from typing import Final, Protocol

_log = logging.getLogger(__name__)

NOTICED_MS: Final = 60_000
"""A wall clock that is so far ahead of what is believed has jumped: time servers correct by less."""


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


class SteadyClock:
    """The wall clock as far as a running process believes it: for stamps, and for what their age decides.

    A clock that jumps forward would let retention delete everything at once, stamp batches with a time that
    keeps retention from deleting them, and let producers count as silent. So what is believed goes at most
    twice as fast as the monotonic clock: a small correction is caught up within as much time, and a jump of a
    year takes a year, which is long enough to set the clock right. Backward it follows at once, which is
    harmless: a log's append times never fall. A process that starts has nothing to compare with: it believes.
    """

    __slots__ = ("_believed_ms", "_clock", "_monotonic_ms", "_said", "ahead_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._believed_ms = clock.now_ms()
        self._monotonic_ms = clock.monotonic_ms()
        self._said = False
        self.ahead_ms = 0
        """How far the wall clock was ahead of what was believed, when it was last asked. Never negative."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as far as they are believed."""
        wall_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        most_ms = self._believed_ms + 2 * (monotonic_ms - self._monotonic_ms)
        self._monotonic_ms = monotonic_ms
        self._believed_ms = believed_ms = wall_ms if wall_ms < most_ms else most_ms
        self.ahead_ms = ahead_ms = wall_ms - believed_ms
        if (ahead_ms >= NOTICED_MS) is not self._said:
            self._say()
        return believed_ms

    def monotonic_ms(self) -> int:
        """The same as the other clock's."""
        return self._clock.monotonic_ms()

    def monotonic_us(self) -> int:
        """The same as the other clock's."""
        return self._clock.monotonic_us()

    @property
    def problem(self) -> str:
        """What is wrong with the wall clock, and what to do; empty: nothing is."""
        if self.ahead_ms < NOTICED_MS:
            return ""
        return (
            f"the wall clock has jumped forward and is {self.ahead_ms // 1000} s ahead of what messages are "
            "stamped with: set it right; where it is right now, restart the broker, so that it is believed"
        )

    def _say(self) -> None:
        self._said = not self._said
        if self._said:
            _log.warning("%s", self.problem)
        else:
            _log.info("the wall clock agrees again with what messages are stamped with")
