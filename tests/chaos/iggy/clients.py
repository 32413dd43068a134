"""The program of Iggy's client as a part of the load: processes that are started, listened to, and ended."""

import json
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.chaos.client_thread import ClientThread
from tests.chaos.iggy.stream import PLACED
from tests.chaos.members import tied_to_us
from tests.chaos.record import Recorder

MADE_S: Final = 150.0
_WORDS: Final = 2000


class NotMadeError(Exception):
    """The stream and its topic could not be made; the message says why."""


@dataclass(slots=True, frozen=True)
class IggyProgramAccess:
    """How Iggy's client gets to the brokers. Its user is in the environment, IGGY_ROOT."""

    servers: str
    """HOST:PORT of brokers, with commas between."""
    python: str
    """The interpreter that has its package."""

    def command(self, role: str, recorder: Recorder, rate: float, seed: int) -> list[str]:
        """What runs this role of the program."""
        command = [*tied_to_us(), self.python, "-m", "tests.chaos.iggy.program", role]
        command += ["--servers", self.servers, "--record", str(recorder.path)]
        return [*command, "--rate", str(rate), "--seed", str(seed)]

    def make(self, recorder: Recorder) -> None:
        """Makes the stream and its topic. Waits until the cluster has its root user. NotMadeError."""
        try:
            done = subprocess.run(
                self.command("make", recorder, 1.0, 1),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=MADE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotMadeError(f"not made after {MADE_S:.0f} s") from None
        if done.returncode:
            raise NotMadeError(f"exit code {done.returncode}: {done.stderr[-_WORDS:]}")


class IggyProgram(ClientThread):
    """A role of the program: at work until `ends` is set, and then until it is through."""

    def __init__(
        self,
        role: str,
        access: IggyProgramAccess,
        recorder: Recorder,
        rate: float,
        seed: int,
        ends: threading.Event | None = None,
    ) -> None:
        """`ends`: None: it is stopped as a producer is."""
        super().__init__(f"iggy-{role}", (PLACED, 0), recorder)
        self.healed: Counter[str] = Counter()
        """Errors that its library gave it, and that went when it did the same again."""
        self._command = access.command(role, recorder, rate, seed)
        self._ends = self.stopping if ends is None else ends
        self._process: subprocess.Popen[str] | None = None

    def work(self) -> None:
        words = self.recorder.path.with_suffix(".err")
        with open(words, "w") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self.count, self.healed = said["count"], Counter(said["healed"])
            if self._ends.is_set():
                self._process.stdin.close()
        code = self._process.wait()
        assert code == 0, f"exit code {code}: {words.read_text()[-_WORDS:]}"

    def leave(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
