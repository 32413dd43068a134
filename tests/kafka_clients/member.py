"""A member of a group: a stock library's program in a process of its own."""

import json
import subprocess
import time
from collections.abc import Callable
from threading import Thread
from typing import Any, Final, Self

from tests.support.patience import patient

WAIT_S: Final = patient(60.0)
"""The longest that members may take to agree, or to read: a session of 10 s, and Java's start on a busy
machine."""
END_S: Final = patient(20.0)
_LOOK_S: Final = 0.05


class Member:
    """A member of a group. What it says is read by a thread."""

    def __init__(self, command: list[str]) -> None:
        self.assigned: list[int] = []
        """Its partitions."""
        self.changes = 0
        """How often it has said that they changed."""
        self.read: list[tuple[int, int]] = []
        """Partition and offset of each record, as they came."""
        self.committed: list[tuple[float, dict[int, int]]] = []
        """Each commit that was acknowledged: when it said so, by the monotonic clock, and the next offset by
        partition."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said = ""
        self._threads = [Thread(target=each, daemon=True) for each in (self._listen, self._complaints)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: list[Any] = json.loads(line)
            if event[0] == "assigned":
                self.assigned = sorted(event[1])
                self.changes += 1
            elif event[0] == "committed":
                self.committed.append((time.monotonic(), dict(event[1])))
            else:
                self.read.append((event[1], event[2]))

    def _complaints(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = (self._said + line)[-300:]

    def check(self) -> None:
        """Raises RuntimeError if the program has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"a member has ended with {self._process.returncode}: {self._said.strip()}")

    def leave(self) -> None:
        """Ends the program's input: it commits, and leaves the group. Raises RuntimeError."""
        self.check()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"a member has not left the group after {END_S:.0f} s") from None
        if code:
            raise RuntimeError(f"a member has left with {code}: {self._said.strip()}")
        for thread in self._threads:
            thread.join(END_S)

    def kill(self) -> None:
        """Ends the process at once, if it runs."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def until(members: list[Member], true: Callable[[], bool]) -> None:
    """Waits for this. Raises RuntimeError when it takes too long, or a member ends."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        for member in members:
            member.check()
        if time.monotonic() > deadline:
            told = [(member.assigned, len(member.read)) for member in members]
            raise RuntimeError(f"after {WAIT_S:.0f} s the members have (partitions, records read) {told}")
        time.sleep(_LOOK_S)
