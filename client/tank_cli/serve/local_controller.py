"""A node's controller in the same process: for `tank serve`.

The controller is Raft with one voter: the same code as in a cluster. The node talks to it by the messages of
its stream, handed over without a network.
"""

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tank_controller.app.standalone import Standalone, open_alone
from tank_controller.leader.broker_clocks import BrokerClocks
from tank_controller.leader.brokers import BrokerDesk
from tank_controller.leader.liveness import BrokerSessions
from tank_controller.leader.proposals import Proposals
from tank_controller.leader.raising import Raising
from tank_controller.leader.streams import Stream
from tank_controller.leader.tasks import Duties
from tank_controller.limits import SESSION_TIMEOUT_MS
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import Message
from tank_controller.raft_node.disk_thread import DiskThread
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.replay import RaftStorageError
from tank_controller.raft_node.ticks import ALONE_TICK_MS, keep_ticking
from tank_controller.state.machine import Metadata
from tank_controller.state.outcome import Outcome
from tank_node.clock import Clock
from tank_node.cluster.session import ControllerSession, Registration
from tank_protos.generated import control_pb2 as pb

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

LOG_FOLDER = "controller"
"""In the data folder: what a controller of its own has as its folder."""
POLL_S = 0.001
"""How often a start looks whether an fsync has returned."""


class RegistrationError(RuntimeError):
    """The controller doesn't take this broker; the message says why."""


class LocalController:
    """The controller; `link` is what the node has of it. All calls on the event loop's thread."""

    def __init__(
        self,
        data: Path,
        cluster_id: str,
        broker_id: int,
        registration: Registration,
        clock: Clock,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self.link = ControllerSession(
            cluster_id, broker_id, ["this process"], registration, clock, random.randrange
        )
        self._data = data
        self._cluster_id = cluster_id
        self._clock = clock
        self._post = post
        self._metadata = Metadata()
        self._failure: Exception | None = None
        self._ticking: asyncio.Task[None] | None = None

    def open(self, *, may_be_new: bool) -> Standalone:
        """Reads the metadata, waiting for the disk. RaftStorageError, JournalError, SnapshotError,
        UnknownEntryError."""
        opened = open_alone(self._data / LOG_FOLDER, self._cluster_id, may_be_new=may_be_new)
        stored = opened.stored
        raft = Raft(
            opened.own, stored.cluster_id, stored.hard, stored.snapshot, stored.entries, random.randrange,
            base=stored.base,
        )  # fmt: skip
        disk = DiskThread(self._post)
        self._driver: RaftDriver[Outcome] = RaftDriver(
            raft, opened.storage, _Nowhere(), self._metadata, disk, self._on_fatal
        )
        proposals = Proposals(self._driver, self._metadata)
        self._driver.start()
        self._desk = BrokerDesk(
            self._cluster_id,
            proposals,
            self._metadata,
            self._clock,
            os.urandom,
            BrokerSessions,
            Duties,
            lambda: "",
            SESSION_TIMEOUT_MS,
            Raising(),
            BrokerClocks(),
        )
        return opened

    async def lead(self) -> None:
        """Waits until everything that was ever committed is in the view. Raises what keeps it from that."""
        self._ticking = asyncio.create_task(keep_ticking(self._tick, ALONE_TICK_MS))
        await self._until(lambda: self._driver.ready and bool(self._metadata.state.peer_key))
        self.link.view.apply(self._metadata.state.delta())

    async def register(self) -> None:
        """Says that this process is the broker now: what it leads, it leads in new epochs. Again where its
        address has changed. RegistrationError.
        """
        self.link.restart()
        self._connect()
        await self._until(lambda: self.link.connected or self.link.refused is not None)
        if self.link.refused is not None:
            raise RegistrationError(self.link.refused)

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            if (problem := self._driver.failed or self._driver.full) is not None:
                raise self._failure or RaftStorageError(problem)
            self._desk.tick()
            await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        """Answers what waits and ends the log in good order."""
        stopped = asyncio.Event()
        if self._ticking is not None:
            self._ticking.cancel()
        self._driver.stop(stopped.set)
        await stopped.wait()

    @property
    def trouble(self) -> str | None:
        """Why nothing can be changed at the moment, or any more; None while all is well."""
        return self._driver.trouble

    def collector(self) -> "Collector":
        """What Prometheus' library asks of the controller."""
        from tank_controller.api.metrics_collector import ControllerCollector

        return ControllerCollector(self._driver, self._metadata)

    def _connect(self) -> None:
        if self.link.target() is not None:
            self.link.opened(_LocalLine(self._desk, self.link))

    def _tick(self) -> None:
        self._driver.tick()
        if self._driver.failed is None:
            self._desk.tick()
        if self.link.broker_epoch:
            self.link.tick()
            self._connect()

    def _on_fatal(self, error: Exception) -> None:
        """The metadata stands still from here on, and /readyz says so; messages go on."""
        self._failure = error


class _LocalLine:
    """Both ends of a stream that has no wire."""

    def __init__(self, desk: BrokerDesk, link: ControllerSession) -> None:
        self._desk = desk
        self._link = link
        self._stream: Stream = desk.opened(_Towards(self, link))

    def send(self, message: pb.BrokerUp) -> None:
        """To the controller."""
        self._desk.received(self._stream, message)

    def end(self) -> None:
        """The node has given it up."""
        self._desk.closed(self._stream)


class _Towards:
    """The controller's end."""

    def __init__(self, line: _LocalLine, link: ControllerSession) -> None:
        self._line = line
        self._link = link

    def send(self, message: pb.BrokerDown) -> None:
        self._link.received(self._line, message)

    def end(self) -> None:
        self._link.closed(self._line, "the controller ended it")


class _Nowhere:
    """The way to no other controllers."""

    def send(self, messages: Sequence[Message]) -> None:
        assert not messages
