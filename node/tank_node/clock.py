"""Time as an interface, and its implementations by the machine's clocks."""

import logging
import math
import random
import time
from typing import Final, Protocol

_log = logging.getLogger(__name__)

NOTICED_MS: Final = 60_000
"""A wall clock that is further ahead of the steady clock than this has jumped: time servers correct by
less."""
_PHASE_S: Final = random.random()
"""When in a second this process has its beats. The processes of a machine wake up at different moments."""


def next_beat_s(now_s: float, period_s: float) -> float:
    """Returns the moment at which a timer of this period fires next, half a period from `now_s` or later.

    All timers of one period fire together, and together with those whose period is a multiple of it: waking
    up costs an idle process more than the work of a timer. The moment is on the clock of `now_s`.
    """
    return _PHASE_S + math.ceil((now_s - _PHASE_S) / period_s + 0.5) * period_s


class Clock(Protocol):
    """The source of time for a node. Tests use one that they move themselves."""

    def now_ms(self) -> int:
        """The wall clock in milliseconds since 1970. It may jump when the machine's clock is set."""
        ...

    def monotonic_ms(self) -> int:
        """The monotonic clock in milliseconds, for waits and deadlines: it never goes back."""
        ...

    def monotonic_us(self) -> int:
        """The monotonic clock in microseconds, for measuring."""
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
    """The wall clock, protected against jumps forward: for append times, and for the ages that retention
    computes.

    A jump forward would let retention delete everything, and give batches times in the future. So this clock
    advances at most twice as fast as the monotonic clock: it makes up for a small correction soon, and for a
    jump of a year in a year. It follows the wall clock backward at once, because a log's append times never
    fall.
    """

    __slots__ = ("_believed_ms", "_clock", "_monotonic_ms", "_said", "ahead_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._believed_ms = clock.now_ms()
        self._monotonic_ms = clock.monotonic_ms()
        self._said = False
        self.ahead_ms = 0
        """How far the wall clock was ahead of this clock at the last `now_ms`. Never negative."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, by this steady clock."""
        wall_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        most_ms = self._believed_ms + 2 * (monotonic_ms - self._monotonic_ms)
        self._monotonic_ms = monotonic_ms
        self._believed_ms = believed_ms = wall_ms if wall_ms < most_ms else most_ms
        self.ahead_ms = ahead_ms = wall_ms - believed_ms
        if (ahead_ms >= NOTICED_MS) is not self._said:
            self._say()
        return believed_ms

    def monotonic_ms(self) -> int:
        """The underlying clock's."""
        return self._clock.monotonic_ms()

    def monotonic_us(self) -> int:
        """The underlying clock's."""
        return self._clock.monotonic_us()

    @property
    def problem(self) -> str:
        """A sentence on a wall clock that has jumped, and what to do; empty when it hasn't."""
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
