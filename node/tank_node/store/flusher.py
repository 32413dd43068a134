"""Group commit: fsyncs of many logs in threads, each for all appends that wait for it.

At most one round (the fsyncs of one log) is under way per log; appends that come meanwhile share the next
round. A few logs are synced in parallel, because one after another each would wait for the file system's
journal; many logs by one `syncfs`.
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
"""The most threads for fsyncs. With 64 partitions more threads made the disk no faster, and cost switches of
the interpreter."""
REMOVAL_S = 1.0
"""How long a stop waits for the removal of folders. A large one may take minutes; the next start removes what
is left."""


class Flusher:
    """Syncs logs in threads, and calls a listener on the event loop.

    post: runs a function on the event loop soon; called from any thread. listener: called on the loop when a
    log's round has ended or failed (see `log.synced` and `log.state`). observe: called with each round's
    seconds. clock: monotonic seconds, read in any thread.
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
        """Idle threads less queued jobs. Only the event loop's thread uses it."""
        self._again: set[PartitionLog] = set()
        """Logs that need another round, requested while one was under way."""
        self._since: dict[PartitionLog, float] = {}
        """When each round under way was requested, the oldest first. Only the event loop's thread uses it."""
        self._done: deque[Callable[[], None]] = deque()
        self._posted = False
        self._lock = threading.Lock()
        """Guards `_done`, `_posted` and `_works`."""
        self._works: deque[tuple[PartitionLog, FlushWork]] = deque()
        """Rounds that no thread has begun."""
        self.closed = False
        """Whether `close` was called, after which no more work is taken."""
        self._long = OneThread("disk-long")
        self._removal = OneThread("disk-removal")
        """Frees the blocks of deleted files, which takes long for large ones: its own thread, so that no
        fsync and no compaction waits."""
        self._cancels: deque[Callable[[], None]] = deque()
        """The `cancel` of each long job under way, the oldest first."""

    def request(self, log: PartitionLog, through: int) -> None:
        """Requests that a log be made durable up to `through`; the listener is called afterwards. Cheap to
        call often."""
        if log.synced >= through and not log.segments.folder_dirty:
            return
        if log.flushing is not None:
            self._again.add(log)
            return
        work = log.begin_flush()
        if work is None:
            return
        self._since[log] = self._clock()
        if work.error is not None:  # the listener is called later: the caller is in the middle of something
            self._idle -= 1  # `_drain` adds one, though no thread ran this
            self._tell(partial(self._finish_all, [(log, work)], 0.0))
            return
        self._works.append((log, work))
        self._submit(self._sync)

    def oldest_s(self) -> float:
        """The age in seconds of the oldest round under way; 0 without one. It shows a disk that hangs, whose
        rounds `observe` never gets."""
        return self._clock() - next(iter(self._since.values())) if self._since else 0.0

    def waited_s(self, log: PartitionLog) -> float:
        """The age in seconds of a log's round under way; 0 without one."""
        return self._clock() - self._since[log] if log in self._since else 0.0

    def run(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Runs a short job of the disk (a checkpoint) in a thread, then `done` on the loop. The job must not
        raise."""

        def work() -> None:
            job()
            self._tell(done)

        self._submit(work)

    def close_file(self, fd: int) -> None:
        """Closes the descriptor of a deleted file in a thread, because the system frees the file's blocks
        then."""

        def close() -> None:
            with contextlib.suppress(OSError):  # the file is deleted: an error changes nothing
                self._disk.close(fd)

        self._remove(close)

    def remove(self, job: Callable[[], None]) -> None:
        """Runs a job that removes files, in the same thread as `close_file`. The job must not raise. Jobs
        that have not begun at `close` are left to the next start."""
        self._remove(lambda: None if self.closed else job())

    def _remove(self, job: Callable[[], None]) -> None:
        self._removal.put(job)

    def run_long(self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]) -> None:
        """Runs a long job (a compaction) in a thread for such jobs, one after another, then `done` on the
        loop.

        The job must not raise. cancel: called on the loop at `close`, makes the job end soon; may raise
        OSError.
        """
        assert not self.closed, "the flusher is closed"

        def ended() -> None:
            self._idle -= 1  # `_drain` adds one, but this thread is not one of `_threads`
            self._cancels.popleft()
            done()

        def work() -> None:
            job()
            self._tell(ended)

        self._cancels.append(cancel)
        self._long.put(work)

    def _submit(self, job: Callable[[], None]) -> None:
        assert not self.closed, "the flusher is closed"
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
        """Runs in a thread: syncs the oldest log that waits, or all together when there are many."""
        with self._lock:
            works = [
                self._works.popleft()
                for _ in range(len(self._works) if len(self._works) >= TOGETHER_FROM else 1)
                if self._works
            ]
        if not works:  # another thread has synced them all together
            self._tell(_nothing)
            return
        began = self._clock()
        run_together(self._disk, [work for _, work in works])
        self._tell(partial(self._finish_all, works, self._clock() - began))

    def _tell(self, done: Callable[[], None]) -> None:
        with self._lock:
            self._done.append(done)
            if self._posted:
                return
            self._posted = True
        self._post(self._drain)

    def _drain(self) -> None:
        """Runs on the loop: finishes all rounds that ended since the last call, with one wake-up."""
        with self._lock:
            ended, self._done = self._done, deque()
            self._posted = False
        for done in ended:
            self._idle += 1
            done()

    def _finish_all(self, works: list[tuple[PartitionLog, FlushWork]], seconds: float) -> None:
        for log, work in works:
            self._finish(log, work, seconds)

    def _finish(self, log: PartitionLog, work: FlushWork, seconds: float) -> None:
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
        """Waits for all work but removals, ends the threads, and calls the last listeners."""
        for _ in self._threads:
            self._queue.put(None)
        self.closed = True
        for cancel in self._cancels:
            with contextlib.suppress(OSError):  # the next start cleans up
                cancel()
        self._long.close()
        self._removal.close(REMOVAL_S)
        for thread in self._threads:
            thread.join()
        self._again.clear()
        self._drain()
        self._threads.clear()


def _nothing() -> None:
    """Does nothing: only `_drain`'s count of idle threads changes."""
