"""Looks host names up, and keeps the last addresses for times when the name service fails.

Brokers, controllers and clients store names, not addresses, because a restarted pod has the same name and
another address. When the name service fails for a minute, no write may fail, so the last known addresses are
used.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

HostAddress = tuple[int, str]
"""Family (AF_INET, AF_INET6) and numeric address of a host."""
Lookup = Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]
"""Looks a name up: rows as `socket.getaddrinfo` gives them. OSError: no address; its errno says why."""

LOOKUP_S: Final = 1.0
"""How long a lookup is waited for when the name's last addresses are known. A working name service answers in
milliseconds; glibc waits 5 s for each server of one that is away.
"""
AWAY_LOOKUP_S: Final = 0.05
"""The same, when the last lookup of the name had no answer: enough for a name service that works again."""
REFRESH_S: Final = 300.0
"""The default time after which `learn` looks a name up again, because a restarted pod has another address."""
MAX_NAMES: Final = 1024
"""Names whose addresses are kept: many times the brokers and controllers of a cluster. The name whose last
answer is oldest is forgotten first.
"""
MAX_LOOKUPS: Final = 64
"""Lookups under way at once, each with a thread; further ones wait for their turn."""
_NO_SUCH_NAME: Final = frozenset((socket.EAI_NONAME, socket.EAI_NODATA))
"""Errors that mean that the name, or an address of it, doesn't exist. All others mean that the name service
does not answer, or that this process could not ask it, for example for want of a file descriptor.
"""


async def look_up(host: str) -> Sequence[tuple[Any, ...]]:
    """Looks a name up at this machine's name service, in a daemon thread: a process that ends would wait for
    an executor's thread until the lookup times out.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[tuple[Any, ...]]] = loop.create_future()

    def tell(rows: Sequence[tuple[Any, ...]], error: OSError | None) -> None:
        if found.done():
            return  # the caller was cancelled
        if error is None:
            found.set_result(rows)
        else:
            found.set_exception(error)

    def ask() -> None:
        rows: Sequence[tuple[Any, ...]] = ()
        failure: OSError | None = None
        try:
            rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            failure = error
        except UnicodeError as error:  # a label that is empty or too long
            failure = socket.gaierror(socket.EAI_NONAME, f"{host!r} can be no name: {error}")
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, rows, failure)

    try:
        threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from None
    return await found


def numeric(host: str) -> HostAddress | None:
    """The host as an address, if it is one; None for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family, host
    return None


def host_and_port(address: str) -> tuple[str, str]:
    """Splits a valid host:port: the host without the brackets of an IPv6 address, and the port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


def is_no_such_name(error: OSError) -> bool:
    """Whether the error means that the name doesn't exist, and not that the name service fails."""
    return error.errno in _NO_SUCH_NAME


class Resolver:
    """Looks names up, and keeps what the last answer for each name was. For one loop.

    A kept address may belong to another host by now, so a caller that connects must check the identity of the
    process there.
    """

    def __init__(
        self,
        lookup: Lookup,
        now_s: Callable[[], float],
        log: logging.Logger,
        *,
        lookup_s: float = LOOKUP_S,
        max_names: int = MAX_NAMES,
    ) -> None:
        """`now_s`: a monotonic clock. `log`: gets a line when last addresses are used, and when the name
        service answers again.
        """
        self._lookup = lookup
        self._now_s = now_s
        self._log = log
        self._lookup_s = lookup_s
        self._max_names = max_names
        self._kept: dict[str, tuple[HostAddress, ...]] = {}
        """The last answer for each name, not empty; the name answered last stands last."""
        self._turns = asyncio.Semaphore(MAX_LOOKUPS)
        self._asked: dict[str, asyncio.Task[tuple[HostAddress, ...]]] = {}
        """Lookups under way, one for each name: a name service that hangs holds one thread for each."""
        self._without_s: dict[str, float] = {}
        """Since when lookups of a kept name fail. Only of names in `_kept`."""
        self._answered_s: dict[str, float] = {}
        """When the name service answered for each kept name last. Only of names in `_kept`."""

    async def resolve(self, host: str) -> tuple[HostAddress, ...]:
        """The host's addresses, at least one. Raises OSError when the name doesn't exist, or when there is no
        answer and no earlier one.
        """
        if (already := numeric(host)) is not None:
            return (already,)
        task = self._task(host)
        kept = self._kept.get(host)
        if kept is None:
            return await asyncio.shield(task)
        # One name service answers for all names: after one lookup has failed, others wait less.
        patience_s = AWAY_LOOKUP_S if self._without_s else self._lookup_s
        await asyncio.wait({task}, timeout=patience_s)
        if not task.done():
            return self._fall_back(host, kept, f"no answer within {patience_s:g} s")
        try:
            return task.result()
        except OSError as error:
            if is_no_such_name(error):
                raise
            return self._fall_back(host, kept, error.strerror or str(error))

    async def learn(self, hosts: Iterable[str], refresh_s: float = REFRESH_S) -> None:
        """Looks up those of these names that have no last address, or one that is `refresh_s` old: any of
        them may be needed while the name service fails. One after the other, so that a hanging lookup holds
        only one thread; names without an answer are skipped.
        """
        for host in hosts:
            answered_s = self._answered_s.get(host)
            is_fresh = answered_s is not None and self._now_s() - answered_s < refresh_s
            if not is_fresh and numeric(host) is None:
                await asyncio.wait({self._task(host)})

    def last(self, host: str) -> tuple[HostAddress, ...]:
        """The host's last addresses as they are known, without a lookup; empty: none are."""
        return (already,) if (already := numeric(host)) is not None else self._kept.get(host, ())

    def remember(self, host: str, addresses: tuple[HostAddress, ...]) -> None:
        """Keeps addresses that another process gave for a name without last addresses, until the name service
        answers. `addresses`: at least one.
        """
        if host not in self._kept:
            self._keep(host, addresses)

    def _task(self, host: str) -> asyncio.Task[tuple[HostAddress, ...]]:
        """The lookup that is under way, or a new one."""
        task = self._asked.get(host)
        if task is None:
            task = self._asked[host] = asyncio.create_task(self._ask(host))
            task.add_done_callback(lambda done: self._answered(host, done))
        return task

    async def _ask(self, host: str) -> tuple[HostAddress, ...]:
        async with self._turns:
            rows = await self._lookup(host)
        found = dict.fromkeys((int(row[0]), str(row[4][0])) for row in rows)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} has no address")
        return tuple(found)

    def _answered(self, host: str, task: asyncio.Task[tuple[HostAddress, ...]]) -> None:
        del self._asked[host]
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, OSError) and not is_no_such_name(error):
            return
        self._forget(host)
        since_s = self._without_s.pop(host, None)
        if since_s is not None:
            away_s = self._now_s() - since_s
            self._log.info("the name service answers for %s again, after %.0f s", host, away_s)
        if error is None:
            self._keep(host, task.result())
            self._answered_s[host] = self._now_s()

    def _keep(self, host: str, addresses: tuple[HostAddress, ...]) -> None:
        if len(self._kept) >= self._max_names:
            oldest = next(iter(self._kept))
            self._forget(oldest)
            self._without_s.pop(oldest, None)
        self._kept[host] = addresses

    def _forget(self, host: str) -> None:
        self._kept.pop(host, None)
        self._answered_s.pop(host, None)

    def _fall_back(self, host: str, kept: tuple[HostAddress, ...], why: str) -> tuple[HostAddress, ...]:
        if host not in self._without_s and host in self._kept:
            self._without_s[host] = self._now_s()
            addresses = ", ".join(address for _, address in kept)
            self._log.warning(
                "the name service does not answer for %s (%s): its last addresses are used, %s",
                host,
                why,
                addresses,
            )
        return kept
