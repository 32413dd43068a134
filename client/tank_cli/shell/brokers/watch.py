"""Warns the user when a command waits because no broker answers or none can store, and says when it
continues.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tank_cli.shell.connect import unreachable
from tank_cli.shell.output import note, warn
from tank_client.model import parse_servers

SILENCE_S = 5.0
"""How long a silence is normal, from an idle topic or a busy disk."""
LOOK_EVERY_S = 1.0


class BrokerWatch(threading.Thread):
    """For `with`. The command calls `alive` at every answer, and `waits` to say whether it waits for the
    broker.

    After `SILENCE_S` of silence it tries whether the servers take a connection, and asks `why` for other
    causes; it warns once, and reports once when the silence is over.
    """

    def __init__(self, servers: str) -> None:
        super().__init__(name="broker-watch", daemon=True)
        self._servers = parse_servers(servers)
        self._ended = threading.Event()
        self._last = time.monotonic()
        self._waiting = True
        self._told = False
        self.why: Callable[[], BaseException | None] = lambda: None
        """Returns what keeps a broker that answers from doing the work; None: nothing is known."""

    def alive(self) -> None:
        """The broker has answered. Any thread may call it."""
        self._last = time.monotonic()

    def waits(self, waiting: bool) -> None:
        """Notes whether the command waits for the broker."""
        self._waiting = waiting

    def run(self) -> None:
        """Runs the watch, in its thread."""
        while not self._ended.wait(LOOK_EVERY_S):
            if self._told or (self._waiting and time.monotonic() - self._last >= SILENCE_S):
                self.look()

    def look(self) -> None:
        """Tries the servers, and says what changed."""
        reasons = unreachable(self._servers, LOOK_EVERY_S)
        trouble = None if reasons else self.why()
        if reasons and not self._told:
            warn(f"no broker answers ({reasons}); the command tries again until one does, Ctrl-C ends it.")
        elif trouble is not None and not self._told:
            warn(f"nothing is stored now ({trouble}); the command tries again, Ctrl-C ends it.")
        elif self._told and not reasons and trouble is None:
            note("The broker answers again.")
        self._told = bool(reasons) or trouble is not None
        self.alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
