"""The broker on both kernels beside a broker in C (`ceiling/tankceil.c`), with the same loads on each in
turn.

python -m benchmarks.broker [--cases REGEX] [--rounds N] [--seconds S] [--kernel pure|compiled|both]
                                [--quick] [--server NAME=COMMAND] [--markdown] [--rows] [--json FILE] [--list]

It prints two tables: all figures, and each bar with whether it is reached. Read the processor time per
request first: throughput also depends on the load generator, the scheduler and other processes. The exit code
says whether all loads ran, not how fast.
"""

import argparse
import re
import sys
from pathlib import Path

from benchmarks.harness.cases import Case, cases
from benchmarks.harness.load_generator import build
from benchmarks.harness.servers import Kernel, Server, ceiling, kernels, ours
from benchmarks.harness.side_by_side import FIGURE_HEADS, Run, figures, notes, rows, run_in_turn
from benchmarks.harness.table import Row, dump, machine, show, show_cells, summary

ROUNDS, SECONDS = 5, 1.5
QUICK_ROUNDS, QUICK_SECONDS = 2, 0.8
HEADS = {"beside": "C", "ratio": "ours to C", "recorded": "C++ TANK (C)"}


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.broker", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--cases", help="a regular expression that chooses among all loads; without it those with a bar run"
    )
    parser.add_argument("--rounds", type=int, help=f"how often each load runs on each broker ({ROUNDS})")
    parser.add_argument("--seconds", type=float, help=f"measured in each run, after a warm-up ({SECONDS})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds of {QUICK_SECONDS} s")
    parser.add_argument(
        "--kernel", choices=[*Kernel, "both"], default="both", help="our broker's kernel (both)"
    )
    parser.add_argument(
        "--server", action="append", default=[], metavar="NAME=COMMAND",
        help="one more broker, for instance of another checkout; {port} and {dir} are filled in",
    )  # fmt: skip
    parser.add_argument("--folder", help="where the brokers' folders are made (the temporary folder)")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--rows", action="store_true", help="print the rows as JSON, for `make bench`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append every single result here")
    parser.add_argument("--list", action="store_true", help="name the loads and stop")
    return parser


def chosen(pattern: str | None) -> list[Case]:
    """Raises: SystemExit: nothing is called so."""
    if pattern is None:
        return [case for case in cases() if case.bars]
    found = [case for case in cases() if re.search(pattern, case.name)]
    if not found:
        raise SystemExit(f"No load is called {pattern!r}: --list names them.")
    return found


def others(given: list[str]) -> list[Server]:
    """Raises: SystemExit: not NAME=COMMAND."""
    servers = []
    for text in given:
        name, equals, command = text.partition("=")
        if not equals or "{port}" not in command or "{dir}" not in command:
            raise SystemExit(f"--server wants NAME=COMMAND with {{port}} and {{dir}}, not {text!r}.")
        servers.append(Server(name, command))
    return servers


def times(given: argparse.Namespace) -> tuple[int, float]:
    """How often each load runs on each broker, and for how many seconds."""
    return (
        given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS),
        given.seconds or (QUICK_SECONDS if given.quick else SECONDS),
    )


def how(given: argparse.Namespace) -> str:
    """How it is measured, for the titles."""
    rounds, seconds = times(given)
    return f"medians of {rounds} interleaved rounds of {seconds:g} s"


def measure(given: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Runs all, and prints everything measured unless just rows are wanted; returns rows and failures."""
    found = chosen(given.cases)
    build()
    servers = [ceiling(), *(ours(kernel) for kernel in kernels(given.kernel)), *others(given.server)]
    rounds, seconds = times(given)
    run = Run(rounds, seconds, folder=given.folder, singles=given.json)
    results = run_in_turn(found, servers, run)
    if not given.rows:
        title = f"The broker, all that was measured: {how(given)}. {machine()}."
        right = [False, False, *(True for _ in FIGURE_HEADS[2:])]
        lines = figures(found, servers, results)
        show_cells(title, FIGURE_HEADS, lines, right=right, markdown=given.markdown)
        for note in notes(results):
            print(f"\n{note}" if given.markdown else note)
    return rows(found, servers, results), results.failures


def main() -> None:
    """Measures and prints."""
    given = options().parse_args()
    if given.list:
        print("\n".join(case.name for case in chosen(given.cases)))
        return
    judged, failures = measure(given)
    if given.rows:
        dump(judged, how(given))
    elif judged:
        show(
            f"The broker beside C: {how(given)}. {summary(judged)}",
            judged,
            markdown=given.markdown,
            heads=HEADS,
        )
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
