"""The controller's link of a node that has its controller in the same process: for `tank serve`.

The controller is Raft with one voter: the same code as in a cluster, and nothing between it and the node.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tank_controller import queries
from tank_controller.metadata import Metadata
from tank_controller.outcome import Outcome
from tank_controller.proposals import Proposals
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import Message
from tank_controller.raft_disk import DiskThread
from tank_controller.raft_driver import RaftDriver
from tank_controller.raft_replay import RaftStorageError
from tank_controller.standalone import Standalone, open_alone
from tank_controller.ticks import keep_ticking
from tank_node.clock import Clock
from tank_node.controller_link import ChangeOutcome, InSyncChange, ReplicaEnd
from tank_node.controller_requests import Answered, Proposed, RequestingLink
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

LOG_FOLDER = "controller"
"""In the data folder: what a controller of its own has as its folder."""
JOURNAL_FOLDER = "metadata"
"""Where earlier versions kept the metadata."""


POLL_S = 0.001
"""How often a start looks whether the first fsync has returned."""


class RegistrationError(RuntimeError):
    """The controller doesn't take this broker; the message says why."""


class LocalController(RequestingLink):
    """Implements `tank_node.controller_link.ControllerLink`. All calls on the event loop's thread."""

    def __init__(
        self,
        data: Path,
        cluster_id: str,
        broker_id: int,
        clock: Clock,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        super().__init__(cluster_id, broker_id, clock)
        self._data = data
        self._post = post
        self._metadata = Metadata()
        self._failure: Exception | None = None

    def open(self, *, may_be_new: bool) -> Standalone:
        """Reads the metadata, waiting for the disk. RaftStorageError, JournalError, SnapshotError,
        UnknownEntryError.
        """
        opened = open_alone(
            self._data / LOG_FOLDER, self._data / JOURNAL_FOLDER, self.view.cluster_id, may_be_new=may_be_new
        )
        stored = opened.stored
        raft = Raft(
            opened.own, stored.cluster_id, stored.hard, stored.snapshot, stored.entries, random.randrange,
            base=stored.base,
        )  # fmt: skip
        disk = DiskThread(self._post)
        self._driver: RaftDriver[Outcome] = RaftDriver(
            raft, opened.storage, _Nowhere(), self._metadata, disk, self._on_fatal
        )
        self._proposals = Proposals(self._driver, self._metadata)
        self._driver.start()
        return opened

    async def lead(self) -> None:
        """Waits until the view holds everything that was ever committed. Raises what keeps it from that."""
        self._ticking = asyncio.create_task(keep_ticking(self._driver.tick))
        while not self._driver.ready:
            if (problem := self._driver.failed or self._driver.full) is not None:
                raise self._failure or RaftStorageError(problem)
            await asyncio.sleep(POLL_S)
        self.view.apply(self._metadata.state.delta())
        self._metadata.on_delta = self._take_delta

    async def register(self, incarnation: bytes, disk_uuid: bytes, host: str, port: int, rack: str) -> None:
        """Says that this process is the broker now: what it leads, it leads in new epochs.
        RegistrationError.
        """
        register = pb.RegisterBroker(
            broker_id=self.view.broker_id,
            incarnation=incarnation,
            disk_uuid=disk_uuid,
            endpoints=[pb.Endpoint(name="tank", host=host, port=port)],
            rack=rack,
        )
        outcome: asyncio.Future[pb.ProposalOutcome] = asyncio.get_running_loop().create_future()
        self._propose(self._dated(pb.Command(register_broker=register)), outcome.set_result)
        if (await outcome).error:
            raise RegistrationError(outcome.result().message)
        self._registered(self.view.brokers[self.view.broker_id].epoch)

    async def stop(self) -> None:
        """Answers what waits and ends the log in good order."""
        stopped = asyncio.Event()
        self._ticking.cancel()
        self._driver.stop(stopped.set)
        await stopped.wait()

    @property
    def failed(self) -> str | None:
        """Why nothing can be changed any more; None while all is well."""
        return self._driver.failed

    def _on_fatal(self, error: Exception) -> None:
        """The metadata stands still from here on, and /readyz says so; messages go on."""
        self._failure = error

    # --- what the node asks, but for what every link does ---

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        """Nobody asks: with one broker there is nobody to choose from."""

    def propose_in_sync(self, changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        """Refused: the only replica is the in-sync set."""
        done(ChangeOutcome(ErrorCode.INVALID_REQUEST, _ALONE, [ErrorCode.INVALID_REQUEST] * len(changes)))

    def report_failed(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        """Refused: nobody else could lead."""
        done(ChangeOutcome(ErrorCode.INVALID_REQUEST, _ALONE, [ErrorCode.INVALID_REQUEST] * len(partitions)))

    def _propose(self, command: pb.Command, done: Proposed, *, validate_only: bool = False) -> None:
        if validate_only:
            done(self._proposals.judge(command).as_message())
        else:
            self._proposals.propose(command, lambda outcome: done(outcome.as_message()))

    def _query(self, query: pb.BrokerQuery, done: Answered) -> None:
        whole = pb.QueryAnswer()
        for part in queries.answers(self._metadata.state, query):
            whole.MergeFrom(part)
        done(whole)


_ALONE = "this broker is alone: nobody else holds a replica"


class _Nowhere:
    """The way to no other controllers."""

    def send(self, messages: Sequence[Message]) -> None:
        assert not messages
