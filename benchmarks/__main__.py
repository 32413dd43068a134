"""All that has a bar, `make bench`: the broker beside C, the client, Spark, memory; compiled kernel and not.

    python -m benchmarks [--quick] [--parts broker,client,spark,memory] [--rounds N] [--markdown]
                         [--json FILE] [--into FILE]

Nothing passes or fails by its figures: the exit code says whether everything ran.
"""

import argparse
import io
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from benchmarks import broker
from benchmarks.servers import Kernel, environment, kernels
from benchmarks.table import Row, load, machine, show, summary

BEGIN, END = "<!-- tables of make bench: begin -->", "<!-- tables of make bench: end -->"
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


def measure_all(parts: Sequence[str], given: argparse.Namespace) -> list[str]:
    """Measures and prints the parts; returns what failed."""
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
    return failures


def read_frame(file: Path) -> tuple[str, str]:
    """What stands before and behind the tables of a file.

    Raises:
        SystemExit: there is no place for tables in it.
    """
    text = file.read_text()
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not begin or not end:
        raise SystemExit(f"{file} has no lines {BEGIN} and {END}: the tables go between them.")
    return before, after


def put_into(file: Path, tables: str) -> None:
    """Puts tables in the place of those that the file has."""
    before, after = read_frame(file)
    file.write_text(f"{before}{BEGIN}\n\n{tables.strip()}\n\n{END}\n{after}")


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
    parser.add_argument(
        "--into", type=Path, metavar="FILE",
        help=f"put the tables as Markdown between the lines {BEGIN} and {END} of this file",
    )  # fmt: skip
    given = parser.parse_args()
    parts = given.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part is called {unknown[0]!r}; there are {', '.join(PARTS)}")
    if given.into:
        given.markdown = True
        read_frame(given.into)
        printed = io.StringIO()
        with redirect_stdout(printed):
            failures = measure_all(parts, given)
        print(printed.getvalue())
        if not failures:
            put_into(given.into, printed.getvalue())
    else:
        failures = measure_all(parts, given)
    print("\n".join(failures), end="\n" if failures else "", file=sys.stderr)
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
