"""A Raft driver on files, run by hand."""

import queue
from collections.abc import Callable, Sequence
from pathlib import Path

from tank_controller.commands.machine import Metadata
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.raft.birth import Birth
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import NodeId, RaftMessage
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.disk_thread import DiskThread
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.files import OsFiles
from tank_controller.raft_node.storage import RaftStorage
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb
from tests.controller.raft_node.failing_files import FailingFiles


class Nowhere:
    """A network without anybody else."""

    def send(self, messages: Sequence[RaftMessage]) -> None:
        assert not messages


class Driven:
    """A driver whose event loop is a queue that the test runs."""

    def __init__(
        self,
        folder: Path,
        files: OsFiles | None = None,
        snapshot_after_bytes: int = 1 << 20,
        max_level: int = OWN.highest,
    ) -> None:
        self.files = files or FailingFiles()
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.outcomes: list[CommandOutcome | Exception] = []
        self.fatal: list[Exception] = []
        self.machine = Metadata(max_level)
        storage = RaftStorage(folder, self.files, snapshot_after_bytes=snapshot_after_bytes)
        stored = storage.open()
        if stored is None:
            own = NodeId(1, storage.disk)
            found = Birth(own, frozenset({1}), lambda below: 0, lambda: "cluster").alone()
            assert found is not None
            storage.begin(found.founding.cluster_id, found.founding.hard_state, [found.founding.entry])
            storage = RaftStorage(folder, self.files, snapshot_after_bytes=snapshot_after_bytes)
            stored = storage.open()
        assert stored is not None
        self.storage = storage
        self.own = NodeId(1, storage.disk)
        raft = Raft(
            self.own, stored.cluster_id, stored.hard, stored.snapshot, stored.entries, lambda below: 0,
            base=stored.base,
        )  # fmt: skip
        self.driver = RaftDriver(
            raft, storage, Nowhere(), self.machine, DiskThread(self.posted.put), self.fatal.append
        )
        self.driver.start()

    def run_until(self, done: Callable[[], object]) -> None:
        while not done():
            self.posted.get(timeout=10)()

    def lead(self) -> "Driven":
        """Time passes until it leads and may be asked."""
        while self.driver.raft.role is not RaftRole.LEADER:
            self.driver.tick()
        self.run_until(lambda: self.driver.raft.own_term_committed)
        return self

    def propose(self, *proposed: pb.Command) -> list[CommandOutcome | Exception]:
        before = len(self.outcomes)
        for command in proposed:
            self.driver.propose(command.SerializeToString(), self.outcomes.append)
        self.run_until(lambda: len(self.outcomes) == before + len(proposed))
        return self.outcomes[before:]

    def stop(self) -> None:
        stopped: list[bool] = []
        self.driver.stop(lambda: stopped.append(True))
        self.run_until(lambda: stopped)
