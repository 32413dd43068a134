"""The disk of the Raft driver, and the thread that waits for it, one piece of work at a time."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from tank_controller.raft.messages import HardState, LogEntry, Snapshot
from tank_controller.raft_node.replay import StorageFullError

_log = logging.getLogger("tank.raft")


class Storage(Protocol):
    """The durable part of the Raft log; RaftStorage implements it."""

    def persist(
        self, hard: HardState | None, snapshot: Snapshot | None, entries: Sequence[LogEntry]
    ) -> None: ...

    def save_snapshot(self, snapshot: Snapshot) -> None: ...

    @property
    def snapshot_due(self) -> bool: ...

    def close(self, commit: int = 0) -> None: ...


class DiskWorker(Protocol):
    """Does work that waits for the disk, one piece after the other."""

    def run(self, work: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        """Does `work` on another thread, then calls `then` on the loop's thread, never before this call
        returns.
        """

    def close(self) -> None: ...


class DiskThread:
    """A thread that waits for the disk."""

    def __init__(self, post: Callable[[Callable[[], None]], object]) -> None:
        """`post` runs a call on the loop's thread: `loop.call_soon_threadsafe`."""
        self._post = post
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="raft")

    def run(self, work: Callable[[], None], then: Callable[[Exception | None], None]) -> None:
        """As DiskWorker.run."""

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
    """The disk's present work: one piece at a time. While the disk is full, the piece is tried again at each
    tick.
    """

    def __init__(self, disk: DiskWorker, on_full: Callable[[str], None]) -> None:
        """`on_full` is called at each attempt that found no room."""
        self.busy = False
        """Whether a piece of work is under way, or waits for room: nothing else may begin."""
        self.full: str | None = None
        """Why nothing can be written at the moment; None while there is room."""
        self.busy_ticks = 0
        """For how many ticks the same piece has been under way."""
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
        """Does the work, then calls `then` on the loop's thread, where the disk is free again.

        `waits_for_room`: on a full disk the work stays under way until there is room.
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
        """Lets one tick pass; tries work again that waits for room."""
        if self.busy:
            self.busy_ticks += 1
        if self._retry is not None:
            retry, self._retry = self._retry, None
            retry()

    @property
    def waits_for_room(self) -> bool:
        """Whether the work under way waits for room, and is tried again at the next tick."""
        return self._retry is not None

    def forget_what_waits_for_room(self) -> None:
        """Gives up work that waits for room: nothing of it was stored. The disk is free for other work."""
        assert self.waits_for_room
        self._retry = None
        self.busy, self.busy_ticks = False, 0

    def close(self) -> None:
        """Takes no more work."""
        self._disk.close()
