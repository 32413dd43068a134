"""The driver on a real disk and the metadata's own state machine: a controller of one voter."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tank_controller.commands.machine import UnknownEntryError
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.raft.errors import OverloadedError
from tank_controller.raft.membership import Change, MembershipChangeKind
from tank_controller.raft.messages import Heartbeat, RaftMessage
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.driver import SNAPSHOT_AGAIN_TICKS, OutcomeUnknownError
from tank_controller.raft_node.replay import StorageFailedError
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import alter, create, register
from tests.controller.raft_node.failing_files import FailingFiles
from tests.support.controllers.driven import Driven


def topic_ids(outcomes: list[CommandOutcome | Exception]) -> list[int]:
    return [outcome.topic_id for outcome in outcomes if isinstance(outcome, CommandOutcome)]


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
    driven.driver.receive(RaftMessage("cluster", driven.own, driven.own, 9, Heartbeat(0, 0)))
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
    driven.posted.get(timeout=10)()  # it has tried again, in vain
    assert driven.driver.full
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
    driven.driver.change(Change(MembershipChangeKind.REMOVE, driven.own), answers.append)
    assert "the last voter stays" in str(answers.pop())
    driven.driver.receive(RaftMessage("elsewhere", driven.own, driven.own, 9, Heartbeat(0, 0)))
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
    assert driven.driver.raft.role is RaftRole.LEADER
    driven.run_until(lambda: driven.driver.ready)
    driven.stop()
