"""All parts of CI, two at a time, with what each took: `make ci`.

The parts of one lane follow each other, and lanes run side by side: one computes while the other waits for
processes that it hurts. What follows both lanes needs the machine for itself. A part is a target of the
Makefile; what it prints goes to a file below `out/ci`, and its end to the screen; of one that failed, much
of it.
"""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "out" / "ci"
BEFORE: Final = ("kernel-auto", "check")
"""What all else stands on: it comes first, alone."""
LANES: Final = (
    ("unit", "unit-pure", "thorough", "fuzz-short", "sim-short"),
    ("chart", "wheel", "chaos", "run"),
)
AFTER: Final = ("slow", "e2e")
"""Alone: what they wait for is to come in a time that a user would bear."""
PORTS: Final = ("12000-21999", "22000-31999")
"""What tests of each lane may listen on: no lane takes what the other is about to listen on."""
SHOWN_LINES: Final = 3
SHOWN_LINES_OF_A_FAILURE: Final = 400


@dataclass(slots=True)
class Part:
    """One that ran."""

    name: str
    took_s: float
    code: int


@dataclass(slots=True)
class Run:
    """What came of the parts so far. Threads of lanes write into it under its lock."""

    done: list[Part] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def failed(self) -> bool:
        """Whether a part failed: no other one begins then."""
        return any(part.code for part in self.done)

    def lane(self, names: tuple[str, ...], ports: str) -> None:
        """Runs the parts one behind the other, until one fails."""
        for name in names:
            if self.failed:
                return
            self._part(name, ports)

    def _part(self, name: str, ports: str) -> None:
        self._say(f"=== {name} begins")
        log = FOLDER / f"{name}.log"
        began = time.monotonic()
        with log.open("wb") as output:
            code = subprocess.call(
                ["make", "--no-print-directory", name],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**_environment(), "TANK_TEST_PORTS": ports},
            )
        took_s = time.monotonic() - began
        lines = log.read_text(errors="replace").splitlines()
        shown = lines[-(SHOWN_LINES_OF_A_FAILURE if code else SHOWN_LINES) :]
        verdict = f"FAILED with {code}" if code else "passed"
        with self.lock:
            self.done.append(Part(name, took_s, code))
        self._say("\n".join([*shown, f"=== {name} {verdict} after {took_s:.0f} s ({log.relative_to(ROOT)})"]))

    def _say(self, text: str) -> None:
        with self.lock:
            print(text, flush=True)


def _environment() -> dict[str, str]:
    """Without the flags that the make above hands on: those of each part's make are its own."""
    flags = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    return {name: value for name, value in os.environ.items() if name not in flags}


def main() -> int:
    """Runs all parts; 0 when each passed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    run = Run()
    run.lane(BEFORE, PORTS[0])
    lanes = [threading.Thread(target=run.lane, args=lane) for lane in zip(LANES, PORTS, strict=True)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    run.lane(AFTER, PORTS[0])
    print("\nwhat each part took:")
    for part in run.done:
        print(f"  {part.name:<14} {part.took_s:6.0f} s{'   FAILED' if part.code else ''}")
    missing = [n for n in (*BEFORE, *LANES[0], *LANES[1], *AFTER) if n not in {p.name for p in run.done}]
    if missing:
        print(f"  not begun: {', '.join(missing)}")
    print(f"  all            {time.monotonic() - began:6.0f} s")
    failed = sum(part.code != 0 for part in run.done)
    print(f"{len(run.done) - failed} passed, {failed} failed")
    return 1 if run.failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
