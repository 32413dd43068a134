"""How many rows a second PySpark reads from and writes to a broker: `python -m benchmarks.spark --help`.

Everything runs on this machine: for each kernel a process with Spark in local mode on two cores, and a broker
in a process of its own. Beside each read runs the same job over an in-memory source, which yields the very
same Arrow batches out of mapped files: what is left of the time is Spark's. Runs are taken in turn, the first
of each, which warms Java up, is not counted, and the figure is the median of the others. Values are random
bytes of one length: compression does not flatter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.spark_contender import WORK
from benchmarks.table import Row, dump, machine, show, spread
from tank_protos import kernel

# Rows of 100 bytes; of larger ones a third as many: enough that what a job costs by itself does not rule.
MESSAGES = 4_000_000
QUICK_MESSAGES = 1_500_000
JSON_SHARE = 4
RUNS = 5
VALUE_BYTES = (100, 1000)
READS = ("count", "sum(length(value))", "Parquet")
SINKS = ("sink, flush=replicated", "sink, flush=disk")
JSON = ("JSON decoded in the reader", "JSON decoded by from_json")
# Spark's own Kafka source and sink, million rows a second: recorded once on such a machine, with Spark 4.0
# and Kafka 4.1 (one node). The count was one figure, of count and of sum(length(value)).
KAFKA = {
    ("count", 100): 0.70, ("sum(length(value))", 100): 0.70, ("Parquet", 100): 0.34, ("sink", 100): 0.42,
    ("count", 1000): 0.34, ("sum(length(value))", 1000): 0.34, ("Parquet", 1000): 0.11, ("sink", 1000): 0.09,
}  # fmt: skip
SHARE_OF_MEMORY = {"compiled": 0.7, "pure": 0.5}
PARQUET_SHARE_OF_MEMORY = 0.85
TIMES_KAFKA = 2.0


@dataclass(frozen=True, slots=True)
class Job:
    """What is measured."""

    work: str
    value_bytes: int


class Contender:
    """A process with one kernel: see `benchmarks.spark_contender`."""

    def __init__(self, name: str, rows: dict[int, int], json_rows: int) -> None:
        self.name = name
        root = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_contender"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TANK_KERNEL": name, "PYTHONPATH": path},
        )
        self._tell({"rows": rows, "json_rows": json_rows})

    def wait(self) -> None:
        """Until its session has begun and its topics are filled."""
        self._answer()

    def seconds(self, job: Job, source: str) -> float:
        """One run."""
        self._tell({"work": job.work, "bytes": job.value_bytes, "source": source})
        return float(self._answer()["seconds"])

    def close(self) -> None:
        """Ends the process, with its Spark and its broker."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, what: dict[str, object]) -> None:
        assert self._process.stdin is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the Spark process with the {self.name} kernel ended; see its errors above")
        answer: dict[str, float] = json.loads(line)
        return answer


def main() -> None:
    given = _parser().parse_args()
    sizes = [int(size) for size in given.bytes.split(",")]
    messages = given.messages or (QUICK_MESSAGES if given.quick else MESSAGES)
    rows = {size: messages if size <= 100 else messages // 3 for size in sizes}
    jobs = [Job(work, size) for size in sizes for work in (*READS, *SINKS)]
    if not given.quick:
        jobs += [Job(work, 100) for work in JSON]
    jobs = [job for job in jobs if not given.only or any(part in job.work for part in given.only.split(","))]
    built = kernel.NAME == "compiled"
    names = (["compiled", "pure"] if built else ["pure"]) if given.kernel == "both" else [given.kernel]
    runs = given.runs or (3 if given.quick else RUNS)
    with ExitStack() as stack:
        contenders = []
        for name in names:
            contenders.append(Contender(name, rows, messages // JSON_SHARE))
            stack.callback(contenders[-1].close)
        for contender in contenders:
            _progress(f"starting Spark and a broker, {contender.name} kernel")
            contender.wait()
        found: list[Row] = []
        for job in jobs:
            count = messages // JSON_SHARE if job.work in JSON else rows[job.value_bytes]
            found += measure(job, count, contenders, runs)
    if given.rows:
        dump(found)
    else:
        show(f"Spark, local[2], million rows a second; {machine()}", found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Rows a second through Spark and a broker on this machine.")
    parser.add_argument("--messages", type=int, help=f"rows of 100 bytes (default: {MESSAGES})")
    parser.add_argument("--runs", type=int, help=f"runs that count, of each (default: {RUNS})")
    parser.add_argument("--bytes", default=",".join(map(str, VALUE_BYTES)), help="sizes of the values")
    parser.add_argument("--only", help=f"jobs whose names contain one of these: {', '.join(WORK)}")
    parser.add_argument("--kernel", choices=("both", "compiled", "pure"), default="both")
    parser.add_argument("--quick", action="store_true", help="fewer rows and runs, and wider spreads")
    parser.add_argument("--rows", action="store_true", help="print one line of JSON, for `make bench`")
    return parser


def measure(job: Job, count: int, contenders: list[Contender], runs: int) -> Iterator[Row]:
    """One row of the table for each kernel; the job is of `count` rows."""
    sources = ("tank", "memory") if job.work in READS else ("tank",)
    taken: dict[tuple[str, str], list[float]] = {}
    turns = [(contender, source) for contender in contenders for source in sources]
    for run in range(runs + 1):
        # Another one begins each time: the first after a pause meets colder memory.
        for contender, source in turns[run % len(turns) :] + turns[: run % len(turns)]:
            _progress(f"{job.work}, {job.value_bytes} B: run {run} of {runs}, {contender.name}, {source}")
            seconds = contender.seconds(job, source)
            if run:
                taken.setdefault((contender.name, source), []).append(seconds)
    for contender in contenders:
        ours = [count / seconds / 1e6 for seconds in taken[contender.name, "tank"]]
        memory = [count / seconds / 1e6 for seconds in taken.get((contender.name, "memory"), [])]
        yield _row(job, contender.name, ours, memory)


def _row(job: Job, kernel_name: str, ours: list[float], memory: list[float]) -> Row:
    """Judged by the medians. The ratio's spread is that of runs taken one after the other."""
    middle = statistics.median(ours)
    kafka = KAFKA.get((job.work.partition(",")[0], job.value_bytes))
    bars: list[tuple[str, bool]] = []
    if memory:
        share = PARQUET_SHARE_OF_MEMORY if job.work == "Parquet" else SHARE_OF_MEMORY[kernel_name]
        bars.append((f"≥ {share} × memory", middle >= share * statistics.median(memory)))
    if kafka:
        least = kafka if job.work in SINKS else TIMES_KAFKA * kafka
        bars.append((f"{'>' if job.work in SINKS else '≥'} {least:.2f} M/s", middle >= least))
    ratios = [one / other for one, other in zip(ours, memory, strict=False)]
    return Row(
        name=f"{job.work}, {job.value_bytes} B",
        kernel=kernel_name,
        figure=f"{spread(ours, 2)} M/s",
        beside=f"memory {spread(memory, 2)}" if memory else "",
        ratio=f"{spread(ratios, 2)} ×" if memory else "",
        bar=", ".join(text for text, _ in bars),
        reached=all(good for _, good in bars) if bars else None,
        recorded=f"Kafka {kafka:.2f}" if kafka else "",
    )


def _progress(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
