"""A broker with its controller in one process: what `tank serve` runs."""

from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING

from tank_cli.serve.local_controller import LocalController
from tank_controller.app.standalone import Standalone
from tank_node.app.config import Address
from tank_node.app.process import NodeProcess
from tank_node.broker.broker import Broker
from tank_node.cluster.link import ControllerLink
from tank_node.server.connections import Connections

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

_log = getLogger("tank")


class ServeProcess(NodeProcess):
    """`run` is its life. It raises what NodeProcess' does, and RaftStorageError, JournalError, SnapshotError,
    UnknownEntryError, RegistrationError.
    """

    def _recover(self) -> bool:
        """Its controller knows what there is: the logs are opened with the broker."""
        return False

    async def _open_controller(self) -> ControllerLink:
        meta = self.data_folder.meta
        folder = Path(self.data_folder.path)
        registration = self._registration()
        registration.replicates = False
        self._controller = controller = LocalController(
            folder, meta.cluster_id, meta.broker_id, registration, self.clock, self._post
        )
        topics = folder / "topics"
        _tell_of(controller.open(may_be_new=not self.data_folder.was_used))
        await controller.lead()
        # A crash may have come between the word that a topic is deleted and its files' end.
        for path in topics.iterdir():
            if path.name.isdigit() and controller.link.view.was_deleted(int(path.name)):
                self.data_folder.delete_topic(int(path.name))
        await controller.register()
        return controller.link

    def _replicate(self, broker: Broker, connections: Connections) -> None:
        """There are no others."""

    async def _ready(self, listen: Address) -> None:
        self._controller.link.serve()
        if listen.port != self.config.listen.port and self.config.advertise is None:
            self._controller.link.registration.port = listen.port
            await self._controller.register()

    async def _let_go(self) -> None:
        """Nobody else could lead."""

    async def _stop_controller(self) -> None:
        await self._controller.stop()

    def _collector(self) -> "Collector | None":
        from tank_cli.serve.collector import ServeCollector

        own = super()._collector()
        return None if own is None else ServeCollector(own, self._controller.collector())

    def _controller_problem(self) -> str | None:
        return self._controller.trouble


def _tell_of(opened: Standalone) -> None:
    for warning in opened.stored.warnings:
        _log.warning("%s", warning)
