"""A stock client of Iggy's protocol: how it is installed, and how its walk is run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent / "programs"
SCRIPTS: Final = Path(__file__).parent / "frames"
"""The frames of clients that are in no package registry."""


@dataclass(frozen=True, slots=True)
class StockClient:
    """A client of a kind and a version."""

    name: str
    """How it is chosen, and the heading of its column: what it is, and its version."""
    kind: str
    """The heading of its table."""
    install: Callable[[Path], None]
    """Installs it into a folder of its own. Raises NotInstalledError."""
    command: Callable[[Path, str, int], list[str]]
    """The command of its walk, for the folder, and the broker's host and port. The walk prints a line of JSON
    for each step: its name, and what was wrong; empty: nothing. A step that the client has no call for is not
    printed."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Steps that fail whatever a server answers, with the reason."""

    def folder(self, among: Path) -> Path:
        """Its folder among those of all clients."""
        return among / self.name.replace(" ", "-")
