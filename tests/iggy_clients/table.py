"""The table of docs/iggy-compatibility.md: what each package did, step by step."""

from collections.abc import Mapping, Sequence
from typing import Final

BEGIN: Final = "<!-- walks: begin -->"
END: Final = "<!-- walks: end -->"
_OK, _FAILED, _ABSENT = "yes", "**no**", "–"

Walked = Mapping[str, Mapping[str, str]]
"""What was wrong at each step, by package; empty: nothing. A step that a package lacks is not there."""


def table(walked: Walked) -> str:
    """Returns the table, in the order of the packages and of their steps."""
    packages = list(walked)
    steps: list[str] = []
    for each in walked.values():
        for step in each:
            if step not in steps:
                steps.append(step)
    lines = [_row(["step", *packages]), _row(["---", *["---"] * len(packages)])]
    lines += [_row([step, *[_cell(walked[package], step) for package in packages]]) for step in steps]
    return "\n".join(lines)


def _cell(steps: Mapping[str, str], step: str) -> str:
    if step not in steps:
        return _ABSENT
    return _FAILED if steps[step] else _OK


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(page: str, walked: Walked) -> str:
    """Returns the page with this table in it."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(walked)}\n{END}{after}"
