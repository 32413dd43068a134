"""The Raft driver's disk, and the thread of its own that waits for it, one piece of work at a time."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tank_controller.raft.messages import Entry, HardState, Snapshot
from tank_controller.raft_node.replay import StorageFullError

_log = logging.getLogger("tank.raft")


class Storage(Protocol):
    """As RaftStorage has it."""

    def persist(
        self, hard: HardState | None, snapshot: Snapshot | None, entries: Sequence[Entry]
    ) -> None: ...

    def save_snapshot(self, snapshot: Snapshot) -> None: ...

    @property
    def snapshot_due(self) -> bool: ...

    def close(self, commit: int = 0) -> None: ...


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


class DiskWork:
    """What the disk has to do now: one thing at a time, tried again while there is no room for it."""

    def __init__(self, disk: Disk, on_full: Callable[[str], None]) -> None:
        """`on_full` is told at each try that found no room."""
        self.busy = False
        """Something is under way, be it that it waits for room: nothing else may begin."""
        self.full: str | None = None
        """Why nothing can be written at the moment; tried again at each tick."""
        self.busy_ticks = 0
        """For how many ticks the same thing has been under way."""
        self._disk = disk
        self._on_full = on_full
        self._retry: Callable[[], None] | None = None

    def run(
        self,
        work: Callable[[], None],
        then: Callable[[Exception | None], None],
        *,
        waits_for_room: bool = False,
    ) -> None:
        """Does the work, then the rest on the loop's thread, where the disk is free again.

        `waits_for_room`: a full disk is no outcome; the work stays under way until it is done.
        """

        def after(error: Exception | None) -> None:
            if waits_for_room and isinstance(error, StorageFullError):
                if self.full is None:
                    _log.error("%s", error)
                self.full = str(error)
                self._retry = begin
                self._on_full(self.full)
                return
            self.busy, self.busy_ticks = False, 0
            self.full = None
            then(error)

        def begin() -> None:
            self._disk.run(work, after)

        assert not self.busy, "one thing at a time"
        self.busy = True
        begin()

    def tick(self) -> None:
        """Time passes."""
        if self.busy:
            self.busy_ticks += 1
        if self._retry is not None:
            retry, self._retry = self._retry, None
            retry()

    @property
    def waits_for_room(self) -> bool:
        """What is under way is tried again at the next tick."""
        return self._retry is not None

    def forget_what_waits_for_room(self) -> None:
        """Nothing came of it, and nothing will; the disk is free for something else."""
        assert self.waits_for_room
        self._retry = None
        self.busy, self.busy_ticks = False, 0

    def close(self) -> None:
        """Takes no more work."""
        self._disk.close()
