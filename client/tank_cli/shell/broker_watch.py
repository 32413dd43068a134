"""Tells a person when a command only waits because the broker has gone, or can't store what it is given; and
when it goes on."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tank_cli.shell.connect import unreachable
from tank_cli.shell.output import note, warn
from tank_client.model import parse_servers

SILENCE_S = 5.0
"""So long nothing need come, from an idle topic or a busy disk, before anybody asks why."""
LOOK_EVERY_S = 1.0


class BrokerWatch(threading.Thread):
    """For `with`. The work calls `alive` whenever something came, and `waits` to say whether it waits at all.

    After `SILENCE_S` of silence it tries whether the servers take a connection at all, and asks `why` what
    else is wrong; it says so once, and once more when it is over.
    """

    def __init__(self, servers: str) -> None:
        super().__init__(name="broker-watch", daemon=True)
        self._servers = parse_servers(servers)
        self._ended = threading.Event()
        self._last = time.monotonic()
        self._waiting = True
        self._told = False
        self.why: Callable[[], BaseException | None] = lambda: None
        """What keeps the broker, which is there, from doing the work; None: nothing that is known."""

    def alive(self) -> None:
        """Something came from the broker. Any thread may say so."""
        self._last = time.monotonic()

    def waits(self, waiting: bool) -> None:
        """Whether the work waits for the broker at all."""
        self._waiting = waiting

    def run(self) -> None:
        """The thread's work."""
        while not self._ended.wait(LOOK_EVERY_S):
            if self._told or (self._waiting and time.monotonic() - self._last >= SILENCE_S):
                self.look()

    def look(self) -> None:
        """Tries the servers, and says what changed."""
        reasons = unreachable(self._servers, LOOK_EVERY_S)
        trouble = None if reasons else self.why()
        if reasons and not self._told:
            warn(f"no broker answers ({reasons}); it is tried again until one does, Ctrl-C ends it.")
        elif trouble is not None and not self._told:
            warn(f"nothing is stored now ({trouble}); it is tried again, Ctrl-C ends it.")
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
