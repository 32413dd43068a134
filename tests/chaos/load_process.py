"""The load as the run sees it: a process that is started, listened to, and ended."""

import json
import os
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.iggy.clients import IggyProgramAccess
from tests.chaos.iggy.stream import ROOT_VARIABLE
from tests.chaos.load import SETTLE_S
from tests.chaos.members import StuckError, until

GETS_ON = 10
"""So many values each client stores or sees when it gets on."""


@dataclass(slots=True, frozen=True)
class Progress:
    """What the load says of itself, by client and partition."""

    stored: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    """Errors of clients that no fault explains."""
    healed: dict[str, int] = field(default_factory=dict)
    """Errors that Iggy's client met, and that went when it did the same again: how often."""

    def total(self) -> int:
        """Values that were acknowledged."""
        return sum(self.stored.values())

    def standing_since(self, earlier: "Progress") -> list[str]:
        """Who has stored or seen next to nothing since then."""
        return [
            name
            for now, before in ((self.stored, earlier.stored), (self.seen, earlier.seen))
            for name, count in now.items()
            if count < before.get(name, 0) + GETS_ON
        ]


class LoadProcess:
    """`tests.chaos.load`."""

    def __init__(
        self,
        python: list[str],
        folder: Path,
        servers: str,
        rate: float,
        seed: int,
        old_clients: bool,
        kafka_servers: str = "",
        iggy: IggyProgramAccess | None = None,
        *,
        iggy_root: str = "",
        crossed: bool = False,
        groups: bool = True,
    ) -> None:
        """`python`: what its command begins with, here or on another machine. `folder`: where it writes down
        what it does; it makes that. `kafka_servers`: where Kafka's clients connect; empty: without any.
        `iggy`: how Iggy's client gets there; `iggy_root`: its user, NAME:PASSWORD, where our environment's
        is not it.
        `crossed`: clients of each protocol use topics of both formats. `groups`: consumers of a group share a
        topic, which takes clients and brokers of this version."""
        self.folder = folder
        self.progress = Progress()
        command = [*python, "-m", "tests.chaos.load", "--servers", servers]
        command += ["--folder", str(folder), "--rate", str(rate), "--seed", str(seed)]
        command += ["--old-clients"] if old_clients else []
        command += ["--kafka-servers", kafka_servers] if kafka_servers else []
        command += ["--iggy-servers", iggy.servers, "--iggy-python", iggy.python] if iggy else []
        command += ["--crossed"] if crossed else []
        command += [] if groups else ["--no-groups"]
        environment = {**os.environ, ROOT_VARIABLE: iggy_root} if iggy_root else None
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.progress = Progress(**json.loads(line))

    def await_all_get_on(self, patience_s: float) -> None:
        """Returns when every client got on in every partition from now on, or one met an error. StuckError
        names those that didn't."""
        old = self.progress
        until(lambda: self.progress is not old, "the clients' process says nothing", patience_s)
        since = self.progress
        try:
            until(
                lambda: bool(self.progress.broken) or not self.progress.standing_since(since), "", patience_s
            )
        except StuckError:
            standing = ", ".join(self.progress.standing_since(since))
            raise StuckError(f"nothing goes on for {patience_s:.0f} s: {standing}") from None

    def end(self) -> None:
        """Returns when all its clients are through. StuckError."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(2 * SETTLE_S)
        except subprocess.TimeoutExpired:
            raise StuckError("the clients don't come to an end") from None
        if code:
            raise StuckError(f"the clients ended with exit code {code}")
        self._hearing.join(5)

    def close(self) -> None:
        """When the run ends early."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
