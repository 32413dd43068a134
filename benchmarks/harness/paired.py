"""Runs in turn with another system, and the rows that come of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from benchmarks.harness.table import Reached, Row, spread

SystemT = TypeVar("SystemT")

Pair = tuple[dict[str, Any], dict[str, Any] | None]
"""What a run has found with ours, and with the other system where there is one."""


@dataclass(slots=True)
class Turns(Generic[SystemT]):
    """Ours, and another system where there is one."""

    ours: SystemT
    other: SystemT | None = None
    taken: int = field(default=0)

    def each(self, run: Callable[[SystemT], Any]) -> tuple[Any, Any]:
        """Runs a load on both, in an order that changes each time. Returns what it returns for ours, and for
        the other system or None."""
        self.taken += 1
        if self.other is None:
            return run(self.ours), None
        if self.taken % 2:
            mine = run(self.ours)
            return mine, run(self.other)
        theirs = run(self.other)
        return run(self.ours), theirs


def least(
    name: str, kernel: str, pairs: Sequence[Pair], figure: str, most: float | None, unit: str, digits: int
) -> Row:
    """Returns the row of a figure that may be at most `most`; None: it has no bar."""
    mine = [one[figure] for one, _ in pairs]
    theirs = [other[figure] for _, other in pairs if other]
    ratios = [own / other for own, other in zip(mine, theirs, strict=False) if other]
    return Row(
        name, f"{spread(mine, digits)} {unit}".strip(),
        f"≤ {most:g} {unit}".strip() if most is not None else "",
        Reached.of(value <= most for value in mine) if most is not None else None, kernel,
        f"{spread(theirs, digits)} {unit}".strip() if theirs else "",
        f"{spread(ratios, 2)} ×" if ratios else "", values=tuple(mine),
    )  # fmt: skip
