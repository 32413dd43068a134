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
from tank_controller.commands.machine import Metadata
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.leader.brokers.brokers import BrokerStreams
from tank_controller.leader.brokers.streams import Stream
from tank_controller.leader.leadership import ControllerLeadership, LeaderParts
from tank_controller.leader.proposals import Proposals
from tank_controller.limits import SESSION_TIMEOUT_MS
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import RaftMessage
from tank_controller.raft_node.disk_thread import DiskThread
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.replay import RaftStorageError
from tank_controller.raft_node.ticks import ALONE_TICK_MS, keep_ticking
from tank_node.clock import Clock
from tank_node.cluster.registration import Registration
from tank_node.cluster.stream import ControllerStream
from tank_protos.generated import control_pb2 as pb

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

LOG_FOLDER = "controller"
"""In the data folder: the controller's own folder."""
POLL_S = 0.001
"""The pause between two checks, at a start, whether an fsync has returned."""


class LocalRegistrationError(RuntimeError):
    """The controller refused this broker's registration; the message says why."""


class LocalController:
    """The controller; `link` is the node's interface to it. All calls on the event loop's thread."""

    def __init__(
        self,
        data: Path,
        cluster_id: str,
        broker_id: int,
        registration: Registration,
        clock: Clock,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self.link = ControllerStream(
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
        """Reads the metadata, waiting for the disk. Raises RaftStorageError, JournalError, SnapshotError,
        UnknownEntryError.
        """
        opened = open_alone(self._data / LOG_FOLDER, self._cluster_id, may_be_new=may_be_new)
        stored = opened.stored
        raft = Raft(
            opened.own, stored.cluster_id, stored.hard, stored.snapshot, stored.entries, random.randrange,
            base=stored.base,
        )  # fmt: skip
        disk = DiskThread(self._post)
        self.driver: RaftDriver[CommandOutcome] = RaftDriver(
            raft, opened.storage, _Nowhere(), self._metadata, disk, self._on_fatal
        )
        """Of the one log of metadata."""
        proposals = Proposals(self.driver, self._metadata)
        self.driver.start()
        parts = LeaderParts()
        leadership = ControllerLeadership(proposals, self._clock, os.urandom, SESSION_TIMEOUT_MS, parts)
        self._raising = parts.raising
        self._brokers = BrokerStreams(self._cluster_id, leadership, lambda: "")
        return opened

    async def lead(self) -> None:
        """Waits until everything that was ever committed is in the view. Raises the error that
        prevents it.
        """
        self._ticking = asyncio.create_task(keep_ticking(self._tick, ALONE_TICK_MS))
        await self._until(lambda: self.driver.ready and bool(self._metadata.state.peer_key))
        self.link.view.apply(self._metadata.state.delta())

    async def register(self) -> None:
        """Registers this process as the broker: the partitions that it leads get new epochs. Returns when the
        feature level is as high as it can be: the first client may need it. Raises
        LocalRegistrationError."""
        self._connect()
        await self._until(lambda: self.link.connected or self.link.refused is not None)
        if self.link.refused is not None:
            raise LocalRegistrationError(self.link.refused)
        await self._until(self._is_raised)

    def _is_raised(self) -> bool:
        """Whether the highest feature level that may be in force is in force, and in the view."""
        state = self._metadata.state
        told = self.link.view.feature_level == state.feature_level
        return told and self._raising.command(state, self._brokers.streams) is None

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            if (problem := self.driver.failed or self.driver.full) is not None:
                raise self._failure or RaftStorageError(problem)
            self._brokers.tick()
            await asyncio.sleep(POLL_S)

    async def stop(self) -> None:
        """Answers waiting requests and closes the log in order."""
        stopped = asyncio.Event()
        if self._ticking is not None:
            self._ticking.cancel()
        self.driver.stop(stopped.set)
        await stopped.wait()

    @property
    def trouble(self) -> str | None:
        """Why metadata can't be changed now; None while all is well."""
        return self.driver.trouble

    def collector(self) -> "Collector":
        """The controller's metrics, for Prometheus' library."""
        from tank_controller.api.metrics_collector import ControllerCollector

        return ControllerCollector(self.driver, self._metadata)

    def _connect(self) -> None:
        if self.link.target() is not None:
            self.link.opened(_LocalLine(self._brokers, self.link))

    def _tick(self) -> None:
        self.driver.tick()
        if self.driver.failed is None:
            self._brokers.tick()
        if self.link.broker_epoch:
            self.link.tick()
            self._connect()

    def _on_fatal(self, error: Exception) -> None:
        """From now on the metadata can't be changed, and /readyz says so; messages are still served."""
        self._failure = error


class _LocalLine:
    """Both ends of a stream within the process."""

    def __init__(self, brokers: BrokerStreams, link: ControllerStream) -> None:
        self._brokers = brokers
        self._link = link
        self._stream: Stream = brokers.opened(_Towards(self, link))

    def send(self, message: pb.BrokerUp) -> None:
        """Sends a message to the controller."""
        self._brokers.received(self._stream, message)

    def end(self) -> None:
        """Ends the stream from the broker's side."""
        self._brokers.closed(self._stream)


class _Towards:
    """The controller's end of the stream."""

    def __init__(self, line: _LocalLine, link: ControllerStream) -> None:
        self._line = line
        self._link = link

    def send(self, message: pb.BrokerDown) -> None:
        self._link.received(self._line, message)

    def end(self) -> None:
        self._link.closed(self._line, "the controller ended it")


class _Nowhere:
    """A transport without other controllers."""

    def send(self, messages: Sequence[RaftMessage]) -> None:
        assert not messages
