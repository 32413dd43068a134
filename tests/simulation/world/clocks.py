"""A machine's clock: it runs like the world's clock, and may be wrong."""

from dataclasses import dataclass

from tests.simulation.world.world import World


@dataclass(slots=True)
class ClockError:
    """How wrong a machine's wall clock is; it outlives the machine's processes."""

    wrong_by_ms: int = 0


class SimulatedClock:
    """`tank_node.clock.Clock` of one process."""

    def __init__(self, world: World, error: ClockError) -> None:
        self._world = world
        self._error = error
        self._offset_us = 1_000_000_000 + world.between(0, 1_000_000_000)

    def now_ms(self) -> int:
        """The wall clock, as far as this machine knows."""
        return max(self._world.now_ms() + self._error.wrong_by_ms, 1)

    def monotonic_ms(self) -> int:
        """Begins anywhere."""
        return (self._offset_us + self._world.now) // 1000

    def monotonic_us(self) -> int:
        """The same clock."""
        return self._offset_us + self._world.now
