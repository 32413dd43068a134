"""An asyncio loop that runs ticks by itself: one system call waits for clients and for everything else.

The sockets of clients hang on an epoll of their own, which this loop waits on; whatever asyncio watches hangs
behind it, as one more descriptor. A tick is called right where its events arrive, without a callback of
asyncio between. On any other loop `TankServer` has its epoll watched, which costs a second wait and a
callback per tick.
"""

import asyncio
import logging
import select
import selectors
from collections.abc import Callable
from typing import TypeAlias

logger = logging.getLogger(__name__)

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

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As asyncio wants it. After a tick it returns at once: the tick may have asked the loop for
        something."""
        events = self.epoll.poll(timeout, self.most_events)
        if not events:
            return []
        try:
            foreign = self.tick(events)
        except Exception:
            logger.exception("a tick failed by a bug of ours; the next one comes")
            foreign = True
        return super().select(0) if foreign else []

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


def _all_foreign(events: Events) -> bool:
    """Before a server is there: everything is asyncio's."""
    return True
