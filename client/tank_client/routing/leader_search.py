"""Partitions without a known leader: one broker after the other is asked, until one names a leader."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from tank_client.model import Address, Route
from tank_client.routing.backoff import soon_ms
from tank_client.routing.pool import Pool

Found = Callable[[Collection[Route]], None]
"""Called with partitions that have another leader now, or whose search has ended."""

_SEEK_S = 5.0
"""How long a search lasts; after it, requests try to find the leader themselves, or fail."""
_FORGIVE_EVERY = 10
"""After so many questions (some tenths of a second), a leader that refused a connection is tried again."""
_PAUSES = 4
"""The pause is this many times as long as a question takes, so that slow ones, about thousands of partitions,
are rare.
"""


class LeaderSearch:
    """The searches of one client, with one task for each topic."""

    def __init__(
        self,
        pool: Pool,
        ask: Callable[[str, Address], Awaitable[bool]],
        tell: Found,
        random: Callable[[], float],
    ) -> None:
        """`ask` asks a broker about a topic and returns whether it answered. `tell` gets the partitions whose
        search has ended, with a leader or without."""
        self._pool = pool
        self._ask = ask
        self._tell = tell
        self._random = random
        self._routes: dict[str, dict[Route, asyncio.Future[None]]] = {}
        """Futures by topic and partition; each is done when the partition's search has ended. Invariant: each
        topic in here has a task.
        """
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, route: Route) -> bool:
        return route in self._routes.get(route[0], ())

    def begin(self, route: Route, at: Address) -> asyncio.Future[None]:
        """Begins to seek this partition's leader, and asks that broker first. The future is done when the
        search has ended.
        """
        topic, loop = route[0], asyncio.get_running_loop()
        sought = self._routes.setdefault(topic, {})
        if route not in sought:
            sought[route] = loop.create_future()
        if topic not in self._tasks:
            task = self._tasks[topic] = loop.create_task(self._seek(topic, at))
            task.add_done_callback(lambda done: self._ended(topic, done))
        return sought[route]

    def found(self, route: Route) -> bool:
        """Notes that the partition's leader is known; returns whether it was sought."""
        sought = self._routes.get(route[0], {}).pop(route, None)
        if sought is None:
            return False
        _finish(sought)
        return True

    def end(self) -> None:
        """Ends all searches."""
        for task in self._tasks.values():
            task.cancel()

    async def _seek(self, topic: str, at: Address) -> None:
        loop = asyncio.get_running_loop()
        routes, sought = self._pool.routes, self._routes[topic]
        deadline = loop.time() + _SEEK_S
        questions = silent = pauses = 0
        while True:
            asked = loop.time()
            told = await self._ask(topic, at)
            questions += 1
            silent = 0 if told else silent + 1
            if not sought or loop.time() >= deadline or silent >= 2 * len(routes.known_servers):
                return
            if questions % _FORGIVE_EVERY == 0:
                for route in sought:
                    routes.forgive(route)
            # A stopped broker refuses at once: the next one is asked without a pause, until all were asked.
            if told or silent % len(routes.known_servers) == 0:
                pauses += 1
                pause_s = soon_ms(pauses, self._pool.settings.backoff_min_ms, self._random) / 1000
                await asyncio.sleep(max(pause_s, _PAUSES * (loop.time() - asked) if told else 0))
            at = routes.other(at)

    def _ended(self, topic: str, task: asyncio.Task[None]) -> None:
        del self._tasks[topic]
        left = self._routes.pop(topic)
        for sought in left.values():
            _finish(sought)
        if task.cancelled():
            return
        self._tell(left.keys())
        if (error := task.exception()) is not None:
            raise error  # a bug of this client: the loop reports it


def _finish(sought: asyncio.Future[None]) -> None:
    if not sought.done():  # the caller may have cancelled it
        sought.set_result(None)
