"""A broker that serves Iggy's clients, with the controllers' own state behind it."""

import os
from collections.abc import Callable
from pathlib import Path

from tank_node.broker.broker import Broker
from tank_node.broker.maintenance import Maintenance
from tank_node.cluster.users.link import UserOutcome
from tank_node.coordinators.groups_at_start import GroupsAtStart
from tank_node.disk import Disk, OsDisk
from tank_node.iggy.access import IggyAccess
from tank_node.iggy.services import IggyServices
from tank_node.iggy.settings import IggySettings
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.peers.group_router import router_of
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_node.users.authorizer import IggyAuthorizer
from tank_node.users.logins import Later, UserLogins
from tank_node.users.recent_logins import RecentLogins
from tank_protos import feature_levels
from tank_protos.users.secret import Secret
from tests.support.controllers.state_controller import StateController
from tests.support.iggy.plain_passwords import PlainPasswords, plain_hash
from tests.support.manual_clock import ManualClock
from tests.support.nodes.bench_node import BenchNode


def _at_once(delay_ms: int, call: Callable[[], None]) -> None:
    call()


class IggyNode(BenchNode):
    """As BenchNode, at Iggy's feature level."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        level: int = feature_levels.IGGY,
        disk: Disk | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.state = StateController(self.clock, level)
        self.metrics = Metrics()
        self.posted: list[object] = []
        disk = disk or OsDisk()
        self.data_folder = DataFolder.open(str(folder), disk, self.clock)
        self.flusher = Flusher(disk, self.posted.append, clock=lambda: self.clock.monotonic_ms() / 1000)
        self.broker = Broker(
            self.data_folder, self.state, self.flusher, self.clock, limits or Limits(), self.metrics
        )
        self.broker.open()
        GroupsAtStart(self.broker, self._coordinate)
        self.maintenance = Maintenance(self.broker)

    def services(self, settings: IggySettings | None = None, later: Later = _at_once) -> IggyServices:
        """What sessions share: users without argon2, and the root user `iggy`, password `iggy`. `later`: of
        logins."""
        users, passwords = self.state.view.users, PlainPasswords()
        if users.by_number(0) is None and self.state.view.feature_level >= feature_levels.IGGY:
            founded: list[UserOutcome] = []
            self.state.requests.users.found_root("iggy", plain_hash(Secret(b"iggy")), founded.append)
            assert founded[0].error == 0, founded
        logins = UserLogins(users, passwords, RecentLogins(bytes(32)), self.clock, later, self.metrics.logins)
        access = IggyAccess(logins, IggyAuthorizer(users), passwords, os.urandom)
        return IggyServices(access, settings or IggySettings(anonymous=True))

    def _coordinate(self) -> None:
        router_of(self.broker)

    def settle(self, ms: int = 0) -> None:
        """Disks sync, timers fire, and what they lead to is done."""
        for _ in range(4):
            self.pass_ms(ms)
            self.tick()
            self.sync()
            self.tick()
