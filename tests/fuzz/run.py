"""`python -m tests.fuzz.run --frames N --seed S`: bad input by the million, the same for the same seed.

A failure prints the command that replays its case alone. The last line says how many frames and how many
failures there were.
"""

import argparse
import faulthandler
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from tank_node.version import kernel_name
from tank_protos import kernel
from tests.fuzz import (
    bundle_target,
    codec_target,
    flexible_target,
    forward_target,
    iggy_live_target,
    iggy_session_target,
    iggy_target,
    kafka_live_target,
    kafka_records_target,
    kafka_session_target,
    kafka_target,
    live_target,
    push_target,
    session_target,
    twin_target,
)
from tests.support.patience import patient

SHARES = {
    "messages": 0.34,
    "flexible": 0.03,
    "kafka": 0.05,
    "batches": 0.1,
    "chunks": 0.02,
    "kafka records": 0.02,
    "twins": 0.1,
    "sessions": 0.12,
    "forward": 0.02,
    "pushes": 0.02,
    "kafka sessions": 0.03,
    "iggy classic sessions": 0.01,
    "iggy framed sessions": 0.01,
    "iggy": 0.03,
    "iggy messages": 0.01,
    "live": 0.05,
    "kafka live": 0.03,
    "iggy live": 0.01,
}
"""How the frames are divided: the slower a target, the fewer it gets."""

CASE_TIMEOUT_S = patient(30.0)
"""A case takes microseconds, a round of the live target a second. What takes longer hangs."""

MEMORY_GROWTH_BYTES = 256 << 20
"""Of this process, which decodes what it sends: nothing that a frame says makes it keep more."""

MOST_FAILURES = 10
"""Enough to see a pattern."""


@dataclass(slots=True)
class Tally:
    """What a target did."""

    frames: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


Case = Callable[[Random], "Counter[str] | None"]


_ALONE: dict[str, Case] = {
    "messages": codec_target.message,
    "flexible": flexible_target.flexible,
    "kafka": kafka_target.message,
    "batches": bundle_target.batch,
    "chunks": bundle_target.chunk,
    "kafka records": kafka_records_target.stored,
    "twins": twin_target.twins,
    "sessions": session_target.conversation,
    "forward": forward_target.conversation,
    "pushes": push_target.conversation,
    "kafka sessions": kafka_session_target.conversation,
    "iggy classic sessions": iggy_session_target.classic,
    "iggy framed sessions": iggy_session_target.framed,
    "iggy": iggy_target.frame,
    "iggy messages": iggy_target.messages,
}
"""The targets whose cases need nothing but chance."""


class Hang(Exception):
    """A case that takes longer than CASE_TIMEOUT_S."""


def on_alarm(number: int, frame: FrameType | None) -> None:
    """Ends the case that is under way: the handler of SIGALRM."""
    raise Hang(f"no end after {CASE_TIMEOUT_S:g} s")


def chance_for(target: str, seed: int, case: int) -> Random:
    """The randomness of one case: it depends on nothing else."""
    return Random(f"{target} {seed} {case}")


def drive(target: str, case: Case, cases: Iterator[int], frames_each: int, seed: int) -> Tally:
    """Runs cases until they end or MOST_FAILURES have failed."""
    tally = Tally()
    began = time.perf_counter()
    for number in cases:
        signal.setitimer(signal.ITIMER_REAL, CASE_TIMEOUT_S)
        try:
            tally.refused += case(chance_for(target, seed, number)) or Counter()
        except Exception:
            replay = (
                f"TANK_KERNEL={kernel.NAME} python -m tests.fuzz.run --seed {seed} --target {target}"
                f" --case {number}"
            )
            tally.failures.append(f"{traceback.format_exc()}replay: {replay}")
            print(tally.failures[-1], file=sys.stderr, flush=True)
        tally.frames += frames_each
        if len(tally.failures) >= MOST_FAILURES:
            break
    signal.setitimer(signal.ITIMER_REAL, 0)
    tally.seconds = time.perf_counter() - began
    return tally


_LIVE: dict[str, type[live_target.LiveBroker]] = {
    "live": live_target.LiveBroker,
    "kafka live": kafka_live_target.KafkaLiveBroker,
    "iggy live": iggy_live_target.IggyLiveBroker,
}
"""The targets that are a process of their own."""


@contextmanager
def _live_case(target: str) -> Iterator[tuple[live_target.LiveBroker, Case]]:
    with tempfile.TemporaryDirectory(prefix="tank-fuzz-") as folder:
        broker = _LIVE[target](Path(folder))
        with broker.running():
            yield broker, broker.round


def run_target(target: str, cases: Iterator[int], seed: int) -> Tally:
    """One target over the given case numbers."""
    if target in _ALONE:
        return drive(target, _ALONE[target], cases, frames_each(target), seed)
    with _live_case(target) as (broker, case):
        tally = drive(target, case, cases, frames_each(target), seed)
        if not tally.failures:
            try:
                tally.refused = broker.finish()
            except Exception:
                tally.failures.append(traceback.format_exc())
                print(tally.failures[-1], file=sys.stderr, flush=True)
        return tally


def frames_each(target: str) -> int:
    """How many frames one case of a target has."""
    several = {
        "sessions": session_target.FRAMES,
        "forward": forward_target.FRAMES,
        "pushes": push_target.FRAMES,
        "live": live_target.FRAMES,
        "kafka sessions": kafka_session_target.FRAMES,
        "iggy classic sessions": iggy_session_target.FRAMES,
        "iggy framed sessions": iggy_session_target.FRAMES,
        "kafka live": kafka_live_target.FRAMES,
        "iggy live": iggy_live_target.FRAMES,
    }
    return several.get(target, 1)


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument(
        "--frames", type=int, default=1_000_000, help="at least how many frames, over all targets"
    )
    parser.add_argument("--seed", type=int, default=1, help="another seed, other frames")
    parser.add_argument(
        "--target", choices=list(SHARES), action="append", help="only this one; may be repeated"
    )
    parser.add_argument(
        "--both-kernels", action="store_true", help="all of it twice, where the compiled kernel is built"
    )
    parser.add_argument("--case", type=int, help="replay this case of the one target")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Runs the targets and prints one line for each; returns the exit code."""
    arguments = _arguments(given)
    if arguments.both_kernels and kernel.NAME == "compiled":
        return _run_both(arguments)
    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        return _run(arguments)
    finally:
        signal.signal(signal.SIGALRM, before)


def _run_both(arguments: argparse.Namespace) -> int:
    """Each kernel in a process of its own, with the same frames. Returns the worse exit code."""
    command = [sys.executable, "-m", "tests.fuzz.run", f"--frames={arguments.frames}"]
    command += [f"--seed={arguments.seed}", *(f"--target={target}" for target in arguments.target or ())]
    worst = 0
    for name in ("auto", "pure"):
        done = subprocess.run(command, env=os.environ | {"TANK_KERNEL": name}, check=False)
        worst = max(worst, abs(done.returncode))
    return worst


def _run(arguments: argparse.Namespace) -> int:
    targets = arguments.target or list(SHARES)
    print(f"kernel: {kernel_name()}", flush=True)
    if not kernel.PAIRS:
        targets = [target for target in targets if target != "twins"]
    whole = sum(SHARES[target] for target in targets)
    frames = failures = 0
    for target in targets:
        # Up, so that all of them together are at least as many as were asked for.
        count = max(1, math.ceil(arguments.frames * SHARES[target] / whole / frames_each(target)))
        cases = iter([arguments.case] if arguments.case is not None else range(count))
        before = _peak_bytes()
        tally = run_target(target, cases, arguments.seed)
        grown = _peak_bytes() - before
        if grown > MEMORY_GROWTH_BYTES:
            tally.failures.append(f"{target}: this process grew by {grown >> 20} MiB")
            print(tally.failures[-1], file=sys.stderr, flush=True)
        frames += tally.frames
        failures += len(tally.failures)
        _report(target, tally)
    print(f"{frames:,} frames, {failures} failures")
    return 1 if failures else 0


def _report(target: str, tally: Tally) -> None:
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(tally.refused.items()))
    speed = tally.frames / tally.seconds if tally.seconds else 0.0
    refused = f"; refused: {reasons}" if reasons else ""
    print(f"{target}: {tally.frames:,} frames, {speed:,.0f} a second{refused}", flush=True)


def _peak_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
