"""Runs many seeds on all processors, with a progress bar; prints the failures, and how to repeat each."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from typing import TextIO

from tests.simulation.story import Kind, Told, seeds, tell
from tests.simulation.world.world import one_line

TRACE_SHOWN = 150
BAR_WIDTH = 30


def stories(chosen: Iterable[int], processes: int, trace: int) -> Iterator[Told]:
    """Runs the seeds; they come as they end."""
    jobs = [(seed, trace) for seed in chosen]
    if processes == 1:
        yield from map(_one, jobs)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_one, jobs, chunksize=1)


def _one(job: tuple[int, int]) -> Told:
    return tell(*job)


def again(seed: int) -> str:
    """The command that replays a seed."""
    return f"python -m tests.simulation --seed {seed}"


def run(first: int, count: int, processes: int, out: TextIO = sys.stdout, kind: Kind = Kind.ANY) -> int:
    """Runs so many seeds and says what came of it; how many failed."""
    began = time.monotonic()
    bar = _Bar(count, out)
    faults: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    events, seconds = 0, 0.0
    failed: list[Told] = []
    for told in stories(seeds(first, count, kind), processes, TRACE_SHOWN):
        faults += told.faults
        counts += told.counts
        events += told.events
        seconds += told.seconds
        if told.failure:
            failed.append(told)
            bar.clear()
            _report(told, out)
        bar.step(len(failed))
    bar.clear()
    took = time.monotonic() - began
    print(
        f"{count} seeds, {events:,} events, {seconds / 3600:.1f} hours of virtual time in {took:.0f} s",
        file=out,
    )
    print("faults: " + _listed(faults), file=out)
    print("in spite of them: " + _listed(counts), file=out)
    if failed:
        print(f"{len(failed)} FAILED: " + ", ".join(str(told.seed) for told in failed), file=out)
        print(f"see one again: {again(failed[0].seed)}", file=out)
    else:
        print("every invariant held", file=out)
    return len(failed)


def until_failure(first: int, count: int, kind: Kind, out: TextIO = sys.stdout) -> bool:
    """Runs the seeds one after another; ends with the first one that fails, and says which and why."""
    for tried, seed in enumerate(seeds(first, count, kind), 1):
        told = tell(seed)
        if told.failure:
            print(f"{tried} {one_line(told.failure)}", file=out)
            return True
    return False


def _report(told: Told, out: TextIO) -> None:
    print(f"\nseed {told.seed} failed after {told.events:,} events: {told.failure}", file=out)
    print("what led there:", file=out)
    for line in told.trace:
        print("  " + line, file=out)
    print(f"again: {again(told.seed)}\n", file=out, flush=True)


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in sorted(counted.items())) or "none"


class _Bar:
    """On a terminal a bar that moves, elsewhere a line for each tenth."""

    def __init__(self, total: int, out: TextIO) -> None:
        self._total = total
        self._out = out
        self._done = 0
        self._moves = out.isatty()

    def step(self, failed: int) -> None:
        """One more."""
        self._done += 1
        text = f"{self._done}/{self._total} seeds" + (f", {failed} failed" if failed else "")
        if self._moves:
            filled = BAR_WIDTH * self._done // self._total
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            print(f"\r[{bar}] {text} ", end="", file=self._out, flush=True)
        elif self._done * 10 // self._total > (self._done - 1) * 10 // self._total:
            print(text, file=self._out, flush=True)

    def clear(self) -> None:
        """Makes room for a line."""
        if self._moves:
            print("\r" + " " * (BAR_WIDTH + 40) + "\r", end="", file=self._out)
