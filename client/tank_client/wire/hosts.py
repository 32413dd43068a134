"""Where brokers' names lead: by the name service, by what it said last, and while it is away by a broker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from tank_protos.resolver import AWAY_LOOKUP_S, LOOKUP_S, HostAddress, Resolver, is_no_such_name, numeric

AskBroker = Callable[[], Awaitable[Mapping[str, Sequence[str]]]]
"""Asks a broker with which there is a connection for the addresses that it knows, by name; empty: there is
none, or it knows none."""
_log = logging.getLogger("tank_client")


class Hosts:
    """Of one client. Lookups run on its loop; `end` ends what it does by itself."""

    def __init__(self, resolver: Resolver, ask_broker: AskBroker) -> None:
        self._resolver = resolver
        self._ask_broker = ask_broker
        self._wanted: tuple[str, ...] = ()
        """Names to learn as soon as those before them are."""
        self._learning: asyncio.Task[None] | None = None

    def learn(self, hosts: Iterable[str]) -> None:
        """Has these names looked up in the background: metadata names brokers that are dialed much later,
        perhaps when the name service is away."""
        self._wanted = tuple(host for host in dict.fromkeys(hosts) if numeric(host) is None)
        if self._wanted and (self._learning is None or self._learning.done()):
            self._learning = asyncio.get_running_loop().create_task(self._learn())

    async def _learn(self) -> None:
        while self._wanted:
            names, self._wanted = self._wanted, ()
            await self._resolver.learn(names)

    async def resolve(self, host: str) -> Sequence[HostAddress]:
        """The host's addresses, at least one. OSError: there is no such name, or neither the name service nor
        a broker tells."""
        lookup = asyncio.ensure_future(self._resolver.resolve(host))
        try:
            # One that has last addresses gives them by then.
            await asyncio.wait({lookup}, timeout=LOOKUP_S + AWAY_LOOKUP_S)
            error = lookup.exception() if lookup.done() else None
            if lookup.done() and (error is None or not isinstance(error, OSError) or is_no_such_name(error)):
                return lookup.result()
            return await self._told(host) or await lookup
        finally:
            if not lookup.cancel() and not lookup.cancelled():
                lookup.exception()  # what went wrong meanwhile was answered by a broker

    async def _told(self, host: str) -> tuple[HostAddress, ...]:
        said = (await self._ask_broker()).get(host, ())
        told = tuple(address for each in said if (address := numeric(each)) is not None)
        if told:
            _log.warning("the name service does not answer for %s; a broker says: %s", host, ", ".join(said))
            self._resolver.remember(host, told)
        return told

    def end(self) -> None:
        """Looks up nothing more by itself."""
        self._wanted = ()
        if self._learning is not None:
            self._learning.cancel()
