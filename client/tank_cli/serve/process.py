"""A broker with its controller in one process, for `tank serve`."""

from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING

from tank_cli.serve.local_controller import LocalController
from tank_controller.app.standalone import Standalone
from tank_node.app.process import NodeProcess
from tank_node.broker.broker import Broker
from tank_node.cluster.link import ControllerLink
from tank_node.server.connections import Connections

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

_log = getLogger("tank")


class ServeProcess(NodeProcess):
    """`run` returns when the process ends. Raises the errors of NodeProcess.run, and RaftStorageError,
    JournalError, SnapshotError, UnknownEntryError, RegistrationError.
    """

    auto_creates = True
    group_initial_delay_ms = 0

    def _recover(self) -> bool:
        """Opens the metadata; the logs are opened with the broker, because the controller knows all
        topics.
        """
        return False

    async def _open_controller(self) -> ControllerLink:
        meta = self.data_folder.meta
        folder = Path(self.data_folder.path)
        registration = self._registration()
        registration.replicates = False
        self._controller = controller = LocalController(
            folder, meta.cluster_id, meta.broker_id, registration, self.clock, self._post
        )
        controller.link.requests.exposures = self.config.iggy_expose
        topics = folder / "topics"
        _tell_of(controller.open(may_be_new=not self.data_folder.was_used))
        await controller.lead()
        # A crash may have come between the deletion of a topic and the removal of its files.
        for path in topics.iterdir():
            if path.name.isdigit() and controller.link.view.was_deleted(int(path.name)):
                self.data_folder.delete_topic(int(path.name))
        await controller.register()
        return controller.link

    def _replicate(self, broker: Broker, connections: Connections) -> None:
        """Does nothing: there are no other brokers."""

    async def _ready(self) -> None:
        self._controller.link.serve()

    async def _let_go(self) -> None:
        """Does nothing: no other broker could lead."""

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
