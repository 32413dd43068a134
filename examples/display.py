"""What `make run` shows: bars for a person, plain lines for a pipe, and the tables at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

PLAIN_LINE_S = 5.0  # between two lines in a pipe


@dataclass(slots=True)
class State:
    """How far everything is. Dates are milliseconds of event time, 0 where there is none yet."""

    sent: int = 0
    sent_date_ms: int = 0
    read: dict[str, int] | None = None
    watermark_ms: int = 0
    rows_closed: int = 0


class Display:
    """Shows the state; used between `with` and its end."""

    def __init__(self, console: Console, total: int, queries: list[str]) -> None:
        self._console = console
        self._total = total
        self._last_line = 0.0
        self._bars = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
        )
        self._sent: TaskID = self._bars.add_task("sent", total=total, note="")
        self._read = {name: self._bars.add_task(name, total=total, note="starting") for name in queries}

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def show(self, state: State) -> None:
        """Called a few times a second."""
        read = state.read or {}
        if not self._console.is_terminal:
            if time.monotonic() - self._last_line >= PLAIN_LINE_S:
                self._last_line = time.monotonic()
                queries = "  ".join(
                    f"{name}: {min(read[name], self._total):,} read" if name in read else f"{name}: starting"
                    for name in self._read
                )
                self._console.print(
                    f"{day_text(state.sent_date_ms)}  {state.sent:,} of {self._total:,} flights sent  "
                    f"{queries}  {state.rows_closed:,} hours written"
                )
            return
        self._bars.update(self._sent, completed=state.sent, note=day_text(state.sent_date_ms))
        for name, task in self._read.items():
            note = "" if name in read else "starting"
            if name == "hourly" and state.watermark_ms > 0:
                note = f"closed to {day_text(state.watermark_ms)}"
            self._bars.update(task, completed=min(read.get(name, 0), self._total), note=note)


def tables(console: Console, hours: pd.DataFrame, worst: pd.DataFrame) -> None:
    """The year in two tables."""
    airports = Table(
        title="2013, by airport (hours in New York time)", title_justify="left", title_style="bold"
    )
    for column in ("airport", "flights", "departures", "mean delay", "worst hour", "mean delay then"):
        airports.add_column(column, justify="left" if column == "airport" else "right")
    for origin, rows in hours.groupby("origin"):
        delay = (rows["mean_delay"] * rows["departures"]).sum() / rows["departures"].sum()
        busy = rows[rows["departures"] >= 10]
        worst_hour = busy.nlargest(1, "mean_delay").iloc[0]
        began = to_new_york(worst_hour["hour"])
        airports.add_row(
            str(origin),
            f"{int(rows['flights'].sum()):,}", f"{int(rows['departures'].sum()):,}", f"{delay:.1f} min",
            f"{began:%d %b, %H h}", f"{worst_hour['mean_delay']:.0f} min",
        )  # fmt: skip
    console.print(airports)
    routes = Table(title="The worst routes", title_justify="left", title_style="bold")
    for column in ("route", "departures", "mean delay"):
        routes.add_column(column, justify="left" if column == "route" else "right")
    for origin, dest, departures, delay in worst.itertuples(index=False):
        routes.add_row(f"{origin} → {dest}", f"{int(departures):,}", f"{delay:.1f} min")
    console.print(routes)


def to_new_york(hour: pd.Timestamp) -> pd.Timestamp:
    """An hour in UTC, with or without its zone, by the clocks of New York."""
    return (hour if hour.tzinfo else hour.tz_localize("UTC")).tz_convert("America/New_York")


def day_text(time_ms: int) -> str:
    """4 Jul 2013; dots where there is none yet."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%d %b %Y}" if time_ms else "…"
