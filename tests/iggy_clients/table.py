"""The tables of docs/iggy-compatibility.md: what each client did, step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

BEGIN: Final = "<!-- walks: begin -->"
END: Final = "<!-- walks: end -->"
_OK, _FAILED, _ABSENT = "yes", "**no**", "–"


@dataclass(frozen=True, slots=True)
class Walked:
    """What one client did."""

    name: str
    kind: str
    """The heading of its table."""
    steps: Mapping[str, str]
    """What was wrong at each step; empty: nothing. A step that the client lacks is not there."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Steps that fail whatever a server answers, with the reason."""

    def failures(self) -> dict[str, str]:
        """What was wrong at the steps that have to go well, and which of the others went well."""
        failed = {step: wrong for step, wrong in self.steps.items() if wrong and step not in self.cannot}
        well = [step for step in self.cannot if self.steps.get(step) == ""]
        return failed | dict.fromkeys(well, "it goes well, and is listed as a step that can't")


def tables(walked: Sequence[Walked], left_out: Mapping[str, str], brokers: int) -> str:
    """Returns what a run has shown: a table for each kind of clients. `left_out`: the reasons, by client."""
    steps = sum(len(each.steps) for each in walked)
    failed = sum(len(each.failures()) for each in walked)
    of = "one broker" if brokers == 1 else f"a cluster of {brokers} brokers"
    lines = [f"{len(walked)} clients against {of}: {steps} steps, {failed} failed.", ""]
    for kind in dict.fromkeys(each.kind for each in walked):
        lines += [f"### {kind}", "", *_table([each for each in walked if each.kind == kind]), ""]
    if left_out:
        lines += ["Not run:", "", *(f"- {name}: {reason}." for name, reason in left_out.items()), ""]
    return "\n".join(lines[:-1])


def _table(walked: Sequence[Walked]) -> list[str]:
    reasons = list(dict.fromkeys(reason for each in walked for reason in each.cannot.values()))
    steps = list(dict.fromkeys(step for each in walked for step in each.steps))
    lines = [_row(["step", *(each.name for each in walked)]), _row(["---", *["---"] * len(walked)])]
    lines += [_row([step, *(_cell(each, step, reasons) for each in walked)]) for step in steps]
    if reasons:
        lines += ["", *(f"{at}. {reason}." for at, reason in enumerate(reasons, 1))]
    return lines


def _cell(walked: Walked, step: str, reasons: Sequence[str]) -> str:
    if step not in walked.steps:
        return _ABSENT
    if not walked.steps[step]:
        return _OK
    reason = walked.cannot.get(step)
    return _FAILED if reason is None else f"no ({reasons.index(reason) + 1})"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def with_tables(page: str, shown: str) -> str:
    """Returns the page with these tables in it."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{shown}\n{END}{after}"
