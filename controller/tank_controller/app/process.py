"""A controller's process: put together, born or opened, run until told to stop, taken apart in order."""

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

from tank_controller.api.access import Access
from tank_controller.api.http import HttpServer
from tank_controller.api.leader import Leader, Lines
from tank_controller.api.routes import Api
from tank_controller.app.group_watches import group_watches
from tank_controller.app.taking_down import see_brokers_off
from tank_controller.k8s.client import Kubernetes
from tank_controller.k8s.controllers import founders, leave_group, set_aside
from tank_controller.limits import MAX_CONTROLLERS
from tank_controller.node import ControllerConfig, Rooms, WallClock
from tank_controller.raft.birth import Answer, AskToBeAdded, Birth, BirthRefusedError, Found, Founding
from tank_controller.raft.errors import ProposalRefusedError
from tank_controller.raft.messages import Configuration, HardState, NodeId
from tank_controller.raft_node.files import lock_folder, machine_boot_id
from tank_controller.raft_node.member import Member
from tank_controller.raft_node.peers import Peers
from tank_controller.raft_node.pod_addresses import PodAddresses
from tank_controller.raft_node.replay import Stored
from tank_controller.raft_node.storage import RaftStorage
from tank_controller.raft_node.ticks import TICK_MS, keep_ticking
from tank_controller.rpc.admin import AdminService
from tank_controller.rpc.server import SERVICES, ListenError, serve
from tank_controller.security.trust import NO_SECRET, NO_TRUST, Trust, open_secret
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb

ASK_EVERY_S = 0.2
"""How often an empty controller asks the others who they are, and one that is no voter to be added."""
HAND_OVER_TRIES = 20
"""Ticks that a leader which stops waits for the next one."""
CLOSE_S = 10.0
"""How long a controller that stops waits for what its disk is at; not at all when that has hung for long."""

_log = logging.getLogger("tank.controller")


class RemovedError(OSError):
    """This controller is no member of its cluster any more; the message says what becomes of it."""


class ControllerProcess:
    """All rooms of one process. `run` is its life."""

    def __init__(self, config: ControllerConfig) -> None:
        self.config = config
        self.birth: Birth | None = None
        self.rooms: Rooms | None = None
        self.kubernetes: Kubernetes | None = None
        self.trust = NO_TRUST
        self._failure: Exception | None = None
        self._stopping = asyncio.Event()
        self._peers = Peers(config.cluster, config.ordinal)
        self._is_removed = False
        """It was taken out of the group for good: what it has is set aside at its end."""
        self._refusal = ""
        """Why the others didn't add it, the last time that they said so."""
        self._lines = Lines()
        self._health = health.aio.HealthServicer()
        self._told_leads: bool | None = None
        """What the health service says of the brokers' service: only the leader serves."""

    async def run(self, announce: Callable[[str], None]) -> None:
        """Starts, says so, and stops in order at SIGTERM or SIGINT, at once at a second one.

        Raises what keeps it from starting or going on: RaftStorageError, SnapshotError, UnknownEntryError,
        ListenError.
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
        http = HttpServer(self, self._api())
        if config.http:
            await self._listen(http)
        server = await serve(self, self.trust, self._health, config.listen)
        self._peers.start()
        tasks = [
            asyncio.create_task(keep_ticking(self._tick)),
            asyncio.create_task(self._be_born() if stored is None else self._stay_in()),
        ]
        if self.kubernetes is not None:
            watches = group_watches(self.kubernetes, own.ordinal, lambda: self.rooms)
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
            tasks[1].cancel()  # it asks nobody any more to be added: what it is to leave it would join again
            await self._leave_group()
            if not await see_brokers_off(self.rooms, self.kubernetes):
                await self._hand_over()
        finally:
            for task in tasks:
                task.cancel()
            await http.stop()
            await self._lines.close()
            await server.stop(0.2)
            await self._peers.stop()
            await self._close()
            if self._is_removed:
                set_aside(self.config.data)

    def _trust_others(self, own: NodeId) -> None:
        """SecretError, OSError: of the file with the cluster's secret."""
        config = self.config
        self.trust = Trust(own, config.data, None if config.secret is None else open_secret(config.secret))
        if not self.trust.has_secret:
            _log.warning("%s", NO_SECRET)
        self._peers.prover = self._lines.prover = self.trust.prover

    def _api(self) -> Api:
        config = self.config
        leader = Leader(AdminService(self), self._lines.to, config.ordinal, config.cluster)
        return Api(leader, Access(config.api_token), WallClock().now_ms)

    async def _listen(self, http: HttpServer) -> None:
        """TokenError, ListenError."""
        if self.config.api_token.configured:
            self.config.api_token.read()
        try:
            await http.start(self.config.http)
        except OSError as error:
            raise ListenError(
                f"can't listen on {self.config.http} ({error.strerror}): choose another address with --http, "
                "or --http off"
            ) from error

    async def _leave_group(self) -> None:
        """One that Kubernetes doesn't want any more takes itself out before it goes."""
        if self.kubernetes is None or self.rooms is None:
            return
        ordinal = self.config.ordinal
        wanted = await self.kubernetes.wanted_controllers()
        if not wanted or ordinal < wanted:
            return
        _log.info("%d controllers are wanted: controller %d leaves the others", wanted, ordinal)
        member = self.rooms.member
        why = await leave_group(member, wanted, self._lines.to, lambda: self._others_took_it_out(member))
        self._is_removed = not why
        if why:
            self.kubernetes.tell_of_controller(
                ordinal, f"Controller {ordinal} stops, and the others still count it as a member: {why}."
            )
            await self.kubernetes.told()

    async def _hand_over(self) -> None:
        """A leader that stops in order leaves no gap in which nobody leads.

        It looks again and again: while others are rolled, too, the one that could lead next may be on its way
        back, or be gone before it does.
        """
        member = None if self.rooms is None else self.rooms.member
        if member is None or len(member.raft.configuration.voters) == 1:
            return
        for _ in range(HAND_OVER_TRIES):
            if not member.leads():
                return
            if heirs := member.heirs():
                with contextlib.suppress(ProposalRefusedError):
                    member.driver.transfer_leadership(heirs[0])
            await asyncio.sleep(TICK_MS / 1000)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            _log.warning("told to stop a second time: stopping at once, the next start recovers")
            os._exit(128 + number)
        if number == signal.SIGINT and sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal has shown ^C on this line
        self._stopping.set()

    async def _close(self) -> None:
        if self.rooms is None:
            return
        driver = self.rooms.member.driver
        stopped = asyncio.Event()
        driver.stop(stopped.set)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if driver.hangs else CLOSE_S):
                await stopped.wait()
        if driver.hangs or not stopped.is_set():
            _log.error("stops without its disk, which has not finished a write for too long: check it")
            os._exit(1)  # nothing that somebody was told of is lost; a thread in an fsync can't be ended

    # --- birth ---

    def _open(self, stored: Stored) -> None:
        for warning in stored.warnings:
            _log.warning("%s", warning)
        loop = asyncio.get_running_loop()
        self.rooms = Rooms(
            self.config,
            self._storage,
            stored,
            self._peers,
            loop.call_soon_threadsafe,
            self._on_fatal,
            self.trust,
        )
        self.birth = None

    def _begin(self, cluster_id: str, hard: HardState, founding: Founding | None) -> None:
        """Keeps what it begins with, then goes on as a start would."""
        self._storage.begin(cluster_id, hard, [founding.entry] if founding else [])
        if founding is not None:
            self.trust.founded()
        self._storage = RaftStorage(self.config.data, boot_id=machine_boot_id)
        stored = self._storage.open()
        assert stored is not None
        self._open(stored)

    async def _be_born(self) -> None:
        """Asks all the others who they are until there is a cluster to belong to."""
        birth = self.birth
        assert birth is not None
        if isinstance(self.config.cluster, PodAddresses) and birth.own.ordinal == min(birth.ordinals):
            assert self.kubernetes is not None
            birth.ordinals = await founders(birth.ordinals, self.kubernetes.wanted_controllers)
            self._peers.know(birth.ordinals)
        self._take(birth.alone())
        told = False
        while self.rooms is None:
            question = birth.ask()
            request = pb.IdentifyRequest(asker=_node(birth.own), nonce=question.nonce)
            answers = await self._peers.identify(request)
            for answer in answers:
                if answer is not None and self.rooms is None:
                    self._hear(birth, answer)
            if self.rooms is None:
                if not told and None in answers:
                    _log.info("waiting for all configured controllers, to found a cluster or to join theirs")
                    told = True
                await asyncio.sleep(ASK_EVERY_S)
        await self._stay_in()

    def _hear(self, birth: Birth, answer: pb.IdentifyAnswer) -> None:
        if answer.founding and answer.nonce == birth.nonce:
            try:
                founding = Founding(answer.cluster_id, Configuration.decode(answer.founding))
                birth.accept(founding)
            except ValueError as error:  # a peer's bytes: another answer may be sound
                _log.error("controller %d sent no founding document: %s", answer.answerer.ordinal, error)
                return
            except BirthRefusedError as error:
                _log.error("%s", error)
                return
            self._begin(founding.cluster_id, founding.hard_state, founding)
            return
        answerer = NodeId(answer.answerer.ordinal, answer.answerer.disk)
        self._take(birth.take(Answer(answerer, answer.nonce, answer.cluster_id)))

    def _take(self, step: Found | AskToBeAdded | None) -> None:
        if isinstance(step, Found):
            founding = step.founding
            _log.info("founds cluster %s", founding.cluster_id)
            self._begin(founding.cluster_id, founding.hard_state, founding)
        elif isinstance(step, AskToBeAdded):
            _log.info("joins cluster %s", step.cluster_id)
            self._begin(step.cluster_id, HardState(), None)

    async def _stay_in(self) -> None:
        """Asks to be added while it is no voter; finds out whether it was removed when no leader speaks."""
        assert self.rooms is not None
        member = self.rooms.member
        own = member.raft.own
        while True:
            await asyncio.sleep(ASK_EVERY_S)
            if member.is_missing(own):
                await self._ask_to_be_added(member, own)
            elif member.raft.leader is None:
                await self._ask_whether_removed(self.rooms)
            else:
                self.rooms.removed = ""

    async def _ask_to_be_added(self, member: Member, own: NodeId) -> None:
        request = pb.JoinRequest(
            node=_node(own), cluster_id=member.raft.cluster_id, min_level=OWN.lowest, max_level=OWN.highest
        )
        member.join(own)  # where it leads itself, and another disk of its ordinal still counts
        for why in await self._peers.ask_to_be_added(request):
            self._say_refused(own, why)

    def _say_refused(self, own: NodeId, why: str) -> None:
        """Once: it is asked again and again."""
        if why == self._refusal:
            return
        self._refusal = why
        _log.error("not added by the controllers: %s", why)
        if self.kubernetes is not None:
            most = f"; there are at most {MAX_CONTROLLERS}" if own.ordinal >= MAX_CONTROLLERS else ""
            text = f"Controller {own.ordinal} is not added to the others: {why}{most}."
            self.kubernetes.tell_of_controller(own.ordinal, text)

    async def _ask_whether_removed(self, rooms: Rooms) -> None:
        if rooms.removed or not await self._others_took_it_out(rooms.member):
            return
        raft = rooms.member.raft
        rooms.removed = (
            f"controller {raft.own.ordinal} was removed from cluster {raft.cluster_id}: stop it; to "
            f"let it join again, empty {self.config.data} first"
        )
        _log.error("%s", rooms.removed)
        if isinstance(self.config.cluster, PodAddresses):
            self._is_removed = True  # it is wanted again, as its pod says: it begins anew
            raise RemovedError(f"{rooms.removed}; it is set aside, and the next start begins empty")

    async def _others_took_it_out(self, member: Member) -> bool:
        request = pb.IdentifyRequest(asker=_node(member.raft.own), nonce=random.randrange(1 << 62))
        return member.is_removed(await self._peers.identify(request))

    # --- running ---

    def _tick(self) -> None:
        rooms = self.rooms
        if rooms is None:
            return
        rooms.tick()
        leads = rooms.desk.leads
        self._tell_health(leads)
        if self.kubernetes is not None:
            self.kubernetes.tick(rooms.scaling, leads=leads)

    def _tell_health(self, leads: bool) -> None:
        serving, not_serving = (
            health_pb2.HealthCheckResponse.SERVING,
            health_pb2.HealthCheckResponse.NOT_SERVING,
        )
        if leads is not self._told_leads:
            if self._told_leads is not None or leads:
                _log.info("this controller leads" if leads else "this controller doesn't lead any more")
            self._told_leads = leads
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
