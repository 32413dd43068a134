"""Tests the simulator: makes mutants, mistakes in the code, one at a time, and checks that a story detects
each.

Each mutant is made in a copy of the tree. One told story runs for it; with --by-chance seeds are tried one
after the other. It is a failure when no story detects a mutant, when the mutant's text is not found exactly
once, or when its story fails without the mutant.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.simulation.mutants import (
    of_brokers,
    of_clocks,
    of_controllers,
    of_groups,
    of_iggy,
    of_kafka,
    of_positions,
    of_replication,
    of_sharing,
    of_stored,
    of_volumes,
)
from tests.simulation.mutants.edit import ROOMS, ROOT, EditError
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind, seeds
from tests.simulation.told import stories

MUTANTS = (
    *of_controllers.MUTANTS,
    *of_brokers.MUTANTS,
    *of_replication.MUTANTS,
    *of_clocks.MUTANTS,
    *of_volumes.MUTANTS,
    *of_kafka.MUTANTS,
    *of_groups.MUTANTS,
    *of_positions.MUTANTS,
    *of_sharing.MUTANTS,
    *of_stored.MUTANTS,
    *of_iggy.MUTANTS,
)
STORIES = 60
"""So many random stories each mutant gets, unless another number is said."""


@dataclass(slots=True, frozen=True)
class Fate:
    """What became of a mutant."""

    mutant: Mutant
    seeds: int
    """Until it was caught; 0: it survived."""
    seen: str
    """What the simulator said."""
    seconds: float

    @property
    def sentence(self) -> str:
        """How many stories it took."""
        mutant = self.mutant
        if not self.seeds:
            return "SURVIVED the story told for it" if mutant.told else f"SURVIVED {mutant.seeds} seeds"
        return (
            "caught by the story told for it"
            if mutant.told
            else f"caught at seed {self.seeds} of {mutant.seeds}"
        )


def problems() -> list[str]:
    """Mutations that don't fit the code any more."""
    found = []
    for mutant in MUTANTS:
        for edit in mutant.edits:
            try:
                edit.applied()
            except EditError as error:
                found.append(f"{mutant.name}: {error}")
        if mutant.told and mutant.told not in stories.STORIES:
            found.append(f"{mutant.name}: nobody tells {mutant.told}")
    return found


def copy_packages(mutant: Mutant, folder: Path) -> None:
    """The packages that it changes, without anything compiled; the rest is imported from where it is."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for name in sorted({"/".join(edit.file().parts[:2]) for edit in mutant.edits}):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)


def try_one(mutant: Mutant) -> Fate:
    """In a copy of its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as temporary:
        folder = Path(temporary)
        copy_packages(mutant, folder)
        for edit in mutant.edits:
            (folder / edit.file()).write_text(edit.applied(folder))
        done = _simulate(folder, mutant)
    seconds = time.monotonic() - began
    if done.returncode == 0:
        return Fate(mutant, 0, "", seconds)
    number, _, seen = done.stdout.strip().rpartition("\n")[2].partition(" ")
    if done.returncode != 1 or not number.isdigit():
        said = (done.stderr.strip() or "nothing").rpartition("\n")[2]
        return Fate(mutant, 0, f"the simulator itself ended badly, with {done.returncode}: {said}", seconds)
    if not holds(mutant.kind, 0 if mutant.told else int(number), mutant.told):
        return Fate(mutant, 0, f"what shows it fails without it, too: {seen}", seconds)
    return Fate(mutant, int(number), seen, seconds)


@cache
def holds(kind: Kind, tried: int, told: str) -> bool:
    """Whether the story that showed a mutant, the last of so many or the told one, is well without it."""
    if told:
        words = ["tests.simulation.told", told]
    else:
        words = ["tests.simulation", "--seed", str(seeds(0, tried, kind)[-1]), "--lines", "1"]
    return _run(ROOT, words).returncode == 0


def _simulate(folder: Path, mutant: Mutant) -> subprocess.CompletedProcess[str]:
    if mutant.told:
        return _run(folder, ["tests.simulation.told", mutant.told])
    words = ["tests.simulation", "--until-failure", "--kind", mutant.kind.value]
    return _run(folder, [*words, "--seeds", str(mutant.seeds)])


def _run(folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A module, on plain Python, with the packages of this folder before those of the tree."""
    paths = [str(top / room) for top in (folder, ROOT) for room in ROOMS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TANK_KERNEL": "pure"}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def fates(mutants: Sequence[Mutant], processes: int) -> Iterator[Fate]:
    """Of all of them, in their order."""
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(try_one, mutants)


def main(arguments: list[str]) -> int:
    """0 when none survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="those whose names contain one of these; all when none is said"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--list", action="store_true", help="name them, and run nothing")
    by_chance = "look for them by seeds, though a story is told for each"
    parser.add_argument("--by-chance", action="store_true", help=by_chance)
    stories = "say after how many random stories each is caught, of N at most: a table, and no failure"
    parser.add_argument("--stories", type=int, metavar="N", nargs="?", const=STORIES, help=stories)
    options = parser.parse_args(arguments)
    if options.stories is not None and options.stories < 1:
        parser.error("--stories takes a number from 1 on")
    if wrong := problems():
        print("\n".join(wrong), file=sys.stderr)
        return 2
    chosen = [m for m in MUTANTS if not options.names or any(name in m.name for name in options.names)]
    if not chosen:
        parser.error("no mutant is called so: --list names them")
    if options.by_chance or options.stories is not None:
        chosen = [replace(m, told="", seeds=options.stories or m.seeds) for m in chosen]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name}  ({mutant.symbol})")
        return 0
    if options.stories is not None:
        return _count_stories(chosen, options.processes)
    return _try_all(chosen, options.processes)


def _count_stories(chosen: Sequence[Mutant], processes: int) -> int:
    """A table, line by line as they end; 0, however many survive: chance promises nothing."""
    print("| mutant | random stories until it is caught |\n|---|---|")
    caught = 0
    for fate in fates(chosen, processes):
        caught += fate.seeds > 0
        found = str(fate.seeds) if fate.seeds else fate.seen or f"more than {fate.mutant.seeds}"
        print(f"| {fate.mutant.name} | {found} |", flush=True)
    print(f"\n{caught} of {len(chosen)} caught")
    return 0


def _try_all(chosen: Sequence[Mutant], processes: int) -> int:
    """Says what becomes of each, and at the end of all; 0 when none survived."""
    began = time.monotonic()
    found = []
    for number, fate in enumerate(fates(chosen, processes), 1):
        found.append(fate)
        seen = f": {fate.seen}" if fate.seen else ""
        where = f"[{number}/{len(chosen)}] {fate.mutant.name}"
        print(f"{where}: {fate.sentence} ({fate.seconds:.0f} s){seen}", flush=True)
    width = max((len(fate.mutant.name) for fate in found), default=0)
    print()
    for fate in found:
        print(f"{fate.mutant.name:{width}}  {fate.sentence}")
    caught = sum(1 for fate in found if fate.seeds)
    print(f"{caught} of {len(chosen)} mutants caught, in {time.monotonic() - began:.0f} s")
    return 0 if caught == len(chosen) else 1
