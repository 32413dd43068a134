"""The command line of the scripts that run loads in rounds, and what they print in the end."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness.servers import Kernel
from benchmarks.harness.table import Row, dump, machine, show, summary


@dataclass(frozen=True, slots=True)
class Often:
    """How often each load runs, and for how many seconds; and both where `--quick` asks for a look."""

    rounds: int
    seconds: float
    quick_rounds: int
    quick_seconds: float


def options(
    script: str, about: str | None, often: Often, of_seconds: str, target: str
) -> argparse.ArgumentParser:
    """Returns the parser, to which a script may add options of its own.

    `about`: the script's docstring. `of_seconds`: what its seconds are. `target`: the target of the Makefile
    that reads its rows.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{script}", description=(about or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, help=f"how often each load runs ({often.rounds})")
    kind = type(often.seconds)
    parser.add_argument("--seconds", type=kind, help=f"{of_seconds} ({often.seconds:g})")
    parser.add_argument("--kernel", choices=[*Kernel, "both"], default="compiled")
    quick = f"{often.quick_rounds} round{'s' if often.quick_rounds > 1 else ''} of {often.quick_seconds:g} s"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--rows", action="store_true", help=f"print the rows as JSON, for `make {target}`")
    return parser


def how_often(given: argparse.Namespace, often: Often) -> tuple[int, float]:
    """Rounds, and seconds of each run."""
    rounds: int = given.rounds or (often.quick_rounds if given.quick else often.rounds)
    seconds: float = given.seconds or (often.quick_seconds if given.quick else often.seconds)
    return rounds, seconds


def tell(given: argparse.Namespace, name: str, how: str, rows: Sequence[Row]) -> None:
    """Prints the rows, as they were asked for. `how`: the description of the measurement."""
    if given.rows:
        dump(rows, how)
    else:
        show(f"{name}: {how}. {machine()}. {summary(rows)}", rows, markdown=given.markdown)
