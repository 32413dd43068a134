"""A controller's process, from its start or birth to its end in good order."""

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import uuid
from collections.abc import Callable

from grpc_health.v1 import health, health_pb2

from tank_controller.api.http import ControllerHttp
from tank_controller.api.leader import Leader, Lines
from tank_controller.api.routes import HttpApi
from tank_controller.app.first_start import ASK_EVERY_S, FirstStart
from tank_controller.app.group_watches import group_watches
from tank_controller.app.taking_down import hand_over, see_brokers_off
from tank_controller.k8s.client import Kubernetes
from tank_controller.k8s.controllers import leave_group, set_aside
from tank_controller.limits import MAX_CONTROLLERS
from tank_controller.node import ControllerConfig, ControllerNode, WallClock
from tank_controller.raft.birth import Birth, Founding
from tank_controller.raft.messages import HardState, NodeId
from tank_controller.raft_node.files import lock_folder, machine_boot_id
from tank_controller.raft_node.member import RaftMember
from tank_controller.raft_node.peers import Peers
from tank_controller.raft_node.pod_addresses import PodAddresses
from tank_controller.raft_node.replay import StoredRaft
from tank_controller.raft_node.storage import RaftStorage
from tank_controller.raft_node.ticks import keep_ticking
from tank_controller.rpc.admin import AdminService
from tank_controller.rpc.server import SERVICES, ControllerListenError, serve
from tank_controller.security.trust import NO_SECRET, NO_TRUST, Trust, open_secret
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.access import Access

CLOSE_S = 10.0
"""How long a stopping controller waits for its disk's present work; it doesn't wait for a disk that has hung
for long.
"""

_log = logging.getLogger("tank.controller")


class RemovedError(OSError):
    """This controller is no member of its cluster any more; the message says what to do."""


class ControllerProcess:
    """The process of one controller; `run` returns when it ends."""

    def __init__(self, config: ControllerConfig, peers: Peers | None = None) -> None:
        """peers: the way to the other controllers; without one, over gRPC to the configured addresses."""
        self.config = config
        self.birth: Birth | None = None
        self.node: ControllerNode | None = None
        self.kubernetes: Kubernetes | None = None
        self.trust = NO_TRUST
        self._failure: Exception | None = None
        self._stopping = asyncio.Event()
        self.peers = peers or Peers(config.cluster, config.ordinal)
        self._is_removed = False
        """Whether the controller was removed from the group: its data is set aside when the process ends."""
        self._refusal = ""
        """The last reason for which the other controllers refused to add this one."""
        self._lines = Lines()
        self._health = health.aio.HealthServicer()
        self._health_leads: bool | None = None
        """The last state of the brokers' service in the health service: only the leader serves."""

    async def run(self, announce: Callable[[str], None]) -> None:
        """Starts, calls `announce`, and runs until SIGTERM or SIGINT; a second signal stops it at once.

        When it can't start or go on, raises RaftStorageError, SnapshotError, UnknownEntryError, ListenError.
        """
        config = self.config
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        config.data.mkdir(parents=True, exist_ok=True)
        if config.kubernetes is not None:
            self.kubernetes = Kubernetes(config.kubernetes)
        self._lock = lock_folder(config.data)
        self._storage = RaftStorage(config.data, boot_id=machine_boot_id)
        stored = self._storage.open()
        own = NodeId(config.ordinal, self._storage.disk)
        self._trust_others(own)
        if stored is None:
            ordinals = frozenset(config.cluster)
            self.birth = Birth(own, ordinals, random.randrange, lambda: str(uuid.uuid4()))
        else:
            self._open(stored)
        http = ControllerHttp(self, self._api())
        if config.http:
            await self._listen(http)
        server = await serve(self, self.trust, self._health, config.listen)
        self.peers.start()
        tasks = [
            asyncio.create_task(keep_ticking(self._tick)),
            asyncio.create_task(self._be_born() if stored is None else self._stay_in()),
        ]
        if self.kubernetes is not None:
            watches = group_watches(self.kubernetes, own.ordinal, lambda: self.node)
            tasks += [asyncio.create_task(each) for each in watches]
            tasks.append(asyncio.create_task(self.kubernetes.learn_rights()))
        for task in tasks:
            task.add_done_callback(self._on_end)
        where = f"{config.listen}, http on {config.http}" if config.http else config.listen
        announce(f"tank controller {config.ordinal} listening on {where}; data in {config.data}")
        try:
            await self._stopping.wait()
            if self._failure is not None:
                raise self._failure
            _log.info("stopping")
            tasks[1].cancel()  # a controller that leaves its group must not ask to be added to it
            await self.leave_cluster()
            if not await see_brokers_off(self.node, self.kubernetes):
                await hand_over(self.node)
        finally:
            for task in tasks:
                task.cancel()
            await http.stop()
            await self._lines.close()
            await server.stop(0.2)
            await self.peers.stop()
            await self._close()
            if self._is_removed:
                set_aside(self.config.data)

    def _trust_others(self, own: NodeId) -> None:
        """Raises SecretError or OSError when the file with the cluster's secret can't be used."""
        config = self.config
        self.trust = Trust(own, config.data, None if config.secret is None else open_secret(config.secret))
        if not self.trust.has_secret:
            _log.warning("%s", NO_SECRET)
        self.peers.prover = self._lines.prover = self.trust.prover

    def _api(self) -> HttpApi:
        config = self.config
        leader = Leader(AdminService(self), self._lines.to, config.ordinal, config.cluster)
        return HttpApi(leader, Access(config.api_token, "controller"), WallClock().now_ms)

    async def _listen(self, http: ControllerHttp) -> None:
        """Raises TokenError, ListenError."""
        if self.config.api_token.configured:
            self.config.api_token.read()
        try:
            await http.start(self.config.http)
        except OSError as error:
            raise ControllerListenError(
                f"can't listen on {self.config.http} ({error.strerror}): choose another address with --http, "
                "or --http off"
            ) from error

    async def leave_cluster(self) -> None:
        """Removes this controller from the group, if Kubernetes runs fewer controllers from now on. Called
        when the process stops."""
        if self.kubernetes is None or self.node is None:
            return
        ordinal = self.config.ordinal
        wanted = await self.kubernetes.wanted_controllers()
        if not wanted or ordinal < wanted:
            return
        _log.info("%d controllers are wanted: controller %d leaves the group", wanted, ordinal)
        member = self.node.member
        why = await leave_group(member, wanted, self._lines.to, lambda: self._others_took_it_out(member))
        self._is_removed = not why
        if why:
            self.kubernetes.report_controller(
                ordinal, f"Controller {ordinal} stops, and the others still count it as a member: {why}."
            )
            await self.kubernetes.events_written()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            _log.warning("told to stop a second time: stopping at once, the next start recovers")
            os._exit(128 + number)
        if number == signal.SIGINT and sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal has shown ^C on this line
        self._stopping.set()

    async def _close(self) -> None:
        if self.node is None:
            return
        driver = self.node.member.driver
        stopped = asyncio.Event()
        driver.stop(stopped.set)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if driver.hangs else CLOSE_S):
                await stopped.wait()
        if driver.hangs or not stopped.is_set():
            _log.error("stops without its disk, which has not finished a write for too long: check it")
            os._exit(1)  # a thread in an fsync can't be ended; nothing acknowledged is lost

    # --- birth ---

    def _open(self, stored: StoredRaft) -> None:
        for warning in stored.warnings:
            _log.warning("%s", warning)
        loop = asyncio.get_running_loop()
        self.node = ControllerNode(
            self.config,
            self._storage,
            stored,
            self.peers,
            loop.call_soon_threadsafe,
            self._on_fatal,
            self.trust,
        )
        self.birth = None

    def _begin(self, cluster_id: str, hard: HardState, founding: Founding | None) -> None:
        """Stores what the controller begins with, then starts as with an existing folder."""
        self._storage.begin(cluster_id, hard, [founding.entry] if founding else [])
        if founding is not None:
            self.trust.founded()
        self._storage = RaftStorage(self.config.data, boot_id=machine_boot_id)
        stored = self._storage.open()
        assert stored is not None
        self._open(stored)

    async def _be_born(self) -> None:
        """Asks all others for their identities until this controller belongs to a cluster."""
        birth = self.birth
        assert birth is not None
        wanted = None
        if isinstance(self.config.cluster, PodAddresses) and birth.own.ordinal == min(birth.ordinals):
            assert self.kubernetes is not None
            wanted = self.kubernetes.wanted_controllers
        await FirstStart(birth, self.peers, self._begin, wanted).run()
        await self._stay_in()

    async def _stay_in(self) -> None:
        """Asks to be added while this controller is no voter; when it hears no leader, finds out whether it
        was removed.
        """
        assert self.node is not None
        member = self.node.member
        own = member.raft.own
        while True:
            await asyncio.sleep(ASK_EVERY_S)
            if member.is_missing(own):
                await self._ask_to_be_added(member, own)
            elif member.raft.leader is None:
                await self._ask_whether_removed(self.node)
            else:
                self.node.removed = ""

    async def _ask_to_be_added(self, member: RaftMember, own: NodeId) -> None:
        request = pb.JoinRequest(
            node=_node(own), cluster_id=member.raft.cluster_id, min_level=OWN.lowest, max_level=OWN.highest
        )
        member.join(own)  # this controller leads, and an earlier disk of its ordinal is still a member
        for why in await self.peers.ask_to_be_added(request):
            self._say_refused(own, why)

    def _say_refused(self, own: NodeId, why: str) -> None:
        """Logs a refusal once, although the controller asks again and again."""
        if why == self._refusal:
            return
        self._refusal = why
        _log.error("not added by the controllers: %s", why)
        if self.kubernetes is not None:
            most = f"; there are at most {MAX_CONTROLLERS}" if own.ordinal >= MAX_CONTROLLERS else ""
            text = f"Controller {own.ordinal} is not added to the others: {why}{most}."
            self.kubernetes.report_controller(own.ordinal, text)

    async def _ask_whether_removed(self, node: ControllerNode) -> None:
        if node.removed or not await self._others_took_it_out(node.member):
            return
        raft = node.member.raft
        node.removed = (
            f"controller {raft.own.ordinal} was removed from cluster {raft.cluster_id}: stop it; to "
            f"let it join again, empty {self.config.data} first"
        )
        _log.error("%s", node.removed)
        if isinstance(self.config.cluster, PodAddresses):
            # its pod exists, so it is wanted again: the next start begins with an empty folder
            self._is_removed = True
            raise RemovedError(f"{node.removed}; it is set aside, and the next start begins empty")

    async def _others_took_it_out(self, member: RaftMember) -> bool:
        request = pb.IdentifyRequest(asker=_node(member.raft.own), nonce=random.randrange(1 << 62))
        return member.is_removed(await self.peers.identify(request))

    # --- running ---

    def _tick(self) -> None:
        node = self.node
        if node is None:
            return
        node.tick()
        leads = node.brokers.leads
        self._tell_health(leads)
        if self.kubernetes is not None:
            self.kubernetes.tick(node.scaling, leads=leads)

    def _tell_health(self, leads: bool) -> None:
        serving, not_serving = (
            health_pb2.HealthCheckResponse.SERVING,
            health_pb2.HealthCheckResponse.NOT_SERVING,
        )
        if leads is not self._health_leads:
            if self._health_leads is not None or leads:
                _log.info("this controller leads" if leads else "this controller doesn't lead any more")
            self._health_leads = leads
            status = serving if leads else not_serving
            asyncio.get_running_loop().create_task(self._health.set(SERVICES[1], status))

    def _on_fatal(self, error: Exception) -> None:
        self._failure = error
        self._stopping.set()

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, Exception)
            self._on_fatal(error)


def _node(node: NodeId) -> pb.RaftNode:
    return pb.RaftNode(ordinal=node.ordinal, disk=node.disk)
