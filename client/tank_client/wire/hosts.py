"""Looks up brokers' names: at the name service, in its last answers, or at a broker while the service
fails.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from tank_protos.resolver import AWAY_LOOKUP_S, LOOKUP_S, HostAddress, Resolver, is_no_such_name, numeric

AskBroker = Callable[[], Awaitable[Mapping[str, Sequence[str]]]]
"""Asks a connected broker for the addresses of names that it knows; empty: no broker is connected, or it
knows none.
"""
_log = logging.getLogger("tank_client")


class Hosts:
    """The name lookups of one client. They run on its loop; `end` ends those in the background."""

    def __init__(self, resolver: Resolver, ask_broker: AskBroker) -> None:
        self._resolver = resolver
        self._ask_broker = ask_broker
        self._wanted: tuple[str, ...] = ()
        """Names to look up after the present ones."""
        self._learning: asyncio.Task[None] | None = None

    def learn(self, hosts: Iterable[str]) -> None:
        """Looks these names up in the background: a broker that metadata names may be connected to much
        later, perhaps while the name service fails.
        """
        self._wanted = tuple(host for host in dict.fromkeys(hosts) if numeric(host) is None)
        if self._wanted and (self._learning is None or self._learning.done()):
            self._learning = asyncio.get_running_loop().create_task(self._learn())

    async def _learn(self) -> None:
        while self._wanted:
            names, self._wanted = self._wanted, ()
            await self._resolver.learn(names)

    async def resolve(self, host: str) -> Sequence[HostAddress]:
        """Returns the host's addresses, at least one. Raises OSError when there is no such name, or neither
        the name service nor a broker knows it."""
        lookup = asyncio.ensure_future(self._resolver.resolve(host))
        try:
            # A resolver with last addresses returns them within this time.
            await asyncio.wait({lookup}, timeout=LOOKUP_S + AWAY_LOOKUP_S)
            error = lookup.exception() if lookup.done() else None
            if lookup.done() and (error is None or not isinstance(error, OSError) or is_no_such_name(error)):
                return lookup.result()
            return await self._told(host) or await lookup
        finally:
            if not lookup.cancel() and not lookup.cancelled():
                lookup.exception()  # the lookup's error is ignored, because a broker answered

    async def _told(self, host: str) -> tuple[HostAddress, ...]:
        said = (await self._ask_broker()).get(host, ())
        told = tuple(address for each in said if (address := numeric(each)) is not None)
        if told:
            _log.warning("the name service does not answer for %s; a broker says: %s", host, ", ".join(said))
            self._resolver.remember(host, told)
        return told

    def end(self) -> None:
        """Ends the lookups in the background."""
        self._wanted = ()
        if self._learning is not None:
            self._learning.cancel()
