"""Where the Raft driver's work that waits for the disk is done: a thread of its own."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol


class Disk(Protocol):
    """Where work that waits for the disk is done, one after the other."""

    def run(self, work: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        """Does the work elsewhere, and the rest on the loop's thread; never before this returns."""

    def close(self) -> None: ...


class DiskThread:
    """A thread that waits for the disk."""

    def __init__(self, post: Callable[[Callable[[], None]], object]) -> None:
        """`post` runs a call on the loop's thread: `loop.call_soon_threadsafe`."""
        self._post = post
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="raft")

    def run(self, work: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        """As Disk says."""

        def in_thread() -> None:
            failure: Exception | None = None
            try:
                work()
            except Exception as error:
                failure = error
            self._post(lambda: then(failure))

        self._thread.submit(in_thread)

    def close(self) -> None:
        """Takes no more work."""
        self._thread.shutdown(wait=False)
