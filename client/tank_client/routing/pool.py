"""The connections of one client: at most one per broker, made when needed, negotiated once."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from tank_client.errors import Closed, ConnectionLost, Overloaded, TankError
from tank_client.model import NO_BROKER, Address, BrokerDescription, Features
from tank_client.routing.routes import Route, Routes
from tank_client.settings import ClientSettings
from tank_client.wire.connection import Lost, Negotiation
from tank_client.wire.hosts import Hosts
from tank_client.wire.operations import has
from tank_client.wire.state_operations import describe_cluster
from tank_client.wire.transport import Transport, connect
from tank_protos.resolver import Resolver, look_up

_log = logging.getLogger("tank_client")


class Pool:
    """Connections by address. Who asks while a connection is being made waits for the same one."""

    def __init__(self, routes: Routes, settings: ClientSettings, resolver: Resolver | None = None) -> None:
        """resolver: where names are looked up; without one, this machine's name service."""
        self.routes = routes
        self.settings = settings
        self._hosts = Hosts(resolver or Resolver(look_up, time.monotonic, _log), self._known_hosts)
        # Each entry is open, or was a moment ago; `_ended` takes it out.
        self._open: dict[Address, Transport] = {}
        self._connecting: dict[Address, asyncio.Task[Transport]] = {}
        self._negotiations: dict[Address, Negotiation] = {}
        # Brokers of ours by id: where each was reached last. Invariant: no two at one address.
        self._reached: dict[int, Address] = {}
        self._closed = False
        # Told, several times a second, of connections on which an answer is late.
        self.on_silence: Callable[[Transport], None] | None = None

    def ready(self, route: Route | None) -> Transport | None:
        """The open connection for it, without waiting; None: use `get`."""
        return self._open.get(self.routes.target(route))

    async def get(self, route: Route | None = None) -> Transport:
        """A connection to the broker to ask about this. ConnectionLost and the next server next time, when
        there is none."""
        return await self.at(self.routes.target(route))

    async def at(self, address: Address) -> Transport:
        """A connection to this broker."""
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
        # One who gives up waiting, or is told to, must not take the connection from the others.
        patience_s = self.settings.silence_ms / 1000 if len(self.routes.known_servers) > 1 else None
        await asyncio.wait({task}, timeout=patience_s)
        if not task.done():
            # A machine that is gone says nothing. There are others to ask meanwhile who leads now.
            self.routes.failed(address)
            raise ConnectionLost(f"{address} took no connection within {self.settings.silence_ms} ms")
        return task.result()

    def know(self, brokers: Iterable[BrokerDescription]) -> None:
        """Looks the names of these up, so that their addresses are there when the name service is not."""
        self._hosts.learn(broker.address.host for broker in brokers if broker.address.port)

    def address_of(self, broker: BrokerDescription) -> Address:
        """Where to reach a broker: over the connection that there is, else where it says it is. They differ
        where a broker doesn't know how we reach it: behind a Service, a tunnel, in another network."""
        reached = self._reached.get(broker.broker_id)
        return broker.address if reached is None or reached not in self._open else reached

    async def close(self) -> None:
        """Ends all connections."""
        self._closed = True
        self._hosts.end()
        for transport in list(self._open.values()):
            transport.close()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # asyncio closes aborted sockets in the next turn of the loop.
        await asyncio.sleep(0)

    async def _connect(self, address: Address) -> Transport:
        negotiation = self._negotiations.setdefault(address, Negotiation())
        while True:
            refusals = negotiation.refusals
            try:
                transport = await connect(
                    address,
                    self.settings,
                    self._hosts.resolve,
                    ask=negotiation.asks,
                    on_end=self._ended,
                    on_silence=self._silent,
                )
                if not transport.open:
                    raise ConnectionLost(f"{address} closed the connection at once")
            except TankError:
                if negotiation.refusals > refusals:
                    # It may be a broker of the old document: come again at once, at most ENOUGH times.
                    continue
                self.routes.failed(address)
                raise
            self._open[address] = transport
            self.routes.answered(address)
            if transport.server.broker_id != NO_BROKER:
                # Who was reached there before is somewhere else: behind a Service, whoever is next answers.
                self._reached = {broker: at for broker, at in self._reached.items() if at != address}
                self._reached[transport.server.broker_id] = address
            return transport

    async def _known_hosts(self) -> Mapping[str, Sequence[str]]:
        """Names' addresses as the first broker that answers knows them."""
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

    def _connected(self, address: Address, task: asyncio.Task[Transport]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled():
            task.exception()  # whoever waited has been told; nobody may have

    def _silent(self, transport: Transport) -> None:
        if self.on_silence is not None and self._open.get(transport.address) is transport:
            self.on_silence(transport)

    def _ended(self, transport: Transport, lost: Lost) -> None:
        address = transport.address
        server: Features | None = None
        if transport.ready.done() and not transport.ready.cancelled() and transport.ready.exception() is None:
            server = transport.ready.result()
        self._negotiations.setdefault(address, Negotiation()).ended(lost, server)
        if self._open.get(address) is transport:
            del self._open[address]
            if not self._closed:
                self.routes.lost(address)
