"""The simulated world: a virtual clock, events in order, chance from one seed, and what happened.

Nothing here waits, and nothing comes from outside: the same seed gives the same story, event by event.
Times are microseconds of virtual time.
"""

import heapq
import logging
import random
from collections import Counter, deque
from collections.abc import Callable

MS = 1000
SECOND = 1000 * MS
START_MS = 1_700_000_000_000
"""The wall clock at the beginning."""
LOOK_US = 250 * MS
TRACE_LINES = 6000
"""Kept for a failure's report."""


class Violation(BaseException):
    """An invariant doesn't hold. Not an Exception: the code under test guards itself against those."""


class ProcessEnded(BaseException):
    """The process that an event belongs to ends in the middle of it. Nothing under test may catch it."""

    def __init__(self, *, power: bool) -> None:
        super().__init__("power lost" if power else "killed")
        self.power = power


class Life:
    """One run of a process: what is planned for it happens while it lives, and waits while it is frozen."""

    __slots__ = ("alive", "check", "ended", "frozen", "held", "name")

    def __init__(self, name: str, check: Callable[[], None], ended: Callable[[bool], None]) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.held: list[Callable[[], None]] = []
        """What would have happened while it is frozen, in order."""
        self.check = check
        """Called after each of its events."""
        self.ended = ended
        """Called when an event ended the process; with whether its machine lost power."""


Event = tuple[int, int, Life | None, Callable[[], None]]


class World:
    """Clock, events, chance and trace. Everything else hangs on it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0
        """Virtual time."""
        self.events = 0
        """That happened."""
        self.faults: Counter[str] = Counter()
        """By kind."""
        self.counts: Counter[str] = Counter()
        """Of what went well: a story in which nothing happens proves little."""
        self.trace: deque[tuple[int, str, str, tuple[object, ...]]] = deque(maxlen=TRACE_LINES)
        self.bugs: list[str] = []
        """Errors with a traceback that the code under test logged and went on from."""
        self.acting: Life | None = None
        """Whose event happens now."""
        self._heap: list[Event] = []
        self._order = 0

    # --- time ---

    def now_ms(self) -> int:
        """The wall clock, of everybody."""
        return START_MS + self.now // MS

    def at(self, moment: int, life: Life | None, call: Callable[[], None]) -> None:
        """Plans an event."""
        self._order += 1
        heapq.heappush(self._heap, (max(moment, self.now), self._order, life, call))

    def after(self, delay: int, life: Life | None, call: Callable[[], None]) -> None:
        """Plans an event `delay` from now; a life's own happens only if that life lasts."""
        self.at(self.now + delay, life, call)

    def every(self, period: int, life: Life, call: Callable[[], None]) -> None:
        """Again and again, as long as the life lasts; the first time after a part of the period."""

        def again() -> None:
            self.after(period, life, again)
            call()

        self.after(self.random.randrange(period) + 1, life, again)

    def run_until(self, moment: int, done: Callable[[], bool] | None = None) -> bool:
        """Lets events happen until that moment, or until `done`, asked now and then; whether it is."""
        heap = self._heap
        look = self.now
        while heap and heap[0][0] <= moment:
            at, _, life, call = heapq.heappop(heap)
            self.now = at
            self._happen(life, call)
            if done is not None and at >= look:
                if done():
                    return True
                look = at + LOOK_US
        self.now = moment
        return done is not None and done()

    def thaw(self, life: Life) -> None:
        """A frozen process goes on with everything that waited for it."""
        life.frozen = False
        held, life.held = life.held, []
        for call in held:
            self.after(0, life, call)

    def _happen(self, life: Life | None, call: Callable[[], None]) -> None:
        if life is None:
            self.events += 1
            call()
        elif life.alive:
            if life.frozen:
                life.held.append(call)
                return
            self.events += 1
            self.guarded(life, call)
        if self.bugs:
            raise Violation(f"an error was logged and survived: {self.bugs[0]}")

    def guarded(self, life: Life, call: Callable[[], None]) -> None:
        """Something a process does: it may end in the middle of it; what holds is checked afterwards."""
        before, self.acting = self.acting, life
        try:
            call()
        except ProcessEnded as end:
            life.ended(end.power)
        finally:
            self.acting = before
        if life.alive:
            life.check()

    # --- chance ---

    def chance(self, probability: float) -> bool:
        """Whether it comes to pass."""
        return self.random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return self.random.randint(low, high)

    def random_bytes(self, count: int) -> bytes:
        """In the place of os.urandom."""
        return self.random.randbytes(count)

    # --- what happened ---

    def say(self, who: str, text: str, *parts: object) -> None:
        """A line of the trace: `text % parts`, made only when somebody reads it; parts must not change."""
        self.trace.append((self.now, who, text, parts))

    def fault(self, kind: str, text: str = "", *parts: object) -> None:
        """Counts a fault that was made, and says so."""
        self.faults[kind] += 1
        self.say("FAULT", f"{kind} {text}", *parts)

    def lines(self, last: int | None = None) -> list[str]:
        """The trace, or its end, as text."""
        kept = list(self.trace)[-last if last else None :]
        return [f"{at / SECOND:10.4f} {who:8} {text % parts}" for at, who, text, parts in kept]


class BugLog(logging.Handler):
    """Takes what the code under test logs: an error with a traceback is a bug, the rest is for the trace."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """One record."""
        if record.exc_info:
            self._world.bugs.append(logging.Formatter().format(record))
        else:
            self._world.say("log", "%s", record.getMessage())


def one_line(failure: str) -> str:
    """For those who read lines: a failure may hold a traceback."""
    return " | ".join(failure.splitlines())


def must(holds: bool, what: str, *parts: object) -> None:
    """Violation unless it holds."""
    if not holds:
        raise Violation(what % parts if parts else what)
