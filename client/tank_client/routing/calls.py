"""Carries out operations: chooses the broker, repeats calls that failed for a temporary reason, and ends at
the deadline.
"""

import asyncio
import copy
from collections.abc import Callable
from typing import Self, TypeVar

from tank_client import errors
from tank_client.model import Address, BrokerDescription, Features, Route, TopicDescription
from tank_client.routing.backoff import soon_ms, wait_ms
from tank_client.routing.leader_finder import LEADERLESS, Finding, LeaderFinder
from tank_client.routing.pool import Pool
from tank_client.wire import topic_operations
from tank_client.wire.operations import ClientOperation, Redirected
from tank_client.wire.transport import BrokerTransport

T = TypeVar("T")

MAX_HOPS = 5
"""How many redirects are followed at once; further ones are a circle, and wait like any other failure."""
_HOP_MS = 10
"""The wait between redirects that lead back and forth, because brokers learn of a new leader a few
milliseconds apart.
"""
_FIND_S = 1.0
"""How long a call waits for the name of another leader before it tries the same broker again."""


class Calls:
    """Sends operations, follows redirects, and repeats calls while the failure is temporary and time
    is left.
    """

    def __init__(self, pool: Pool, random: Callable[[], float]) -> None:
        self.pool = pool
        self.leaders = LeaderFinder(pool, random)
        self.settings = pool.settings
        self.random = random
        self._timeout_ms = self.settings.request_timeout_ms
        self._end_s: float | None = None
        """The deadline of all calls together, by the loop's clock; None: each call ends `_timeout_ms` after
        its start.
        """

    def within(self, timeout_ms: int) -> Self:
        """Returns a copy whose calls must all end within `timeout_ms` from now, in place of
        `request_timeout_ms` for each.
        """
        bounded = copy.copy(self)
        bounded._timeout_ms = timeout_ms
        bounded._end_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        return bounded

    def wait_ms(self, failures: int) -> float:
        """How long to wait after that many failures in a row."""
        return wait_ms(failures, self.settings.backoff_min_ms, self.settings.backoff_max_ms, self.random)

    def pause_ms(self, route: Route | None, error: errors.TankError, at: Address, failures: int) -> float:
        """How long to wait after that broker's error in a request about that partition, which failed
        `failures` times in a row. Call `LeaderFinder.failed` first: while the leader is sought, the request
        waits only until it is found, and not at all when another leader is known.
        """
        if route is not None and isinstance(error, LEADERLESS):
            routes, least_ms = self.pool.routes, self.settings.backoff_min_ms
            if self.leaders.is_sought(route):
                return soon_ms(failures + 1, least_ms, self.random)
            if routes.is_elsewhere(route, at):
                return min(_HOP_MS * failures, least_ms)
        return self.wait_ms(failures + 1)

    def is_redirect(self, route: Route, error: errors.TankError, at: Address) -> bool:
        """Whether that broker has named another one as the leader. After such an answer the pause is never
        shortened, because two brokers may name each other in turn. Call `LeaderFinder.failed` first.
        """
        return isinstance(error, Redirected) and self.pool.routes.is_elsewhere(route, at)

    async def server(self) -> Features:
        """Returns the features of the connected broker; repeated like any call."""
        return (await self._connected(self._deadline(0))).server

    async def describe(self, names: list[str]) -> tuple[list[BrokerDescription], list[TopicDescription]]:
        """Returns brokers and topics; all topics when none are named. Learns the brokers and the leaders."""

        def heard(brokers: list[BrokerDescription]) -> None:
            # Also where a topic is unknown: whether others are to be asked depends on their being there.
            self.leaders.learn(brokers, ())

        brokers, topics = await self.call(topic_operations.describe_topics(names, heard))
        # A description of all topics teaches no leaders: the program may use only a few of them.
        self.leaders.learn(brokers, topics if names else ())
        return brokers, topics

    async def call(self, operation: ClientOperation[T]) -> T:
        """Carries out the operation; returns its result. Raises its final TankError, or after the deadline
        the last temporary one.
        """
        deadline = self._deadline(operation.wait_ms)
        failures = hops = 0
        last: errors.TankError = errors.ConnectionLost("no connection was made in time")
        while True:
            finding: Finding | None = None
            at = self.pool.routes.target(operation.route)
            try:
                transport = await self._get(operation.route, deadline)
            except errors.TankError as error:
                last = error
                if operation.route is not None:
                    finding = self.leaders.failed(operation.route, last, at)
            else:
                at = transport.address
                if asyncio.get_running_loop().time() >= deadline:
                    raise self._too_late(operation, last) from last
                try:
                    return await self._ask(transport, operation, deadline)
                except errors.TankError as error:
                    before, last = last, error
                if not operation.repeatable and isinstance(last, errors.MAYBE_CARRIED_OUT):
                    raise self._unknown(operation, last) from last
                is_late = asyncio.get_running_loop().time() >= deadline
                if is_late and failures + hops and isinstance(last, errors.ConnectionLost):
                    # This attempt had less time than those before, whose errors say more.
                    raise self._too_late(operation, before) from last
                if operation.route is not None:
                    finding = self.leaders.failed(operation.route, last, at)
                    last = self.leaders.lacking(operation.route, last, at) or last
                if isinstance(last, Redirected):
                    hops += 1
                    if last.leader is not None and finding is None and hops % MAX_HOPS:
                        continue
                last = self.leaders.lagging(last, at) or last
            if not last.retriable:
                raise last
            pause_ms = self.pause_ms(operation.route, last, at, failures)
            failures += 1
            await self._pause(operation, pause_ms / 1000, deadline, last)
            if finding is not None:
                left_s = deadline - asyncio.get_running_loop().time()
                await asyncio.wait({finding}, timeout=min(_FIND_S, max(left_s, 0)))

    def _deadline(self, wait_ms: int) -> float:
        if self._end_s is not None:
            return self._end_s + wait_ms / 1000
        return asyncio.get_running_loop().time() + (self._timeout_ms + wait_ms) / 1000

    async def _get(self, route: Route | None, deadline: float) -> BrokerTransport:
        transport = self.pool.ready(route)
        if transport is not None:
            return transport
        at = self.pool.routes.target(route)
        try:
            # A connection may be given more time than this call has.
            async with asyncio.timeout_at(deadline):
                return await self.pool.get(route)
        except TimeoutError:
            raise errors.ConnectionLost(f"{at} has not answered yet") from None

    async def _ask(self, transport: BrokerTransport, operation: ClientOperation[T], deadline: float) -> T:
        server = transport.server
        if operation.route is not None:
            self.leaders.meet(operation.route[0], transport)
        request = operation.build(server)
        try:
            # The broker may take `attempt_timeout_ms`: the end of this call must not end the connection,
            # which other calls use, too.
            async with asyncio.timeout_at(deadline):
                message = await transport.ask(
                    request,
                    operation.answer(server),
                    self.settings.attempt_timeout_ms + operation.wait_ms,
                    operation.name,
                    wait_ms=operation.wait_ms,
                    about=(operation.route,),
                )
        except TimeoutError:
            raise errors.ConnectionLost(f"{operation.name} was not answered in time") from None
        try:
            return operation.read(message, server)
        except errors.ProtocolViolation:
            transport.close()
            raise

    async def _connected(self, deadline: float) -> BrokerTransport:
        failures = 0
        while True:
            try:
                return await self._get(None, deadline)
            except errors.TankError as error:
                if not error.retriable:
                    raise
                failures += 1
                await self._pause(None, self.wait_ms(failures) / 1000, deadline, error)

    async def _pause(
        self, operation: ClientOperation[T] | None, seconds: float, deadline: float, last: errors.TankError
    ) -> None:
        """Waits before the next attempt, or raises when that would be too late."""
        if asyncio.get_running_loop().time() + seconds >= deadline:
            raise self._too_late(operation, last) from last
        await asyncio.sleep(seconds)

    def _too_late(self, operation: ClientOperation[T] | None, last: errors.TankError) -> errors.TankError:
        if isinstance(last, errors.ConnectionLost):
            servers = ",".join(map(str, self.pool.routes.servers))
            return errors.ServerUnreachable(servers, str(last))
        name = operation.name if operation else "the connection"
        return errors.RequestTimedOut(name, self._timeout_ms, str(last))

    def _unknown(self, operation: ClientOperation[T], error: errors.TankError) -> errors.TankError:
        if isinstance(error, errors.ConnectionLost):
            return errors.OutcomeUnknown(
                f"{operation.name}: it may have been carried out, and was not repeated ({error})"
            )
        return error
