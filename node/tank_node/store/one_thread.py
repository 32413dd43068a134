"""A thread that does one job after another, begun with the first of them."""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class OneThread:
    """Jobs must not raise. Used from the event loop's thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, job: Callable[[], None]) -> None:
        """Does it behind all that was put before; after `close` at once, in the caller's thread."""
        if self._closed:
            job()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(job)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job()

    def close(self, wait_s: float | None = None) -> None:
        """Waits until all is done, or for so long."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(wait_s)
