"""The table that all benchmarks print: each figure, the reference beside it, the bar, and whether it is
reached.

A figure that doesn't reach its bar is no error: the exit code stays 0.
"""

import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text


class Reached(StrEnum):
    """Whether a bar is reached, as the tables print it."""

    YES = "yes"
    """In every run."""
    MOST = "most"
    """In more than half of the runs: with an odd number of them the median reaches it."""
    SOME = "some"
    """In half of the runs or fewer."""
    NO = "NO"
    """In none."""

    @classmethod
    def of(cls, runs: Iterable[bool]) -> "Reached":
        """The value for these runs, each of which reaches the bar or not; NO without any run."""
        said = list(runs)
        if not any(said):
            return cls.NO
        if all(said):
            return cls.YES
        return cls.MOST if 2 * said.count(True) > len(said) else cls.SOME

    @classmethod
    def all(cls, bars: Iterable["Reached"]) -> "Reached":
        """The value for several bars of one figure: the worst of them."""
        return max(bars, key=list(cls).index)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. All fields but `reached` and `values` are text for people; "" leaves a cell empty."""

    name: str
    """The name of the measurement: "publish 100 B, send_many"."""
    figure: str
    """The median with its unit, and the least and the greatest of the runs: "3.4 (3.3–3.6) M/s"."""
    bar: str = ""
    """The bar: "≥ 3 M/s"."""
    reached: Reached | None = None
    """None without a bar."""
    kernel: str = ""
    """"compiled" or "pure"; "": it makes no difference."""
    beside: str = ""
    """The figure of the reference that ran in turn."""
    ratio: str = ""
    """The ratio of the two, in the same rounds: "1.48 × (1.41–1.52)"."""
    recorded: str = ""
    """Another system's figure, measured at another time."""
    values: tuple[float, ...] = ()
    """The figure of every run, for programs that read the JSON; the tables don't show it."""


HEADS = {
    "name": "what", "kernel": "kernel", "figure": "ours", "beside": "beside", "ratio": "ratio", "bar": "bar",
    "reached": "reached", "recorded": "recorded",
}  # fmt: skip
RIGHT = {"figure", "beside", "ratio", "bar", "recorded"}


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and in brackets the least and the greatest, if there are several values."""
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) < 2:
        return middle
    return f"{middle} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def machine() -> str:
    """The machine and the code: "Linux 6.1, 2 × AMD EPYC, CPython 3.11.7, 2026-11-21, commit 1a2b3c4"."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    python = f"{platform.python_implementation()} {platform.python_version()}"
    today = subprocess.run(["date", "+%F"], capture_output=True, text=True, check=True).stdout.strip()
    return f"Linux {platform.release()}, {os.cpu_count()} × {model}, {python}, {today}{commit()}"


def commit() -> str:
    """The measured commit, ", commit 1a2b3c4-dirty"; empty if this is no checkout."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f", commit {asked.stdout.strip()}" if asked.returncode == 0 else ""


def show(
    title: str, rows: Iterable[Row], *, markdown: bool = False, heads: dict[str, str] | None = None
) -> None:
    """Prints the rows to stdout: a drawn table, or Markdown. Columns that are empty everywhere are left out.

    Args:
        heads: other heads of columns, by the field of Row.
    """
    lines = [_cells(row) for row in rows]
    names = {**HEADS, **(heads or {})}
    columns = [field for field in HEADS if any(line[field] for line in lines)]
    show_cells(
        title,
        [names[field] for field in columns],
        [[line[field] for field in columns] for line in lines],
        right=[field in RIGHT for field in columns],
        markdown=markdown,
    )


def show_cells(
    title: str,
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    right: Sequence[bool],
    markdown: bool,
) -> None:
    """Prints a table of any columns."""
    if markdown:
        marks = ["---:" if to_right else "---" for to_right in right]
        print(f"\n{title}\n")
        for line in (heads, marks, *lines):
            print("| " + " | ".join(line) + " |")
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    for head, to_right in zip(heads, right, strict=True):
        table.add_column(head, justify="right" if to_right else "left", overflow="fold")
    styles: dict[str, str] = {
        Reached.NO: "red", Reached.SOME: "yellow", Reached.MOST: "green", Reached.YES: "green",
    }  # fmt: skip
    for line in lines:
        table.add_row(*(Text(cell, styles.get(cell, "")) for cell in line))
    width = None if sys.stdout.isatty() else 170
    Console(width=width).print(table)


def show_in_short(title: str, rows: Sequence[Row], heads: dict[str, str] | None = None) -> None:
    """Prints the rows with a bar as Markdown: only medians, the kernels beside each other."""
    barred = [row for row in rows if row.reached is not None]
    kernels = list(dict.fromkeys(row.kernel for row in barred))
    lines = []
    for name in dict.fromkeys(row.name for row in barred):
        found = {row.kernel: row for row in barred if row.name == name}
        one = next(iter(found.values()))
        cells = [_in_short(found[kernel]) if kernel in found else "" for kernel in kernels]
        lines.append([name, _median(one.beside), *cells, one.recorded])
    names = {**HEADS, **(heads or {})}
    columns = [names["name"], names["beside"], *(f"ours, {kernel}" for kernel in kernels), names["recorded"]]
    used = [at for at in range(len(columns)) if any(line[at] for line in lines)]
    show_cells(
        title,
        [columns[at] for at in used],
        [[line[at] for at in used] for line in lines],
        right=[at > 0 for at in used],
        markdown=True,
    )


def _in_short(row: Row) -> str:
    """ "14.60 µs, 1.76 ×, NO"."""
    return ", ".join(filter(None, (_median(row.figure), _median(row.ratio), row.reached)))


def _median(text: str) -> str:
    """The text of `spread` without the least and the greatest."""
    return re.sub(r" \([\d,.–-]+\)", "", text)


def _cells(row: Row) -> dict[str, str]:
    return {field: getattr(row, field) or "" for field in HEADS}


def dump(rows: Iterable[Row], how: str = "") -> None:
    """Prints rows, and how they were measured, for `load` to read in another process."""
    print(json.dumps({"how": how, "rows": [asdict(row) for row in rows]}))


def load(text: str) -> tuple[str, list[Row]]:
    """Reads the output of `dump`: the description of the measurement, and the rows.

    Raises:
        ValueError, TypeError, KeyError: something else printed it.
    """
    said = json.loads(text)
    rows = [Row(**fields) for fields in said["rows"]]
    return said["how"], [
        replace(row, values=tuple(row.values), reached=Reached(row.reached) if row.reached else None)
        for row in rows
    ]


def summary(rows: Iterable[Row]) -> str:
    """How many bars are reached in every run, in most, in some, in none."""
    judged = [row.reached for row in rows if row.reached is not None]
    every, most, some, none = (judged.count(kind) for kind in Reached)
    counts = f"{every} are reached in every round, {most} in most, {some} in some, {none} in none"
    return f"Of {len(judged)} bars {counts}."
