"""Runs brokers in turn under the same loads (A B C, B C A, C A B, …), and compares their figures.

A shared machine's speed changes from minute to minute, so only figures of one interleaved run can be
compared, and ratios are computed for each round. The server's processor time per request is the steadiest
figure.
"""

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.harness.cases import Against, Bar, Case
from benchmarks.harness.load_generator import Load, LoadFailed, run_load
from benchmarks.harness.servers import NotListening, Server, running
from benchmarks.harness.table import Reached, Row, spread

WARM_UP_S = 0.4
MOST_WRITTEN_MIB = 8192
# In processors: above this, a figure gets a warning.
GENERATOR_BUSY = 0.95
OTHER_CPU = 0.3
STOLEN_CPU = 0.1


@dataclass(slots=True)
class Results:
    """Loads by case, server and round. Failed runs are missing here, and described in `failures`."""

    loads: dict[tuple[str, str], dict[int, Load]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def of(self, case: str, server: str) -> dict[int, Load]:
        return self.loads.get((case, server), {})

    def pairs(self, case: str, server: str, other: str) -> Iterator[tuple[Load, Load]]:
        """The loads of both servers, for each round in which both ran."""
        ours, theirs = self.of(case, server), self.of(case, other)
        for number in ours.keys() & theirs.keys():
            yield ours[number], theirs[number]


@dataclass(frozen=True, slots=True)
class Run:
    """The duration and number of runs."""

    rounds: int
    seconds: float
    folder: str | None = None
    singles: Path | None = None
    """Every single result is appended here, a JSON line each."""


def run_in_turn(cases: Sequence[Case], servers: Sequence[Server], run: Run) -> Results:
    """Runs all cases `rounds` times, each on all servers in turn; shows a progress bar on a terminal."""
    results = Results()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=run.rounds * len(cases) * len(servers))
        for number in range(run.rounds):
            for case in cases:
                # Rotated, because the first server after a pause finds colder caches.
                first = number % len(servers)
                for server in (*servers[first:], *servers[:first]):
                    progress.update(task, description=f"{case.name}: {server.name}")
                    _run_one(case, server, number, run, results)
                    progress.advance(task)
    return results


def _run_one(case: Case, server: Server, number: int, run: Run, results: Results) -> None:
    more = case.ceiling if server.name == "C" else ()
    try:
        with running(server, *more, folder=run.folder) as broker:
            if case.fill:
                run_load(case.fill, broker.port, broker.pid, "--config", "flush=replicated\n")
            times = f"-w {WARM_UP_S} -T {run.seconds} -L {MOST_WRITTEN_MIB}"
            settings = ("--config", case.settings) if case.settings else ()
            load = run_load(f"{case.load} {times}", broker.port, broker.pid, *settings)
    except (LoadFailed, NotListening) as error:
        results.failures.append(f"{case.name}, {server.name}, round {number + 1}:\n{error}")
        return
    results.loads.setdefault((case.name, server.name), {})[number] = load
    if run.singles:
        with run.singles.open("a") as file:
            single = {"case": case.name, "server": server.name, "round": number, **asdict(load)}
            file.write(json.dumps(single) + "\n")


def judge(case: Case, server: Server, bar: Bar, results: Results) -> Row:
    """Compares the rounds, or their ratios to C or differences from C, with the bar."""
    assert server.kernel is not None, "only our own brokers have bars"
    name = f"{case.name}: {bar.measure.title}"
    measure = bar.measure
    pairs = [(measure.of(a), measure.of(b)) for a, b in results.pairs(case.name, server.name, "C")]
    if not pairs:
        return Row(name, "failed", str(bar), Reached.NO, server.kernel, recorded=case.recorded)
    ours, c = [a for a, _ in pairs], [b for _, b in pairs]
    match bar.against:
        case Against.TIMES:
            compared, ratio = [a / b for a, b in pairs], "{} ×"
        case Against.PLUS:
            compared, ratio = [a - b for a, b in pairs], "+ {}" + f" {measure.unit}"
        case Against.ALONE:
            compared, ratio = ours, ""
    digits = 2 if bar.against is Against.TIMES else measure.digits
    return Row(
        name,
        f"{spread(ours, measure.digits)} {measure.unit}",
        str(bar),
        Reached.of(one >= bar.limit if bar.at_least else one <= bar.limit for one in compared),
        server.kernel,
        beside=f"{spread(c, measure.digits)} {measure.unit}",
        ratio=ratio.format(spread(compared, digits)) if ratio else "",
        recorded=case.recorded if bar in case.bars.get(server.kernel, ())[:1] else "",
    )


def rows(cases: Sequence[Case], servers: Sequence[Server], results: Results) -> list[Row]:
    """A row for each bar of each kernel that ran."""
    return [
        judge(case, server, bar, results)
        for case in cases
        for server in servers
        if server.kernel
        for bar in case.bars.get(server.kernel, ())
    ]


FIGURE_HEADS = (
    "load", "server", "CPU µs a request", "× C", "messages/s", "MB/s", "server CPU", "generator CPU",
    "p50 µs", "p99 µs",
)  # fmt: skip


def figures(cases: Sequence[Case], servers: Sequence[Server], results: Results) -> list[list[str]]:
    """The medians of all figures: a line for each load and server, with the columns of FIGURE_HEADS."""
    lines = []
    for case in cases:
        for server in servers:
            loads = list(results.of(case.name, server.name).values())
            if not loads:
                continue
            ratios = [a.server_us / b.server_us for a, b in results.pairs(case.name, server.name, "C")]
            lines.append(
                [
                    case.name,
                    server.name,
                    spread([load.server_us for load in loads], 2),
                    f"{statistics.median(ratios):.2f}" if ratios else "",
                    *(
                        f"{statistics.median([getattr(load, name) for load in loads]):,.{digits}f}"
                        for name, digits in PLAIN_FIGURES
                    ),
                ]
            )
    return lines


def notes(results: Results) -> list[str]:
    """Warnings about figures that a busy generator or machine has changed."""
    found = []
    for (case, server), loads in results.loads.items():
        if statistics.median([load.client_cpu for load in loads.values()]) > GENERATOR_BUSY:
            found.append(f"{case}, {server}: the generator is at its limit; the throughput is its own.")
    every = [load for loads in results.loads.values() for load in loads.values()]
    for who, taken, most in (
        ("Other processes", [load.other_cpu for load in every], OTHER_CPU),
        ("The hypervisor", [load.stolen_cpu for load in every], STOLEN_CPU),
    ):
        if often := sum(share > most for share in taken):
            found.append(
                f"{who} took up to {max(taken):.2f} processors, over {most} in {often} of {len(taken)} runs."
            )
    return found


PLAIN_FIGURES = (
    ("messages_s", 0), ("mb_s", 0), ("server_cpu", 2), ("client_cpu", 2), ("p50_us", 0), ("p99_us", 0),
)  # fmt: skip
