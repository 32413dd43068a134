"""The process of a cluster's broker, which `tank-node` runs. Its controllers are other processes."""

import asyncio
import logging
import random
import time
from collections.abc import Callable

import grpc
import grpc.aio

from tank_node.app.config import NodeConfig
from tank_node.app.process import NodeProcess, Started
from tank_node.app.readiness import CatchingUp
from tank_node.broker.broker import Broker
from tank_node.cluster.channel import CHANNEL_OPTIONS, CONNECT_S, ControllerChannel
from tank_node.cluster.link import ControllerLink
from tank_node.cluster.secret import prover_of
from tank_node.cluster.stream import ControllerStream
from tank_node.peers.forwarder import Forwarder
from tank_node.peers.replicator import Replicator
from tank_node.server.connections import Connections
from tank_node.server.dialer import ServerDialer
from tank_node.surroundings import Surroundings
from tank_protos.call_proof import NO_PROOF, ProvenCalls, Prover
from tank_protos.cluster_secret import Party, PartyRole
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import AdminStub
from tank_protos.grpc_channel import channel as channel_to
from tank_protos.grpc_target import target_of
from tank_protos.resolver import LOOKUP_S, Resolver, look_up

POLL_S = 0.01
ASK_AGAIN_S = 0.2
LET_GO_S = 20.0
"""How long a broker that stops waits until other brokers lead its partitions."""
ALONE_S = 5.0
"""How long of that it waits without a connection to a controller: longer than an election of a controller
takes."""

_NO_LINE = "no controller has a connection to this broker: metadata can't be changed"
_STOPPED = "the broker was stopped before a controller had registered it"
_log = logging.getLogger("tank")


class RefusedError(RuntimeError):
    """The controllers refuse this broker; the message says why."""


class ClusterNodeProcess(NodeProcess):
    """The process of a cluster's broker. `run` raises as `NodeProcess.run`, and RefusedError at the start or
    later."""

    def __init__(self, config: NodeConfig, controllers: list[str]) -> None:
        """Raises SecretError or OSError when the file with the cluster's secret can't be used."""
        super().__init__(config)
        self._controllers = controllers
        self._prover = prover_of(config.secret_file, config.broker_id or 0)
        self._resolver = Resolver(look_up, time.monotonic, _log)
        """Looks up the names of controllers and brokers."""
        self._session: ControllerStream | None = None
        self._channel: asyncio.Task[None] | None = None
        self._failure = ""
        """Why the process can't go on; empty while it can."""
        self._catches_up: CatchingUp | None = None
        """Whether the broker has caught up after its start; None: it doesn't serve yet."""

    async def run(self, announce: Callable[[Started], None]) -> None:
        """As `NodeProcess.run`; raises RefusedError too."""
        await super().run(announce)
        if self._failure:
            raise RefusedError(self._failure)

    async def _find_cluster(self) -> str:
        """Asks the controllers for the cluster's id. Raises RefusedError when the process is stopped
        meanwhile."""
        self._starting = "the broker is starting: it waits for a controller that belongs to a cluster"
        found = asyncio.create_task(
            find_cluster_id(self._controllers, self._resolver, self._prover, self._refused)
        )
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((found, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not found.done():
                raise RefusedError(_STOPPED)
            return found.result()
        finally:
            found.cancel()
            stopped.cancel()

    def _refused(self, why: str) -> None:
        self._starting = f"the broker is starting: {why}"

    def _recover(self) -> bool:
        self.data_folder.open_found()
        return True

    async def _open_controller(self) -> ControllerLink:
        meta = self.data_folder.meta
        registration = self._registration()
        registration.tail_sure = self.data_folder.claims().tail_sure
        registration.damaged = lambda: self.data_folder.claims().damaged
        registration.folder_epoch = lambda: self.data_folder.meta.broker_epoch
        self._session = session = ControllerStream(
            meta.cluster_id, meta.broker_id, self._controllers, registration, self.clock, random.randrange
        )
        session.requests.exposures = self.config.iggy_expose
        self._prover = prover = self._prover._replace(
            caller=lambda: Party(PartyRole.BROKER, meta.broker_id), demanded=lambda: session.demands_secret
        )
        self._channel = asyncio.create_task(ControllerChannel(session, prover, self._resolver).run())
        self._channel.add_done_callback(self._on_channel_end)
        self._starting = "the broker is starting: no controller has registered it yet"
        began = told = time.monotonic()
        while not session.broker_epoch:
            if session.refused is not None:
                raise RefusedError(session.refused)
            if self._failure:
                raise RefusedError(self._failure)
            if self._stopping.is_set():
                raise RefusedError(_STOPPED)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                _log.warning(
                    "no controller has registered this broker for %d s; asking on", int(told - began)
                )
            if session.problem:
                self._starting = f"the broker is starting: {session.problem}"
            await asyncio.sleep(POLL_S)
        return session

    def _replicate(self, broker: Broker, connections: Connections) -> None:
        dialer = ServerDialer(connections, self._loop, self._resolver)
        broker.roles.pushers = Replicator(broker, dialer)
        broker.forwarding = Forwarder(broker, dialer, self.config.forwarding)
        assert self._session is not None
        session = self._session
        broker.surroundings = Surroundings(lambda: session.addresses, self._last_addresses)

    def _last_addresses(self, host: str) -> list[str]:
        return [address for _, address in self._resolver.last(host) if address != host]

    async def _ready(self) -> None:
        session = self._session
        assert session is not None
        session.serve()
        self._catches_up = CatchingUp(self.config.ready_wait_ms, self.clock.monotonic_ms())
        self._watch = asyncio.create_task(self._end_when_refused(session))

    async def _end_when_refused(self, session: ControllerStream) -> None:
        while session.refused is None:  # noqa: ASYNC110 - the session knows no asyncio
            await asyncio.sleep(ASK_AGAIN_S)
        self._fail(f"the controllers refuse this broker now: {session.refused}")

    def _on_channel_end(self, channel: "asyncio.Task[None]") -> None:
        """Ends the process when the connection to the controllers failed for a bug: without one the broker
        would lead on in a view that is never updated."""
        if not channel.cancelled() and (error := channel.exception()) is not None:
            _log.error("a bug of ours ended the connection to the controllers:", exc_info=error)
            self._fail(
                "a bug of ours ended the connection to the controllers (see above): start the broker again"
            )

    def _fail(self, why: str) -> None:
        _log.critical("%s", why)
        self._failure = why
        self._stopping.set()

    async def _let_go(self) -> None:
        session = self._session
        assert session is not None
        if self._failure:
            return  # no controller listens to this broker
        _log.info("stopping: handing this broker's partitions over to other leaders")
        session.shut_down()
        began = heard = time.monotonic()
        while not session.may_stop:
            await asyncio.sleep(POLL_S)
            now = time.monotonic()
            heard = now if session.connected else heard
            if now - heard >= ALONE_S:
                _log.warning("no controller has been connected for %d s: stopping nevertheless", int(ALONE_S))
                return
            if now - began >= LET_GO_S:
                _log.warning("the hand-over was not done within %d s: stopping nevertheless", int(LET_GO_S))
                return

    async def _stop_controller(self) -> None:
        if self._channel is not None:
            self._channel.cancel()
            await asyncio.wait([self._channel])

    async def _abandon(self) -> None:
        """Leaves the folder as a crash would: logs may be open, and the next start recovers them."""
        await self._stop_controller()

    def _controller_problem(self) -> str | None:
        session = self._session
        assert session is not None
        assert self._catches_up is not None
        if not self._catches_up.is_over and not session.connected:
            return self._no_line(session)
        own = session.view.brokers.get(session.view.broker_id)
        if own is None or own.fenced:
            return "the controllers have fenced this broker: it leads nothing, and is in no in-sync set"
        return None

    def _catching_up(self) -> str | None:
        assert self._session is not None
        assert self._catches_up is not None
        topics = self._broker.topics.values()
        return self._catches_up.problem(self._session.view.broker_id, topics, self.clock.monotonic_ms())

    def _controllers_away(self) -> str | None:
        """A sentence when no controller is connected. It doesn't make the broker unready: otherwise, while
        the controllers are away, no broker would be ready, and a Kubernetes Service would have no
        endpoint."""
        session, catches_up = self._session, self._catches_up
        if session is None or catches_up is None or not catches_up.is_over or session.connected:
            return None
        return self._no_line(session)

    def _no_line(self, session: ControllerStream) -> str:
        return f"{_NO_LINE}; {session.problem}" if session.problem else _NO_LINE


async def find_cluster_id(
    controllers: list[str],
    resolver: Resolver,
    prover: Prover = NO_PROOF,
    refused: Callable[[str], None] | None = None,
) -> str:
    """Asks the controllers until one of them belongs to a cluster; returns the cluster's id. refused: called
    with the reason when a controller refuses this broker, or fails to prove the secret."""
    told = False
    refusal = ""
    while True:
        for address in controllers:
            try:
                description = await _described(address, resolver, prover)
                if description.cluster_id:
                    return description.cluster_id
            except TimeoutError:
                pass  # the name service doesn't answer, and no earlier address of the name is known
            except grpc.aio.AioRpcError as error:
                is_refused = error.code() is grpc.StatusCode.UNAUTHENTICATED
                if is_refused and error.details() != refusal:
                    refusal = error.details() or ""
                    _log.error("controller %s: %s", address, refusal)
                    if refused is not None:
                        refused(refusal)
        if not told:
            _log.info("waiting for a controller that belongs to a cluster: %s", ", ".join(controllers))
            told = True
        await asyncio.sleep(ASK_AGAIN_S)


async def _described(address: str, resolver: Resolver, prover: Prover) -> pb.ControllersDescription:
    """Asks one controller for its description. Raises TimeoutError when the name service doesn't answer in
    time, and AioRpcError."""
    async with asyncio.timeout(LOOKUP_S + CONNECT_S):
        dialed = await target_of(resolver, address)
    options = (*CHANNEL_OPTIONS, *dialed.options)
    async with channel_to(dialed.target, options) as channel:
        description: pb.ControllersDescription = await AdminStub(ProvenCalls(channel, prover)).Describe(
            pb.DescribeControllersRequest(), timeout=CONNECT_S
        )
    return description
