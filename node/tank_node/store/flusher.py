"""Group commit: fsyncs for many logs in threads, so that one fsync serves everybody who waits for it.

`request` is called on the event loop as often as one likes. At most one round per log is under way; what is
asked for meanwhile goes into the next one, so the busier the disk the more appends share an fsync. A few logs
are synced in parallel, because one after another they would wait for each other's journal commits; many by
one `syncfs`.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from tank_node.disk import Disk
from tank_node.log.flush_work import TOGETHER_FROM, FlushWork, run_together
from tank_node.log.log import PartitionLog
from tank_node.store.one_thread import OneThread

Post: TypeAlias = Callable[[Callable[[], None]], None]
Listener: TypeAlias = Callable[[PartitionLog], None]

THREADS = 8
"""Measured with 64 partitions: beyond 8 threads the disk is no faster, and each costs switches of the
interpreter."""
REMOVAL_S = 1.0
"""So long a stop waits for a folder that is being removed: the next start removes what is left of it, and a
large one may take minutes, in which whoever stops the process loses patience."""


class Flusher:
    """Syncs logs in threads and tells the loop.

    post: runs a function on the event loop soon; called from any thread. listener: called on the loop after a
    log's round ended, well or not (`log.synced`, `log.state` say how). observe: gets each round's seconds.
    clock: seconds that only grow, read in any thread.
    """

    def __init__(
        self,
        disk: Disk,
        post: Post,
        listener: Listener | None = None,
        *,
        observe: Callable[[float], None] | None = None,
        threads: int = THREADS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.listener = listener
        self.observe = observe
        self._disk = disk
        self._post = post
        self._limit = threads
        self._clock = clock
        self._threads: list[threading.Thread] = []
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = 0
        """Threads that wait for work, less the work that waits for a thread. Loop's side only."""
        self._again: set[PartitionLog] = set()
        """Logs that were asked for while their round was under way."""
        self._since: dict[PartitionLog, float] = {}
        """When each round that has not ended was asked for, the oldest first. Loop's side only."""
        self._done: deque[Callable[[], None]] = deque()
        self._posted = False
        self._lock = threading.Lock()
        """Holds `_done` and `_posted` together, and whoever takes works alone."""
        self._works: deque[FlushWork] = deque()
        """Asked for, and not begun by a thread."""
        self._closed = False
        self._long = OneThread("disk-long")
        self._removal = OneThread("disk-removal")
        """What frees blocks: as long as a file is large. No fsync and no compaction waits behind it."""
        self._cancels: deque[Callable[[], None]] = deque()
        """Of long work that has not ended, oldest first."""

    def request(self, log: PartitionLog, through: int) -> None:
        """Asks that everything up to `through` be made durable; the listener hears of it."""
        if log.synced >= through and not log.folder_dirty:
            return
        if log.flushing is not None:
            self._again.add(log)
            return
        work = log.begin_flush()
        if work is None:
            return
        self._since[log] = self._clock()
        if work.error is not None:  # never told within the call: whoever asks is in the middle of something
            self._idle -= 1  # no thread has it
            self._tell(partial(self._finish_all, [work], 0.0))
            return
        self._works.append(work)
        self._submit(self._sync)

    def oldest_s(self) -> float:
        """How many seconds ago the oldest round that has not ended was asked for; 0 without one. It grows
        without end while the disk hangs, of which `observe` never hears."""
        return self._clock() - next(iter(self._since.values())) if self._since else 0.0

    def waited_s(self, log: PartitionLog) -> float:
        """The same of one log."""
        return self._clock() - self._since[log] if log in self._since else 0.0

    def run(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Does other short work of the disk in a thread (a checkpoint), then `done` on the loop.

        The job must not raise.
        """

        def work() -> None:
            job()
            self._tell(done)

        self._submit(work)

    def close_file(self, fd: int) -> None:
        """Closes a descriptor that nobody needs any more, in a thread: of a deleted file it takes as long as
        it is large."""

        def close() -> None:
            with contextlib.suppress(OSError):  # nobody reads it again
                self._disk.close(fd)

        self._remove(close)

    def remove(self, job: Callable[[], None]) -> None:
        """Does what removes files, in the same thread. The job must not raise; at `close` what has not begun
        is left to the next start."""
        self._remove(lambda: None if self._closed else job())

    def _remove(self, job: Callable[[], None]) -> None:
        self._removal.put(job)

    def run_long(self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]) -> None:
        """Does long work (a compaction) in a thread of its own, one after another: no fsync waits behind it.

        The job must not raise. cancel: called on the loop at `close`, may raise OSError: the job then ends
        soon; `done` is called all the same.
        """
        assert not self._closed, "the flusher is closed"

        def ended() -> None:
            self._idle -= 1  # it was none of the other threads
            self._cancels.popleft()
            done()

        def work() -> None:
            job()
            self._tell(ended)

        self._cancels.append(cancel)
        self._long.put(work)

    def _submit(self, job: Callable[[], None]) -> None:
        assert not self._closed, "the flusher is closed"
        self._idle -= 1
        if self._idle < 0 and len(self._threads) < self._limit:
            thread = threading.Thread(target=self._work, name=f"disk-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            self._idle += 1
            thread.start()
        self._queue.put(job)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job()

    def _sync(self) -> None:
        """In a thread: the oldest work, or all of them when they are many."""
        with self._lock:
            works = [
                self._works.popleft()
                for _ in range(len(self._works) if len(self._works) >= TOGETHER_FROM else 1)
                if self._works
            ]
        if not works:  # another thread took it along
            self._tell(_nothing)
            return
        began = self._clock()
        run_together(self._disk, works)
        self._tell(partial(self._finish_all, works, self._clock() - began))

    def _tell(self, done: Callable[[], None]) -> None:
        with self._lock:
            self._done.append(done)
            if self._posted:
                return
            self._posted = True
        self._post(self._drain)

    def _drain(self) -> None:
        """On the loop: all rounds that ended since the last time, with one wake-up."""
        with self._lock:
            ended, self._done = self._done, deque()
            self._posted = False
        for done in ended:
            self._idle += 1
            done()

    def _finish_all(self, works: list[FlushWork], seconds: float) -> None:
        for work in works:
            self._finish(work, seconds)

    def _finish(self, work: FlushWork, seconds: float) -> None:
        log = work.log
        log.end_flush(work)
        del self._since[log]
        if self.observe is not None and seconds:
            self.observe(seconds)
        if log in self._again:
            self._again.discard(log)
            self.request(log, log.written)
        if self.listener is not None:
            self.listener(log)

    def close(self) -> None:
        """Waits for what is under way, but removals, and ends the threads; the last listeners are called from
        here."""
        for _ in self._threads:
            self._queue.put(None)
        self._closed = True
        for cancel in self._cancels:
            with contextlib.suppress(OSError):  # the next start ends what it finds
                cancel()
        self._long.close()
        self._removal.close(REMOVAL_S)
        for thread in self._threads:
            thread.join()
        self._again.clear()
        self._drain()
        self._threads.clear()


def _nothing() -> None:
    """Nothing is left to do."""
