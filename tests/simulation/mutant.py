"""One thing that is broken on purpose: file, the text that is there once, and what it becomes."""

from dataclasses import dataclass

from tests.simulation.story import Kind


@dataclass(slots=True, frozen=True)
class Mutant:
    """One line that does the wrong thing."""

    name: str
    file: str
    old: str
    new: str
    kind: Kind = Kind.CONTROLLERS
    """The stories that it should show in."""
    seeds: int = 200
    """Within so many it must be caught."""
    told: str = ""
    """The story without chance that shows it, by its name in `told_stories`; it is tried alone."""
    also: tuple[tuple[str, str, str], ...] = ()
    """(file, old, new) of a second guard, where the code has two that each suffice."""

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        """All of it: (file, old, new)."""
        return ((self.file, self.old, self.new), *self.also)
