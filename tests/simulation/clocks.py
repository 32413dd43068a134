"""A machine's clock: it goes as the world's does, and may be wrong."""

from tests.simulation.world import World


class SimulatedClock:
    """`tank_node.clock.Clock` of one machine."""

    def __init__(self, world: World, wrong_by_ms: int = 0) -> None:
        self._world = world
        self._wrong_by_ms = wrong_by_ms
        self._offset_us = 1_000_000_000 + world.between(0, 1_000_000_000)

    def now_ms(self) -> int:
        """The wall clock, as far as this machine knows."""
        return self._world.now_ms() + self._wrong_by_ms

    def monotonic_ms(self) -> int:
        """Begins anywhere."""
        return (self._offset_us + self._world.now) // 1000

    def monotonic_us(self) -> int:
        """The same clock."""
        return self._offset_us + self._world.now
