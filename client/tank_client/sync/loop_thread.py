"""One event loop on one background thread, for the synchronous client.

Why a thread and not sockets of its own: a producer's linger, retries and acknowledgements, and a consumer's
prefetch, have to go on while the program does something else, and so one engine serves both clients. The
thread belongs to one client: it starts with it, is a daemon, and ends in `stop` (close, or when the client is
garbage). A forked child has no such thread: there the client refuses to work and says so, instead of waiting
for ever.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from tank_client.errors import Closed, InvalidArgument, WrongProcess

T = TypeVar("T")
P = ParamSpec("P")


class LoopThread:
    """Runs coroutines for other threads."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="tank-client", daemon=True)
        self._thread.start()

    def run(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls `work` in the loop's thread, runs the coroutine that it makes, and returns its result; an
        exception that interrupts the wait cancels the coroutine. Raises Closed, WrongProcess.
        """
        self.check()
        call: _Call[T] = _Call(partial(work, *args, **kwargs))
        try:
            self.loop.call_soon_threadsafe(call.begin)
            return call.outcome.result()
        except BaseException:
            self.loop.call_soon_threadsafe(call.cancel)
            raise

    def post(self, call: Callable[[], object]) -> None:
        """Calls `call` in the loop's thread, soon."""
        if not self._stopped:
            self.loop.call_soon_threadsafe(call)

    @property
    def inside(self) -> bool:
        """Whether the caller is in the loop's thread, where no call may wait."""
        return threading.current_thread() is self._thread

    @property
    def forked(self) -> bool:
        """Whether this process was forked from the one that has the thread."""
        return os.getpid() != self._pid

    @property
    def alive(self) -> bool:
        """Whether the thread runs, in this process."""
        return not self._stopped and not self.forked

    def check(self) -> None:
        """Raises WrongProcess, Closed or InvalidArgument when the caller can't use the thread."""
        if self.forked:
            raise WrongProcess(
                "this client was made before a fork, in another process: "
                "make a new one in the process that uses it"
            )
        if self._stopped:
            raise Closed("the client is closed: make a new one")
        if self.inside:
            raise InvalidArgument(
                "a callback of the client may not wait for it: hand the work to another thread"
            )

    def stop(self) -> None:
        """Ends the loop and the thread. Does nothing when it was called before, or in a forked child."""
        if self._stopped or self.forked:
            return
        self._stopped = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.inside:
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


class _Call(Generic[T]):
    """A coroutine that another thread waits for. It is made in the loop's thread: Ctrl-C interrupts the main
    thread anywhere, and a coroutine that was made there and not handed over would be reported as never
    awaited."""

    __slots__ = ("_task", "_work", "outcome")

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        """None: it has not begun."""
        self.outcome: Future[T] = Future()

    def begin(self) -> None:
        try:
            self._task = asyncio.get_running_loop().create_task(self._work())
        except BaseException as error:  # arguments that don't fit: the caller's to see
            self.outcome.set_exception(error)
        else:
            self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.cancel()
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())
