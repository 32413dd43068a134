"""The picture at the end of `make run`: a year of departures, drawn from the pipeline's results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
ACCENTS = {"EWR": "#f2a65a", "JFK": "#7cc6fe", "LGA": "#c792ea"}

PAPER = "#0f1420"
INK = "#e8ecf4"
FAINT = "#8b95a9"
GRID = "#232b3d"
NO_FLIGHTS = "#171e2d"

FIRST_HOUR = 5  # almost nothing leaves earlier
HOURS = 24 - FIRST_HOUR
DAYS = 365
LAST_HOUR_SHOWN = 21  # of the curves: later on hardly any but late flights leave
LATEST_SHOWN_MIN = 60  # delays above look the same
WORST_ROUTES = 12
FEWEST_FLIGHTS = 200  # of a route that is ranked: about one every other day

RAIN = [
    ("dry", 0, 0.001),
    ("a trace", 0.001, 0.02),
    ("light rain", 0.02, 0.1),
    ("rain", 0.1, 0.3),
    ("downpour", 0.3, 99),
]


def draw(hours: pd.DataFrame, routes: pd.DataFrame, path: Path) -> None:
    """Writes the picture as PNG.

    `hours` has origin, hour (UTC), departures, mean_delay, rain_inches; `routes` has origin, dest,
    departures, total_delay, one row a day.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    hours = _in_local_time(hours)
    style: Any = {
        "font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.labelcolor": FAINT,
        "xtick.color": FAINT, "ytick.color": FAINT, "axes.edgecolor": GRID, "figure.facecolor": PAPER,
        "axes.facecolor": PAPER, "savefig.facecolor": PAPER,
    }  # fmt: skip
    with plt.rc_context(style):
        figure = plt.figure(figsize=(16, 11.6), dpi=110)
        outer = figure.add_gridspec(
            2, 1, height_ratios=[1.55, 1], left=0.052, right=0.965, top=0.875, bottom=0.05, hspace=0.27
        )
        _headline(figure, hours)
        _year(figure, outer[0].subgridspec(3, 1, hspace=0.09), hours)
        lower = outer[1].subgridspec(1, 4, width_ratios=[0.07, 1.08, 1, 1], wspace=0.2)
        _worst_routes(figure.add_subplot(lower[1]), routes)
        _through_the_day(figure.add_subplot(lower[2]), hours)
        _rain(figure.add_subplot(lower[3]), hours)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        plt.close(figure)


def worst_routes(routes: pd.DataFrame, count: int = WORST_ROUTES) -> pd.DataFrame:
    """The often flown routes with the greatest mean delay: origin, dest, departures, mean_delay."""
    table = routes.groupby(["origin", "dest"], as_index=False)[["departures", "total_delay"]].sum()
    table = table[table["departures"] >= FEWEST_FLIGHTS]
    table["mean_delay"] = table["total_delay"] / table["departures"]
    return table.nlargest(count, "mean_delay")[["origin", "dest", "departures", "mean_delay"]]


def _in_local_time(hours: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    local = pd.to_datetime(hours["hour"], utc=True).dt.tz_convert("America/New_York")
    return hours.assign(day=local.dt.dayofyear.where(local.dt.year == 2013), of_day=local.dt.hour)


def _headline(figure: Any, hours: pd.DataFrame) -> None:
    departures = int(hours["departures"].sum())
    mean = (hours["mean_delay"] * hours["departures"]).sum() / departures
    figure.text(0.052, 0.945, "How late New York left in 2013", fontsize=25, weight="bold", va="center")
    figure.text(
        0.052, 0.912,
        f"{departures:,} departures, {mean:.1f} minutes late on average. "
        "Each cell: one airport, one hour, New York time; Spark closed it as the flights came in.",
        fontsize=11.5, color=FAINT, va="center",
    )  # fmt: skip


def _year(figure: Any, grid: Any, hours: pd.DataFrame) -> None:
    """Three bands, one an airport: days to the right, hours down, the colour is the mean delay."""
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list(
        "late", ["#1d3557", "#2a6f97", "#89c2a0", "#f6d55c", "#ed8b4b", "#d7263d"]
    ).with_extremes(bad=NO_FLIGHTS)
    firsts = [1, 32, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335]
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    image = None
    for row, (code, name) in enumerate(AIRPORTS.items()):
        axes = figure.add_subplot(grid[row])
        cells = np.full((HOURS, DAYS), np.nan)
        of_airport = hours[(hours["origin"] == code) & (hours["of_day"] >= FIRST_HOUR) & hours["day"].notna()]
        of_airport = of_airport[of_airport["departures"] > 0]
        cells[of_airport["of_day"] - FIRST_HOUR, of_airport["day"].astype(int) - 1] = of_airport["mean_delay"]
        image = axes.imshow(
            cells, aspect="auto", cmap=colors, vmin=-5, vmax=LATEST_SHOWN_MIN, interpolation="nearest"
        )
        axes.set_yticks(
            [7 - FIRST_HOUR, 12 - FIRST_HOUR, 17 - FIRST_HOUR, 22 - FIRST_HOUR], ["7h", "12h", "17h", "22h"]
        )
        axes.set_xticks([first - 1 for first in firsts], names if row == len(AIRPORTS) - 1 else [])
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("left")
        axes.tick_params(length=0)
        axes.set_ylabel(name, color=ACCENTS[code], fontsize=12, weight="bold", labelpad=8)
        for side in axes.spines.values():
            side.set_visible(False)
        for first in firsts[1:]:
            axes.axvline(first - 1.5, color=PAPER, linewidth=1.2)
    scale = figure.add_axes((0.72, 0.938, 0.215, 0.014))
    bar = figure.colorbar(image, cax=scale, orientation="horizontal")
    bar.set_ticks([0, 15, 30, 45, 60], labels=["on time", "15", "30", "45", "60 min or more"])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=9)


def _worst_routes(axes: Any, routes: pd.DataFrame) -> None:
    table = worst_routes(routes).iloc[::-1]
    rows = range(len(table))
    colors = [ACCENTS[origin] for origin in table["origin"]]
    axes.hlines(rows, 0, table["mean_delay"], color=colors, linewidth=2.2, alpha=0.55)
    axes.scatter(table["mean_delay"], rows, color=colors, s=58, zorder=3)
    for row, (delay, flown) in enumerate(zip(table["mean_delay"], table["departures"], strict=True)):
        axes.text(delay + 0.9, row, f"{delay:.0f}", va="center", fontsize=9.5, weight="bold")
        axes.text(delay + 4.2, row, f"{int(flown):,} flights", va="center", fontsize=8, color=FAINT)
    axes.set_yticks(
        list(rows),
        [f"{origin} → {dest}" for origin, dest in zip(table["origin"], table["dest"], strict=True)],
    )
    axes.tick_params(axis="y", length=0, labelsize=10, labelcolor=INK)
    axes.set_xlim(0, table["mean_delay"].max() * 1.36)
    axes.set_xticks([])
    _title(axes, "The worst routes", "mean delay in minutes")
    for side in axes.spines.values():
        side.set_visible(False)


def _through_the_day(axes: Any, hours: pd.DataFrame) -> None:
    ends = []
    for code, name in AIRPORTS.items():
        of_airport = hours[(hours["origin"] == code) & hours["of_day"].between(FIRST_HOUR, LAST_HOUR_SHOWN)]
        late = (of_airport["mean_delay"] * of_airport["departures"]).groupby(of_airport["of_day"]).sum()
        curve = late / of_airport.groupby("of_day")["departures"].sum()
        axes.plot(curve.index, curve, color=ACCENTS[code], linewidth=2.6, solid_capstyle="round")
        ends.append((float(curve.iloc[-1]), name, ACCENTS[code]))
    place = -99.0
    top = max(end for end, _, _ in ends)
    for end, name, color in sorted(ends):
        place = max(end, place + top * 0.075)
        axes.text(LAST_HOUR_SHOWN + 0.35, place, name, color=color, va="center", fontsize=10, weight="bold")
    axes.set_xlim(FIRST_HOUR, 24.4)
    axes.set_xticks([6, 9, 12, 15, 18], ["6h", "9h", "12h", "15h", "18h"])
    axes.axhline(0, color=GRID, linewidth=1)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    _title(axes, "Delay grows through the day", "mean delay in minutes, by hour of departure (New York)")
    _bare(axes)


def _rain(axes: Any, hours: pd.DataFrame) -> None:
    measured = hours[hours["rain_inches"].notna() & (hours["departures"] > 0)]
    # A mean of equal numbers can end a bit below them: it would fall into the drier class.
    measured = measured.assign(rain_inches=measured["rain_inches"].round(4))
    names, delays, counts = [], [], []
    for name, least, most in RAIN:
        there = measured[(measured["rain_inches"] >= least) & (measured["rain_inches"] < most)]
        flown = int(there["departures"].sum())
        if flown:
            names.append(name)
            delays.append(float((there["mean_delay"] * there["departures"]).sum() / flown))
            counts.append(flown)
    blues = ["#3a4d6b", "#3f6c96", "#4388b8", "#4fa5d6", "#7cc6fe"]
    axes.bar(range(len(names)), delays, width=0.66, color=blues[: len(names)])
    for column, (delay, flown) in enumerate(zip(delays, counts, strict=True)):
        axes.text(
            column, delay + max(delays) * 0.075, f"{delay:.0f} min", ha="center", weight="bold", fontsize=11
        )
        axes.text(column, delay + max(delays) * 0.022, f"{flown:,}", ha="center", color=FAINT, fontsize=8.5)
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(axis="x", labelcolor=INK)
    axes.set_ylim(0, max(delays) * 1.17)
    axes.set_yticks([])
    _title(axes, "And with the rain", "mean delay, and departures, by rain in the hour")
    _bare(axes)


def _title(axes: Any, title: str, under: str) -> None:
    axes.text(0, 1.125, title, transform=axes.transAxes, fontsize=14, weight="bold", va="center")
    axes.text(0, 1.05, under, transform=axes.transAxes, fontsize=9.5, color=FAINT, va="center")


def _bare(axes: Any) -> None:
    axes.tick_params(length=0)
    for name, side in axes.spines.items():
        side.set_visible(name == "bottom")
