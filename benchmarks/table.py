"""The table that all benchmarks print: what was measured, beside what, the bar, and whether it is reached.

A figure below its bar is no error: it is printed, and the exit code stays 0.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. All of it is text for people but `reached`; "" leaves a cell empty."""

    name: str
    """What was measured: "publish 100 B, send_many"."""
    figure: str
    """The median with its unit, and the least and the most of the runs: "3.4 (3.3–3.6) M/s"."""
    bar: str = ""
    """What it shall reach: "≥ 3 M/s"."""
    reached: bool | None = None
    """None when there is no bar."""
    kernel: str = ""
    """"compiled" or "pure"; "" where that makes no difference."""
    beside: str = ""
    """The same of what ran in turn with it."""
    ratio: str = ""
    """One to the other, of the same rounds: "1.48 × (1.41–1.52)"."""
    recorded: str = ""
    """What another system did, measured at another time."""


HEADS = {
    "name": "what", "kernel": "kernel", "figure": "ours", "beside": "beside", "ratio": "ratio", "bar": "bar",
    "reached": "reached", "recorded": "recorded",
}  # fmt: skip
RIGHT = {"figure", "beside", "ratio", "bar", "recorded"}


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and the least and the most in brackets when there are several."""
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) < 2:
        return middle
    return f"{middle} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def machine() -> str:
    """What a figure counts for: "Linux 6.1, 2 × AMD EPYC, CPython 3.11.7, 2026-11-21"."""
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
    return f"Linux {platform.release()}, {os.cpu_count()} × {model}, {python}, {today}"


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
    styles = {"NO": "red", "yes": "green"}
    for line in lines:
        table.add_row(*(Text(cell, styles.get(cell, "")) for cell in line))
    width = None if sys.stdout.isatty() else 170
    Console(width=width).print(table)


def _cells(row: Row) -> dict[str, str]:
    reached = {None: "", True: "yes", False: "NO"}[row.reached]
    return {**asdict(row), "reached": reached}


def dump(rows: Iterable[Row]) -> None:
    """Prints rows for `load` to read in another process."""
    print(json.dumps([asdict(row) for row in rows]))


def load(text: str) -> list[Row]:
    """What `dump` printed."""
    return [Row(**fields) for fields in json.loads(text)]


def summary(rows: Iterable[Row]) -> str:
    """How many bars are reached."""
    judged = [row.reached for row in rows if row.reached is not None]
    return f"{sum(judged)} of {len(judged)} bars reached."
