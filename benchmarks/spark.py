"""How many rows a second PySpark reads from and writes to a broker: `python -m benchmarks.spark --help`.

Everything runs on this machine: one Spark session in local mode on two cores, which both kernels' sources
share, and a broker for each kernel. In turn with each read the same job runs over an in-memory source, which
yields the same Arrow batches from mapped files, and in turn with each write a sink that drops its rows: their
time is Spark's own. The first run of each, which warms Java up, doesn't count, and the figure is the median
of the others. Values are random bytes of one length, which don't compress.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.display import Display
from benchmarks.harness.servers import Kernel, kernels
from benchmarks.harness.spark_jobs import MEMORY, PARTITIONS, WORK, Bench, fill, keep_batches, session, start
from benchmarks.harness.table import Reached, Row, dump, machine, show, spread

# Rows of 100 bytes; a third as many larger ones. They are enough that the fixed cost of a job is small. Sinks
# write a third of these rows, and there are a quarter as many rows of JSON.
MESSAGES = 3_000_000
QUICK_MESSAGES = 1_200_000
SINK_SHARE = 3
JSON_SHARE = 4
RUNS = 5
QUICK_RUNS = 2
VALUE_BYTES = (100, 1000)
READS = ("count", "sum(length(value))", "Parquet")
SINKS = ("sink, flush=replicated", "sink, flush=disk")
JSON = ("JSON decoded in the reader", "JSON decoded by from_json")
QUICK = (*READS, "sink, flush=replicated")
# Spark's own Kafka source and sink, million rows a second: recorded once on such a machine, with Spark 4.0
# and Kafka 4.1 (one node). The count was one figure, of count and of sum(length(value)).
KAFKA = {
    ("count", 100): 0.70, ("sum(length(value))", 100): 0.70, ("Parquet", 100): 0.34, ("sink", 100): 0.42,
    ("count", 1000): 0.34, ("sum(length(value))", 1000): 0.34, ("Parquet", 1000): 0.11, ("sink", 1000): 0.09,
}  # fmt: skip
SHARE_OF_MEMORY = {Kernel.COMPILED: 0.7, Kernel.PURE: 0.5}
PARQUET_SHARE_OF_MEMORY = 0.85
TIMES_KAFKA = 2.0


@dataclass(frozen=True, slots=True)
class Job:
    """One measured job."""

    work: str
    value_bytes: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.work}, {self.value_bytes} B"

    def sources(self, names: Sequence[Kernel]) -> list[str]:
        """The sources, or sinks, that run the job in turn."""
        return [*names] if self.work in JSON else [*names, MEMORY]


def main() -> None:
    # SIGTERM becomes an exception, so that the brokers and Spark are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    given = _parser().parse_args()
    names = kernels(given.kernel)
    jobs = wanted(given)
    runs = given.runs or (QUICK_RUNS if given.quick else RUNS)
    found: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tank-spark-")))
        display = Display(sum(len(job.sources(names)) * (runs + 1) for job in jobs), stack)
        bench = prepare(folder, jobs, names, stack, display)
        for job in jobs:
            display.begin(job.name)
            for row in measure(job, names, runs, bench, display):
                display.say(
                    ", ".join(filter(None, (row.name, row.kernel, row.figure, row.beside, row.ratio)))
                )
                found.append(row)
        display.begin("stopping Spark")
    how = (
        f"local[2], medians of {runs} interleaved runs of each row, "
        "beside the same job over batches in memory, or a sink that drops its rows"
    )
    if given.rows:
        dump(found, how)
    else:
        show(f"Spark: {how}. {machine()}", found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Rows a second through Spark and a broker on this machine.")
    parser.add_argument("--messages", type=int, help=f"rows of 100 bytes (default: {MESSAGES})")
    parser.add_argument("--runs", type=int, help=f"runs that count, of each (default: {RUNS})")
    parser.add_argument("--bytes", default=",".join(map(str, VALUE_BYTES)), help="sizes of the values")
    parser.add_argument("--only", help=f"jobs whose names contain one of these: {', '.join(WORK)}")
    parser.add_argument("--kernel", choices=("both", *Kernel), default="both")
    parser.add_argument("--quick", action="store_true", help="fewer jobs, rows and runs, and wider spreads")
    parser.add_argument("--rows", action="store_true", help="print one line of JSON, for `make bench`")
    return parser


def wanted(given: argparse.Namespace) -> list[Job]:
    """The jobs that the command line asks for."""
    messages = given.messages or (QUICK_MESSAGES if given.quick else MESSAGES)
    sizes = [int(size) for size in given.bytes.split(",")]
    jobs = []
    for size in sizes:
        rows = messages if size <= 100 else messages // 3
        works = QUICK if given.quick else (*READS, *SINKS)
        written = rows // SINK_SHARE // PARTITIONS * PARTITIONS
        jobs += [Job(work, size, written if work in SINKS else rows) for work in works]
    if not given.quick:
        jobs += [Job(work, 100, messages // JSON_SHARE) for work in JSON]
    if given.only:
        jobs = [job for job in jobs if any(part in job.work for part in given.only.split(","))]
    if not jobs:
        raise SystemExit(f"no job is called {given.only!r}; there are: {', '.join(WORK)}")
    return jobs


def prepare(
    folder: Path, jobs: Sequence[Job], names: Sequence[Kernel], stack: ExitStack, display: Display
) -> Bench:
    """Starts Spark and brokers, and makes the jobs' inputs. The stack stops and removes all."""
    sizes = {
        job.value_bytes: job.rows * (SINK_SHARE if job.work in SINKS else 1)
        for job in reversed(jobs)
        if job.work not in JSON
    }
    display.begin("starting Spark")
    spark = session(folder)
    stack.callback(spark.stop)
    bench = Bench(spark, folder, sizes)
    display.begin("starting brokers")
    start(bench, names, stack)
    for what in fill(bench, sum(job.rows for job in jobs if job.work in JSON[:1])):
        display.begin(what)
    for value_bytes in sizes:
        display.begin(f"keeping the Arrow batches of {value_bytes} B")
        written = [job.rows for job in jobs if job.work in SINKS and job.value_bytes == value_bytes]
        keep_batches(bench, value_bytes, written[0] if written else 0)
    return bench


def measure(job: Job, names: Sequence[Kernel], runs: int, bench: Bench, display: Display) -> Iterator[Row]:
    """One row of the table for each kernel."""
    taken: dict[str, list[float]] = {source: [] for source in job.sources(names)}
    turns = list(taken)
    for run in range(runs + 1):
        # Rotated, because the first source after a pause finds colder caches.
        for source in turns[run % len(turns) :] + turns[: run % len(turns)]:
            began = time.perf_counter()
            WORK[job.work](bench, source, job.value_bytes)
            if run:
                taken[source].append(job.rows / (time.perf_counter() - began) / 1e6)
            display.ran()
    for name in names:
        yield _row(job, name, taken[name], taken.get(MEMORY, []))


def _row(job: Job, name: Kernel, ours: list[float], memory: list[float]) -> Row:
    """The row of a job. Each run is compared with the bars; ratios are of runs of the same round."""
    kafka = KAFKA.get((job.work.partition(",")[0], job.value_bytes))
    ratios = [one / other for one, other in zip(ours, memory, strict=False)]
    bars: list[tuple[str, Reached]] = []
    if memory and job.work in READS:
        share = PARQUET_SHARE_OF_MEMORY if job.work == "Parquet" else SHARE_OF_MEMORY[name]
        bars.append((f"≥ {share} × memory", Reached.of(ratio >= share for ratio in ratios)))
    if kafka and job.work in READS:
        bars.append(
            (f"≥ {TIMES_KAFKA * kafka:.2f} M/s", Reached.of(rate >= TIMES_KAFKA * kafka for rate in ours))
        )
    elif kafka:
        bars.append((f"> {kafka:.2f} M/s", Reached.of(rate > kafka for rate in ours)))
    return Row(
        name=job.name,
        kernel=name,
        figure=f"{spread(ours, 2)} M/s",
        beside=f"{'dropped' if job.work in SINKS else 'memory'} {spread(memory, 2)}" if memory else "",
        ratio=f"{spread(ratios, 2)} ×" if memory else "",
        bar=", ".join(f"{text}: {reached}" if len(bars) > 1 else text for text, reached in bars),
        reached=Reached.all(reached for _, reached in bars) if bars else None,
        recorded=f"Kafka {kafka:.2f}" if kafka else "",
    )


if __name__ == "__main__":
    main()
