"""Tells a person when a command only waits because the broker has gone, and when it is back."""

import threading
import time
from types import TracebackType
from typing import Self

from tank_cli.connect import unreachable
from tank_cli.output import note, warn
from tank_client.model import parse_servers

SILENCE_S = 5.0
"""So long nothing need come, from an idle topic or a busy disk, before anybody asks why."""
LOOK_EVERY_S = 1.0


class BrokerWatch(threading.Thread):
    """For `with`. The work calls `alive` whenever something came, and `waits` to say whether it waits at all.

    After `SILENCE_S` of silence it tries whether the servers take a connection at all, and says it when they
    don't.
    """

    def __init__(self, servers: str) -> None:
        super().__init__(name="broker-watch", daemon=True)
        self._servers = parse_servers(servers)
        self._ended = threading.Event()
        self._last = time.monotonic()
        self._waiting = True
        self._gone = False

    def alive(self) -> None:
        """Something came from the broker. Any thread may say so."""
        self._last = time.monotonic()

    def waits(self, waiting: bool) -> None:
        """Whether the work waits for the broker at all."""
        self._waiting = waiting

    def run(self) -> None:
        """The thread's work."""
        while not self._ended.wait(LOOK_EVERY_S):
            if self._gone or (self._waiting and time.monotonic() - self._last >= SILENCE_S):
                self.look()

    def look(self) -> None:
        """Tries the servers, and says what changed."""
        reasons = unreachable(self._servers, LOOK_EVERY_S)
        if reasons and not self._gone:
            warn(f"no broker answers ({reasons}); it is tried again until one does, Ctrl-C ends it.")
        elif not reasons and self._gone:
            note("The broker answers again.")
        self._gone = bool(reasons)
        self.alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
