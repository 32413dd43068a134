"""All that has a bar, `make bench`: the broker beside C, the client, Spark, memory; compiled kernel and not.

    python -m benchmarks [--quick] [--parts broker,client,spark,memory] [--rounds N] [--markdown]
                         [--json FILE]

Nothing passes or fails by its figures: the exit code says whether everything ran.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import broker
from benchmarks.servers import Kernel, environment, kernels
from benchmarks.table import Row, load, machine, show, summary

PARTS = ("broker", "client", "spark", "memory")
TITLES = {"client": "The Python client", "spark": "Spark", "memory": "Memory"}


class PartFailed(Exception):
    """A part ended with an error, which it has told on stderr."""


def rows_of(part: str, arguments: Sequence[str], kernel: Kernel | None = None) -> list[Row]:
    """Runs one script of this folder; the rows that it prints.

    Raises:
        PartFailed: it ended with an error, or printed something else.
    """
    command = [sys.executable, "-m", f"benchmarks.{part}", "--rows", *arguments]
    ended = subprocess.run(command, env=environment(kernel), stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise PartFailed(f"{' '.join(command[1:])} ended with {ended.returncode}")
    try:
        return load(ended.stdout)
    except (ValueError, TypeError) as error:
        raise PartFailed(f"{' '.join(command[1:])} printed no rows: {error}") from None


def measure(part: str, given: argparse.Namespace) -> list[Row]:
    """Measures and prints one part.

    Raises:
        PartFailed: as rows_of.
    """
    quick = ["--quick"] if given.quick else []
    if part == "broker":
        arguments = [*quick, *(["--markdown"] if given.markdown else [])]
        if given.rounds:
            arguments += ["--rounds", str(given.rounds)]
        if given.json:
            arguments += ["--json", str(given.json)]
        rows, failures = broker.measure(broker.options().parse_args(arguments))
        show(f"The broker beside C. {summary(rows)}", rows, markdown=given.markdown, heads=broker.HEADS)
        if failures:
            raise PartFailed("\n".join(failures))
        return rows
    # The client lives in the process that measures it: each kernel has one of its own.
    own = kernels() if part == "client" else [None]
    rows = [row for kernel in own for row in rows_of(part, quick, kernel)]
    show(f"{TITLES[part]}. {summary(rows)}", rows, markdown=given.markdown)
    if given.json:
        with given.json.open("a") as file:
            file.writelines(json.dumps({"part": part, **asdict(row)}) + "\n" for row in rows)
    return rows


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="few and short runs: for a look, not for a claim"
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them, with commas between")
    parser.add_argument("--rounds", type=int, help="how often each load runs on each broker")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append every single result here")
    given = parser.parse_args()
    parts = given.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]!r}; there are {', '.join(PARTS)}")
    began = time.monotonic()
    rows, failures = [], []
    for part in parts:
        print(f"Measuring: {part} ...", file=sys.stderr)
        try:
            rows += measure(part, given)
        except PartFailed as failure:
            failures.append(f"FAILED {part}: {failure}")
    minutes = (time.monotonic() - began) / 60
    print(f"\n{machine()}: {summary(rows)} It took {minutes:.0f} minutes.")
    print("\n".join(failures), end="\n" if failures else "", file=sys.stderr)
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
