"""An asyncio loop that runs ticks by itself: one system call waits for clients and for everything else.

The sockets of clients hang on an epoll of their own, which this loop waits on; whatever asyncio watches hangs
behind it, as one more descriptor. A tick is called right where its events arrive, without a callback of
asyncio between, and ticks follow each other without a turn of asyncio as long as nobody asks it for one: a
turn costs as much as a small tick. On any other loop `TankServer` has its epoll watched, which costs a second
wait and a callback per tick.
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
"""Of epoll: descriptors, and what they are ready for."""


class TickSelector(selectors.EpollSelector):
    """What asyncio waits with. `tick` gets the events of `epoll` first, and says whether some were not its
    own."""

    def __init__(self) -> None:
        super().__init__()
        self.epoll = select.epoll()
        self.epoll.register(self.fileno(), select.EPOLLIN)
        self.tick: Callable[[Events], bool] = _all_foreign
        self.most_events = 1
        self.asked = False
        """Somebody asked the loop for a call: it gets its turn."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As asyncio wants it: returns when something that asyncio watches is ready, after `timeout`
        seconds, and when the loop was asked for something."""
        self.asked = False
        until = None if timeout is None else time.monotonic() + timeout
        while events := self.epoll.poll(timeout, self.most_events):
            try:
                foreign = self.tick(events)
            except Exception:
                logger.exception("a tick failed by a bug of ours; the next one comes")
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
        """No more ticks: the server is gone, with all its sockets."""
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
        """As asyncio's."""
        self.ticks.asked = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As asyncio's; `call_later` comes here too."""
        self.ticks.asked = True
        return super().call_at(when, callback, *args, context=context)


def _all_foreign(events: Events) -> bool:
    """Before a server is there: everything is asyncio's."""
    return True
