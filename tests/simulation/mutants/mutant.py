"""A mutant: a mistake that is made in the code on purpose, its place, and the story that detects it."""

from dataclasses import dataclass

from tests.simulation.mutants.edit import Edit
from tests.simulation.story import Kind


@dataclass(slots=True, frozen=True)
class Mutant:
    """One line that does the wrong thing."""

    name: str
    symbol: str
    """See `Edit`, as for the next two."""
    old: str
    new: str
    kind: Kind = Kind.CONTROLLERS
    """The stories that it should show in."""
    seeds: int = 200
    """Within so many it must be caught."""
    told: str = ""
    """The story without chance that shows it, by its name in `told.stories`; it is tried alone."""
    also: tuple[tuple[str, str, str], ...] = ()
    """(symbol, old, new) of a second guard, where the code has two that each suffice."""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All of it."""
        return Edit(self.symbol, self.old, self.new), *(Edit(*each) for each in self.also)
