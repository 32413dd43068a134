"""A broker's fsyncs in virtual time: the real flusher, whose threads are events."""

import contextlib
from collections import deque
from collections.abc import Callable

from tank_node.log.flush_work import TOGETHER_FROM
from tank_node.store.flusher import Flusher
from tests.simulation.world.disks import SimulatedDisk
from tests.simulation.world.world import MS, SECOND, Life, World

USUAL_US = 3 * MS
SLOWEST = 60
"""So many times as long as usual an fsync takes now and then."""


class SimulatedFlusher(Flusher):
    """Each job is one event, some virtual time after it was asked for; several may be under way."""

    def __init__(self, world: World, life: Life, disk: SimulatedDisk, is_slow: Callable[[], bool]) -> None:
        super().__init__(disk, self._later, clock=lambda: world.now / SECOND)
        self._world = world
        self._life = life
        self._is_slow = is_slow
        self.overlaps = False
        """Whether a round covers what was written before it was asked for, and no more."""
        self._simulated = disk
        self._asked_at: deque[int] = deque()
        """The disk's last change when each of `_works` was asked for."""
        self._jobs: dict[int, Callable[[], None]] = {}
        """Under way, in the order in which they were asked for."""

    def _later(self, call: Callable[[], None]) -> None:
        self._world.after(self._world.between(1, 50), self._life, call)

    def _submit(self, job: Callable[[], None]) -> None:
        self._idle -= 1
        if len(self._asked_at) < len(self._works):
            self._asked_at.append(self._simulated.changes)
        delay = self._world.between(USUAL_US // 4, USUAL_US)
        if self._is_slow():
            delay += self._world.between(300 * MS, 700 * MS)
        elif self._world.chance(0.02):
            delay *= self._world.between(2, SLOWEST)
        self._plan(delay, job)

    def _sync(self) -> None:
        count = len(self._works) if len(self._works) >= TOGETHER_FROM else min(len(self._works), 1)
        asked_at = [self._asked_at.popleft() for _ in range(count)]
        if self.overlaps and asked_at and self._world.chance(0.7):
            self._simulated.covers = max(asked_at)
        try:
            super()._sync()
        finally:
            self._simulated.covers = None

    def _plan(self, delay: int, job: Callable[[], None]) -> None:
        self._jobs[id(job)] = job
        self._world.after(delay, self._life, lambda: self._do(job))

    def _do(self, job: Callable[[], None]) -> None:
        if self._jobs.pop(id(job), None) is not None:
            job()

    def run_long(self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]) -> None:
        """As the real one, but several may be under way."""

        def ended() -> None:
            self._idle -= 1
            self._cancels.remove(cancel)
            done()

        def work() -> None:
            job()
            self._tell(ended)

        self._cancels.append(cancel)
        self._plan(self._world.between(MS, 100 * MS), work)

    def close(self) -> None:
        """As the real one: what is under way is waited for."""
        for cancel in list(self._cancels):
            with contextlib.suppress(OSError):
                cancel()
        jobs, self._jobs = self._jobs, {}
        for job in jobs.values():
            job()
        super().close()

    def _remove(self, job: Callable[[], None]) -> None:
        self._plan(self._world.between(MS, 100 * MS), job)
