"""The driver on a real disk and the metadata's own state machine: a controller of one voter."""

import queue
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tank_controller.raft.birth import Birth
from tank_controller.raft.core import Raft
from tank_controller.raft.errors import OverloadedError
from tank_controller.raft.membership import Change, ChangeKind
from tank_controller.raft.messages import Heartbeat, Message, NodeId
from tank_controller.raft.state import Role
from tank_controller.raft_node.disk_thread import DiskThread
from tank_controller.raft_node.driver import SNAPSHOT_AGAIN_TICKS, RaftDriver
from tank_controller.raft_node.files import OsFiles
from tank_controller.raft_node.replay import StorageFailedError
from tank_controller.raft_node.storage import RaftStorage
from tank_controller.raft_node.waiting import OutcomeUnknownError
from tank_controller.state.machine import Metadata, UnknownEntryError
from tank_controller.state.outcome import Outcome
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import alter, create, register
from tests.controller.raft_node.failing_files import FailingFiles


class Nowhere:
    """A network without anybody else."""

    def send(self, messages: Sequence[Message]) -> None:
        assert not messages


class Driven:
    """A driver whose event loop is a queue that the test runs."""

    def __init__(
        self, folder: Path, files: OsFiles | None = None, snapshot_after_bytes: int = 1 << 20
    ) -> None:
        self.files = files or FailingFiles()
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.outcomes: list[Outcome | Exception] = []
        self.fatal: list[Exception] = []
        self.machine = Metadata()
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
        while self.driver.raft.role is not Role.LEADER:
            self.driver.tick()
        self.run_until(lambda: self.driver.raft.own_term_committed)
        return self

    def propose(self, *proposed: pb.Command) -> list[Outcome | Exception]:
        before = len(self.outcomes)
        for command in proposed:
            self.driver.propose(command.SerializeToString(), self.outcomes.append)
        self.run_until(lambda: len(self.outcomes) == before + len(proposed))
        return self.outcomes[before:]

    def stop(self) -> None:
        stopped: list[bool] = []
        self.driver.stop(lambda: stopped.append(True))
        self.run_until(lambda: stopped)


def topic_ids(outcomes: list[Outcome | Exception]) -> list[int]:
    return [outcome.topic_id for outcome in outcomes if isinstance(outcome, Outcome)]


def test_a_proposal_is_answered_with_its_outcome_and_is_there_after_a_restart(tmp_path: Path) -> None:
    first = Driven(tmp_path).lead()
    outcomes = first.propose(register(), create("t", 3), create("u"))
    assert topic_ids(outcomes)[1:] == [4, 5], "a topic's id is its entry's index, behind Raft's own two"
    second = Driven(tmp_path).lead()  # while the first one just lies there, as after a crash
    assert second.machine.state == first.machine.state
    assert second.driver.raft.term == first.driver.raft.term + 1
    second.propose(create("v"))
    second.stop()
    third = Driven(tmp_path).lead()
    assert sorted(third.machine.state.topic_ids) == ["t", "u", "v"]
    third.stop()


def test_what_gathers_during_an_fsync_shares_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path).lead()
    persisted: list[int] = []
    persist = driven.storage.persist

    def counted(hard: object, snapshot: object, entries: Sequence[object]) -> None:
        persisted.append(len(entries))
        persist(hard, snapshot, entries)  # type: ignore[arg-type]

    monkeypatch.setattr(driven.storage, "persist", counted)
    driven.propose(register(), *(create(f"t{n}") for n in range(50)))
    assert persisted == [1, 50]
    driven.stop()


def test_a_read_sees_everything_that_was_answered_before_it(tmp_path: Path) -> None:
    driven = Driven(tmp_path).lead()
    driven.propose(register(), create("t"))
    seen: list[object] = []
    driven.driver.read(lambda error: seen.append(error or driven.driver.applied))
    driven.run_until(lambda: seen)
    assert seen == [4]
    driven.stop()


def test_snapshots_come_by_themselves_and_hold_the_same_state(tmp_path: Path) -> None:
    driven = Driven(tmp_path, snapshot_after_bytes=600).lead()
    driven.propose(register())
    for number in range(60):
        driven.propose(create(f"topic-{number}", 2))
    driven.stop()
    assert len(list(tmp_path.glob("*.snapshot"))) == 2
    again = Driven(tmp_path).lead()
    assert again.machine.state == driven.machine.state
    again.stop()


def test_who_asks_while_it_is_told_does_not_get_between_the_entries_of_one_ready(tmp_path: Path) -> None:
    driven = Driven(tmp_path, snapshot_after_bytes=600).lead()
    driven.propose(register())
    reads: list[Exception | None] = []
    driven.machine.on_delta = lambda delta: driven.driver.read(reads.append)
    for number in range(20):
        driven.propose(*(create(f"topic-{number}-{each}") for each in range(5)))
    driven.run_until(lambda: len(reads) == 100)
    assert reads == [None] * 100
    driven.stop()
    assert list(tmp_path.glob("*.snapshot"))
    again = Driven(tmp_path).lead()
    assert len(again.machine.state.topics) == 100
    again.stop()


def test_while_a_large_snapshot_is_made_changes_are_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = Driven(tmp_path, snapshot_after_bytes=2000).lead()
    monkeypatch.setattr(driven.machine, "snapshot", lambda: driven.machine.state.snapshot_pieces(1))
    driven.propose(register())
    topics = 0
    while not driven.storage.snapshot_due:
        driven.propose(create(f"t{topics}", 3))
        topics += 1
    (topic_id,) = topic_ids(driven.propose(create("meanwhile")))
    driven.propose(alter(topic_id - 1, 5))
    assert not list(tmp_path.glob("*.snapshot")), "no time has passed, and it is not in one piece"
    ticks = 0
    while not list(tmp_path.glob("*.snapshot")):
        driven.driver.tick()
        ticks += 1
        driven.propose(create(f"more{ticks}"))
    assert ticks >= topics // 2
    driven.stop()
    again = Driven(tmp_path).lead()
    assert again.machine.state.topics.keys() == driven.machine.state.topics.keys()
    again.stop()


def test_a_snapshot_without_room_is_tried_again_after_a_while_and_changes_go_on(tmp_path: Path) -> None:
    class Counting(FailingFiles):
        tried = 0

        def replace(self, path: Path, content: bytes) -> None:
            self.tried += path.name.endswith(".snapshot")
            super().replace(path, content)

    files = Counting()
    driven = Driven(tmp_path, files, snapshot_after_bytes=600).lead()
    files.fail_replace = ".snapshot"
    for number in range(60):
        driven.propose(register() if number == 0 else create(f"topic-{number}"))
    assert files.tried == 1
    files.fail_replace = ""
    for number in range(SNAPSHOT_AGAIN_TICKS):
        driven.driver.tick()
        driven.propose(create(f"later-{number}"))
    assert files.tried == 2
    assert list(tmp_path.glob("*.snapshot"))
    driven.stop()


def test_a_failed_fsync_ends_the_controller_and_nobody_is_told_of_success(tmp_path: Path) -> None:
    files = FailingFiles()
    driven = Driven(tmp_path, files).lead()
    files.fail_sync = True
    assert isinstance(driven.propose(register())[0], OutcomeUnknownError)
    assert [type(error) for error in driven.fatal] == [StorageFailedError]
    files.fail_sync = False
    assert isinstance(driven.propose(register())[0], OverloadedError), "nothing is tried again"
    driven.driver.tick()
    driven.driver.receive(Message("cluster", driven.own, driven.own, 9, Heartbeat(0, 0)))
    assert driven.driver.raft.term < 9
    assert len(driven.fatal) == 1


def test_on_a_full_disk_it_waits_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    files = FailingFiles()
    driven = Driven(tmp_path, files).lead()
    files.room_bytes = 10
    driven.driver.propose(register().SerializeToString(), driven.outcomes.append)
    driven.run_until(lambda: driven.driver.full)
    assert isinstance(driven.outcomes.pop(), OutcomeUnknownError), "nobody knows when there is room"
    driven.driver.propose(create("t").SerializeToString(), driven.outcomes.append)
    assert "make room" in str(driven.outcomes.pop())
    driven.driver.tick()
    driven.run_until(lambda: driven.driver._disk.waits_for_room)
    files.room_bytes = None
    driven.driver.tick()
    driven.run_until(lambda: driven.driver.full is None and driven.driver.idle)
    assert driven.machine.state.brokers, "what was proposed before came to be"
    assert driven.fatal == []
    driven.propose(create("t"))
    driven.stop()
    assert list(Driven(tmp_path).lead().machine.state.topic_ids) == ["t"]


def test_it_stops_on_a_full_disk_too(tmp_path: Path) -> None:
    files = FailingFiles()
    driven = Driven(tmp_path, files).lead()
    files.room_bytes = 10
    driven.driver.propose(register().SerializeToString(), driven.outcomes.append)
    driven.run_until(lambda: driven.driver.full)
    stopped: list[bool] = []
    driven.driver.stop(lambda: stopped.append(True))
    driven.driver.tick()
    driven.run_until(lambda: stopped)
    assert isinstance(driven.outcomes[0], OutcomeUnknownError)


def test_it_stops_on_a_full_disk_though_no_tick_comes_any_more(tmp_path: Path) -> None:
    files = FailingFiles()
    driven = Driven(tmp_path, files).lead()
    files.room_bytes = 10
    driven.driver.propose(register().SerializeToString(), driven.outcomes.append)
    driven.run_until(lambda: driven.driver.full)
    driven.stop()
    files.room_bytes = None
    assert not Driven(tmp_path).lead().machine.state.brokers, "nobody was told that it came to be"


def test_it_stops_when_the_disk_is_full_at_last(tmp_path: Path) -> None:
    files = FailingFiles()
    driven = Driven(tmp_path, files).lead()
    files.room_bytes = 10
    driven.driver.propose(register().SerializeToString(), driven.outcomes.append)
    driven.stop()
    assert isinstance(driven.outcomes[0], OutcomeUnknownError)


def test_members_change_and_strangers_messages_are_counted(tmp_path: Path) -> None:
    driven = Driven(tmp_path).lead()
    answers: list[object] = []
    driven.driver.change(Change(ChangeKind.REMOVE, driven.own), answers.append)
    assert "the last voter stays" in str(answers.pop())
    driven.driver.receive(Message("elsewhere", driven.own, driven.own, 9, Heartbeat(0, 0)))
    assert driven.driver.figures.refused_messages == {"WrongClusterError": 1}
    driven.stop()
    driven.driver.propose(b"", driven.outcomes.append)
    assert "stopping" in str(driven.outcomes[0])


def test_an_entry_of_a_newer_version_ends_the_controller(tmp_path: Path) -> None:
    driven = Driven(tmp_path).lead()
    driven.propose(register())
    outcome = driven.propose(pb.Command(now_ms=1))[0]
    assert isinstance(outcome, OutcomeUnknownError)
    assert [type(error) for error in driven.fatal] == [UnknownEntryError]
    assert driven.driver.applied == 3, "the state stands still before it"
    again = Driven(tmp_path)
    again.run_until(lambda: again.fatal)
    assert "newer version" in str(again.fatal[0])
    stopped: list[bool] = []
    again.driver.stop(lambda: stopped.append(True))
    assert stopped


def test_the_only_voter_leads_at_once(tmp_path: Path) -> None:
    driven = Driven(tmp_path)
    assert driven.driver.raft.role is Role.LEADER
    driven.run_until(lambda: driven.driver.ready)
    driven.stop()
