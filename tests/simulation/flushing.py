"""A broker's fsyncs in virtual time: the real flusher, whose threads are events."""

from collections.abc import Callable

from tank_node.log.flusher import Flusher
from tests.simulation.disks import SimulatedDisk
from tests.simulation.world import MS, Life, World

SLOWEST = 60
"""So many times as long as usual an fsync takes now and then."""


class SimulatedFlusher(Flusher):
    """Each job is one event, some virtual time after it was asked for; several may be under way."""

    def __init__(self, world: World, life: Life, disk: SimulatedDisk, usual_us: int = 3 * MS) -> None:
        super().__init__(disk, self._later)
        self._world = world
        self._life = life
        self._usual_us = usual_us

    def _later(self, call: Callable[[], None]) -> None:
        self._world.after(self._world.between(1, 50), self._life, call)

    def _submit(self, job: Callable[[], None]) -> None:
        self._idle -= 1
        delay = self._world.between(self._usual_us // 4, self._usual_us)
        if self._world.chance(0.02):
            delay *= self._world.between(2, SLOWEST)
        self._world.after(delay, self._life, job)

    def run_long(self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]) -> None:
        """As the real one; a compaction is never cancelled here."""

        def work() -> None:
            job()
            self._later(done)

        self._world.after(self._world.between(MS, 100 * MS), self._life, work)
