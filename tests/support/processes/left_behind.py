"""Finds processes that a test started and left behind, and threads that keep a run from ending.

Processes are found by a variable in their environment, which child processes inherit: so those of `tank
cluster up` are found, too, though their parent has ended.
"""

import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

MARK: Final = "TANK_TEST_STARTED_BY"
RUN: Final = "TEST_RUN_OF_TANK"
"""The same of a whole run: see `outlive`."""
ROUNDS: Final = 10
ROUND_S: Final = 0.3
"""What was being started as the run ended is found in a later round."""
EXIT_WAIT_S: Final = 10.0
"""So long the threads of tests have to end behind the last test."""


def processes_of(mark: str, variable: str = MARK) -> list[int]:
    """The ids of all living processes that were started with this mark."""
    wanted = f"{variable}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # it ended, or is of another user
    return sorted(found)


def end(pids: list[int]) -> None:
    """Kills them."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def outlive() -> None:
    """Starts a process that waits for this one's end, and ends what the run has left then: a run that a
    signal ends tears nothing down, and clusters are no children of its own."""
    run = f"{os.getpid()} {time.time_ns()}"
    heard, _ = os.pipe()  # the other end is closed when this process is gone, however it went
    subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.left_behind", run],
        stdin=heard,
        stdout=subprocess.DEVNULL,  # who reads the run's output waits for its end alone
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C is not for it
        cwd=Path(__file__).resolve().parents[3],
        env={name: value for name, value in os.environ.items() if name != RUN},
    ).returncode = 0  # it outlives us: no warning that nobody waited for it
    os.close(heard)
    os.environ[RUN] = run


def main(run: str) -> None:
    """What `outlive` starts."""
    sys.stdin.buffer.read()
    for _ in range(ROUNDS):
        end(processes_of(run, RUN))
        time.sleep(ROUND_S)


def end_with(status: int) -> None:
    """Sees to it that this process ends, though a thread of a failed test may wait for ever.

    Python waits at its exit for threads that are no daemons. Where they take longer than `EXIT_WAIT_S`, they
    are named, with the lines where they stand, and the process ends with `status`, or with 1 where that is 0.
    """

    def watch() -> None:
        time.sleep(EXIT_WAIT_S)
        names = ", ".join(t.name for t in threading.enumerate() if not t.daemon)
        print(f"threads that tests left behind keep this process from its end: {names}", file=sys.stderr)
        faulthandler.dump_traceback(sys.stderr)
        os._exit(status or 1)

    threading.Thread(target=watch, name="watches-the-exit", daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
