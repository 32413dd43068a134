"""Runs all benchmarks with bars. `make bench`: the broker beside C, the client, Spark, memory, on both
kernels. `make bench-cluster`: three replicas, a cluster's metadata, and pauses after faults. `make
bench-kafka`: what Kafka's clients cost. `make bench-groups`: consumer groups. `make bench-iggy`: what Iggy's
clients cost.

python -m benchmarks [--quick] [--rounds N] [--markdown]
                         [--parts broker,client,spark,memory,replicated,cluster_metadata,failover,kafka,
                          groups,iggy]
                         [--json FILE] [--into FILE ...]

The exit code says whether everything ran, not whether figures reach their bars.
"""

import argparse
import io
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict
from pathlib import Path

from benchmarks import broker
from benchmarks.harness.servers import Kernel, environment, kernels
from benchmarks.harness.table import Row, load, machine, show, show_in_short, summary

PARTS = ("broker", "client", "spark", "memory")
CLUSTER_PARTS = ("replicated", "cluster_metadata", "failover")
"""The parts of `make bench-cluster`; the one with faults comes last."""
KAFKA_PARTS = ("kafka", "groups")
"""The parts of `make bench-kafka` and `make bench-groups`, which want other systems beside the repository."""
CLIENTS_PARTS = (*KAFKA_PARTS, "iggy")
"""With that of `make bench-iggy`."""
EVERY_PART = (*PARTS, *CLUSTER_PARTS, *CLIENTS_PARTS)
IN_SHORT = "{} in short"
PLACES = (*EVERY_PART, *map(IN_SHORT.format, EVERY_PART))
"""The places that a page may have: for the tables of a part, or for its medians alone."""
TITLES = {
    "broker": "The broker beside C", "client": "The Python client", "spark": "Spark", "memory": "Memory",
    "replicated": "Three replicas", "cluster_metadata": "Cluster metadata", "failover": "Pauses of writes",
    "kafka": "Kafka's clients", "groups": "Consumer groups", "iggy": "Iggy's clients",
}  # fmt: skip

ROUNDS_OPTION = {
    "client": "--rounds", "spark": "--runs", "replicated": "--rounds", "failover": "--runs",
    "kafka": "--rounds", "groups": "--rounds", "iggy": "--rounds",
}  # fmt: skip
"""The names of the parts' own options for `--rounds`; the other parts have none."""


class PartFailed(Exception):
    """A part ended with an error, which it has printed to stderr."""


def rows_of(part: str, arguments: Sequence[str], kernel: Kernel | None = None) -> tuple[str, list[Row]]:
    """Runs one script of this folder. Returns the description of its measurement, and the rows that it
    prints.

    Raises:
        PartFailed: it ended with an error, or printed something else.
    """
    command = [sys.executable, "-m", f"benchmarks.{part}", "--rows", *arguments]
    ended = subprocess.run(command, env=environment(kernel), stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        raise PartFailed(f"{' '.join(command[1:])} ended with {ended.returncode}")
    try:
        return load(ended.stdout)
    except (ValueError, TypeError, KeyError) as error:
        raise PartFailed(f"{' '.join(command[1:])} printed no rows: {error}") from None


def measure(part: str, given: argparse.Namespace) -> tuple[str, list[Row]]:
    """Measures one part, and prints its output beside the rows. Returns the description of its measurement,
    and the rows.

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
        options = broker.options().parse_args(arguments)
        rows, failures = broker.measure(options)
        if failures:
            raise PartFailed("\n".join(failures))
        return broker.how(options), rows
    # The client runs in the measuring process, so each kernel needs a process of its own.
    own = kernels() if part == "client" else [None]
    often = [ROUNDS_OPTION[part], str(given.rounds)] if given.rounds and part in ROUNDS_OPTION else []
    measured = [rows_of(part, [*quick, *often], kernel) for kernel in own]
    rows = [row for _, some in measured for row in some]
    if given.json:
        with given.json.open("a") as file:
            file.writelines(json.dumps({"part": part, **asdict(row)}) + "\n" for row in rows)
    return measured[0][0], rows


def measure_all(parts: Sequence[str], given: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """Measures and prints the parts.

    Returns:
        The texts for the places of a page, of the parts that ran; and the failures.
    """
    began = time.monotonic()
    every: list[Row] = []
    places: dict[str, str] = {}
    failures: list[str] = []
    for part in parts:
        print(f"Measuring: {part} ...", file=sys.stderr)
        tables = io.StringIO()
        with redirect_stdout(tables) if given.into else nullcontext():
            try:
                how, rows = measure(part, given)
            except PartFailed as failure:
                failures.append(f"FAILED {part}: {failure}")
            else:
                title = f"{TITLES[part]}: {how}. {machine()}. {summary(rows)}"
                heads = broker.HEADS if part == "broker" else None
                show(title, rows, markdown=given.markdown, heads=heads)
                with redirect_stdout(io.StringIO()) as short:
                    show_in_short(title, rows, heads)
                places |= {part: tables.getvalue(), IN_SHORT.format(part): short.getvalue()}
                every += rows
        print(tables.getvalue(), end="")
    minutes = (time.monotonic() - began) / 60
    print(f"\n{machine()}: {summary(every)} It took {minutes:.0f} minutes.")
    return places, failures


def marks(place: str) -> tuple[str, str]:
    """The lines of a page between which a place lies."""
    return f"<!-- make bench, {place}: begin -->\n", f"<!-- make bench, {place}: end -->\n"


def put_into(text: str, places: Mapping[str, str]) -> str:
    """Returns the page with new tables in the places that are named; other places keep theirs."""
    for place, tables in places.items():
        begin, end = marks(place)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if found and closed:
            text = f"{before}{begin}\n{tables.strip()}\n\n{end}{after}"
    return text


def places_of(text: str) -> list[str]:
    """The places that a page has."""
    return [place for place in PLACES if all(mark in text for mark in marks(place))]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="few and short runs: for a look, not for a claim"
    )
    parser.add_argument(
        "--parts",
        default=",".join(PARTS),
        help=f"with commas between; those of a cluster are {CLUSTER_PARTS}, and there are {CLIENTS_PARTS}",
    )
    parser.add_argument("--rounds", type=int, help="how often each load, job and fault runs")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="append every single result here, a line each"
    )
    parser.add_argument(
        "--into", type=Path, metavar="FILE", action="append", default=[],
        help="put the tables as Markdown between those lines of this page that say so: " + marks("broker")[0],
    )  # fmt: skip
    given = parser.parse_args()
    parts = given.parts.split(",")
    if unknown := [part for part in parts if part not in EVERY_PART]:
        parser.error(f"no part is called {unknown[0]!r}; there are {', '.join(EVERY_PART)}")
    for page in given.into:
        if not places_of(page.read_text()):
            raise SystemExit(f"{page} has no place for tables: two lines like {''.join(marks(parts[0]))}")
    given.markdown = given.markdown or bool(given.into)
    places, failures = measure_all(parts, given)
    for page in given.into:
        page.write_text(put_into(page.read_text(), places))
    print("\n".join(failures), end="\n" if failures else "", file=sys.stderr)
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
