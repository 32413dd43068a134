"""A thread that runs jobs one after another; the first job starts it."""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class OneThread:
    """Runs jobs in one thread. Jobs must not raise. Only the event loop's thread calls its methods."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, job: Callable[[], None]) -> None:
        """Queues a job behind the earlier ones; after `close` runs the job at once, in the caller's
        thread."""
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
        """Takes no more jobs, and waits until the queued ones are done, or for `wait_s` seconds."""
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(wait_s)
