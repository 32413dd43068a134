"""An asyncio loop that calls the server's ticks from its selector: one system call waits for everything.

The selector waits on the server's epoll, in which asyncio's own epoll is one more descriptor. Ticks follow
each other without a turn of asyncio until asyncio has an event or a callback. On any other loop the server
registers its epoll as a reader, which costs a second wait and a callback per tick.
"""

import asyncio
import logging
import select
import selectors
import time
from collections.abc import Callable
from contextvars import Context
from typing import TypeAlias, TypeVarTuple

logger = logging.getLogger(__name__)

Ts = TypeVarTuple("Ts")

Events: TypeAlias = list[tuple[int, int]]
"""What `epoll.poll` returns: descriptors with their events."""


class TickSelector(selectors.EpollSelector):
    """The selector of a `TickLoop`. It gives the events of `epoll` to `tick`, which returns whether some of
    them are asyncio's."""

    def __init__(self) -> None:
        super().__init__()
        self.epoll = select.epoll()
        self.epoll.register(self.fileno(), select.EPOLLIN)
        self.tick: Callable[[Events], bool] = _all_foreign
        self.most_events = 1
        self.asked = False
        """Whether a callback was scheduled since `select` began: `select` returns, so that asyncio runs
        it."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Runs ticks until asyncio has something to do: a descriptor of its own is ready, a callback was
        scheduled, or `timeout` seconds are over. Returns asyncio's ready descriptors."""
        self.asked = False
        until = None if timeout is None else time.monotonic() + timeout
        while events := self.epoll.poll(timeout, self.most_events):
            try:
                foreign = self.tick(events)
            except Exception:
                logger.exception(
                    "a bug of ours: a tick failed; the server goes on with the next one, please report it"
                )
                foreign = True
            if foreign:
                return super().select(0)
            if self.asked:
                break
            if until is not None:
                timeout = until - time.monotonic()
                if timeout <= 0:
                    break
        return []

    def stop(self) -> None:
        """Calls no more ticks: the server has closed all its sockets."""
        self.tick = _all_foreign

    def close(self) -> None:
        self.epoll.close()
        super().close()


class TickLoop(asyncio.SelectorEventLoop):
    """The loop of a node's process."""

    def __init__(self) -> None:
        self.ticks = TickSelector()
        super().__init__(self.ticks)

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """As in asyncio."""
        self.ticks.asked = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio, whose `call_later` calls it too."""
        self.ticks.asked = True
        return super().call_at(when, callback, *args, context=context)


def _all_foreign(events: Events) -> bool:
    """The tick while no server runs: all events are asyncio's."""
    return True
