"""The connections of one client: at most one per broker, made when needed, negotiated once."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from tank_client.errors import Closed, ConnectionLost, Overloaded, TankError
from tank_client.model import NO_BROKER, Address, BrokerDescription, Features, Route
from tank_client.routing.routes import Routes
from tank_client.settings import ClientSettings
from tank_client.wire.connection import Lost, Negotiation
from tank_client.wire.hosts import Hosts
from tank_client.wire.operations import has
from tank_client.wire.state_operations import describe_cluster
from tank_client.wire.transport import BrokerTransport, connect
from tank_protos.resolver import Resolver, look_up

_log = logging.getLogger("tank_client")


class Pool:
    """Connections by address. A second request for a connection that is being opened waits for the same
    connection.
    """

    def __init__(self, routes: Routes, settings: ClientSettings, resolver: Resolver | None = None) -> None:
        """`resolver`: looks names up; None: this machine's name service."""
        self.routes = routes
        self.settings = settings
        self.hosts = Hosts(resolver or Resolver(look_up, time.monotonic, _log), self._known_hosts)
        """The addresses of the brokers' names."""
        # Each connection is open, or has just ended; `_ended` takes it out.
        self._open: dict[Address, BrokerTransport] = {}
        self._connecting: dict[Address, asyncio.Task[BrokerTransport]] = {}
        self._negotiations: dict[Address, Negotiation] = {}
        # The last address of each Tank Cluster broker, by its id. Invariant: no two at one address.
        self._reached: dict[int, Address] = {}
        self._closed = False
        # Called, several times a second, with connections on which an answer is late.
        self.on_silence: Callable[[BrokerTransport], None] | None = None

    def ready(self, route: Route | None) -> BrokerTransport | None:
        """Returns the open connection to the broker to ask, without waiting; None: use `get`."""
        return self._open.get(self.routes.target(route))

    async def get(self, route: Route | None = None) -> BrokerTransport:
        """Returns a connection to the broker to ask. Raises ConnectionLost when it cannot be reached; the
        next server is asked next time."""
        return await self.at(self.routes.target(route))

    async def at(self, address: Address) -> BrokerTransport:
        """Returns a connection to this broker."""
        if self._closed:
            raise Closed("the client is closed: make a new one")
        transport = self._open.get(address)
        if transport is not None:
            return transport
        task = self._connecting.get(address)
        if task is None:
            if len(self._open) + len(self._connecting) >= self.settings.max_connections:
                raise Overloaded(
                    f"{self.settings.max_connections} connections are open: max_connections bounds them"
                )
            task = asyncio.create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        # A caller that gives up, or is cancelled, must not end the connection attempt of the others.
        patience_s = self.settings.silence_ms / 1000 if len(self.routes.known_servers) > 1 else None
        await asyncio.wait({task}, timeout=patience_s)
        if not task.done():
            # A machine that is gone does not answer. Other brokers are asked for the leader meanwhile.
            self.routes.failed(address)
            raise ConnectionLost(f"{address} took no connection within {self.settings.silence_ms} ms")
        return task.result()

    def know(self, brokers: Iterable[BrokerDescription]) -> None:
        """Looks the names of these brokers up, so that their addresses are known when the name service
        fails.
        """
        self.hosts.learn(broker.address.host for broker in brokers if broker.address.port)

    def address_of(self, broker: BrokerDescription) -> Address:
        """The address of a broker: that of the open connection to it, else the one that it advertises. They
        differ when clients reach the broker through a Service, a tunnel or another network.
        """
        reached = self._reached.get(broker.broker_id)
        return broker.address if reached is None or reached not in self._open else reached

    async def close(self) -> None:
        """Ends all connections."""
        self._closed = True
        self.hosts.end()
        for transport in list(self._open.values()):
            transport.close()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # asyncio closes aborted sockets in the next turn of the loop.
        await asyncio.sleep(0)

    async def _connect(self, address: Address) -> BrokerTransport:
        negotiation = self._negotiations.setdefault(address, Negotiation())
        while True:
            refusals = negotiation.refusals
            try:
                transport = await connect(
                    address,
                    self.settings,
                    self.hosts.resolve,
                    ask=negotiation.asks,
                    on_end=self._ended,
                    on_silence=self._silent,
                )
                if not transport.open:
                    raise ConnectionLost(f"{address} closed the connection at once")
            except TankError:
                if negotiation.refusals > refusals:
                    # It may be a broker of the old document: connects again at once, at most ENOUGH times.
                    continue
                negotiation.failed()
                self.routes.failed(address)
                raise
            self._open[address] = transport
            self.routes.answered(address)
            if transport.server.broker_id != NO_BROKER:
                # Another broker was reached at this address before: a Service has several behind it.
                self._reached = {broker: at for broker, at in self._reached.items() if at != address}
                self._reached[transport.server.broker_id] = address
            return transport

    async def _known_hosts(self) -> Mapping[str, Sequence[str]]:
        """The addresses of names, from the first broker that answers."""
        ask = describe_cluster()
        for transport in list(self._open.values()):
            server = transport.server
            if not has(server, "describe_cluster"):
                continue
            request, answer, silence_ms = ask.build(server), ask.answer(server), self.settings.silence_ms
            with contextlib.suppress(TankError, TimeoutError):
                async with asyncio.timeout(silence_ms / 1000):
                    report = ask.read(await transport.ask(request, answer, silence_ms, ask.name), server)
                return report.hosts
        return {}

    def _connected(self, address: Address, task: asyncio.Task[BrokerTransport]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled():
            task.exception()  # all waiting callers have the error, but there may be none

    def _silent(self, transport: BrokerTransport) -> None:
        if self.on_silence is not None and self._open.get(transport.address) is transport:
            self.on_silence(transport)

    def _ended(self, transport: BrokerTransport, lost: Lost) -> None:
        address = transport.address
        server: Features | None = None
        if transport.ready.done() and not transport.ready.cancelled() and transport.ready.exception() is None:
            server = transport.ready.result()
        self._negotiations.setdefault(address, Negotiation()).ended(lost, server)
        if self._open.get(address) is transport:
            del self._open[address]
            if not self._closed:
                self.routes.lost(address)
