"""A broker that serves Iggy's clients, with the controllers' own state behind it."""

from pathlib import Path

from tank_node.broker.broker import Broker
from tank_node.coordinators.groups_at_start import GroupsAtStart
from tank_node.broker.maintenance import Maintenance
from tank_node.disk import Disk, OsDisk
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.peers.group_router import router_of
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_protos import feature_levels
from tests.support.controllers.state_controller import StateController
from tests.support.manual_clock import ManualClock
from tests.support.nodes.bench_node import BenchNode


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
        GroupsAtStart(self.broker, lambda: self._coordinate())
        self.maintenance = Maintenance(self.broker)

    def _coordinate(self) -> None:
        router_of(self.broker)

    def settle(self, ms: int = 0) -> None:
        """Disks sync, timers fire, and what they lead to is done."""
        for _ in range(4):
            self.pass_ms(ms)
            self.tick()
            self.sync()
            self.tick()
