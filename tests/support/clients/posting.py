"""An event loop that runs only when told."""

import queue
from collections.abc import Callable

from tests.support.patience import patient


class Posting:
    """Where threads post to: `run_one` runs what was posted when the test says so."""

    def __init__(self) -> None:
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def post(self, call: Callable[[], None]) -> None:
        self._posted.put(call)

    def run_one(self) -> None:
        self._posted.get(timeout=patient(10))()
