"""The driver: an answer comes after the fsync, in order; what the disk refuses changes nothing."""

import queue
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tank_controller import journal as journal_module
from tank_controller import journal_driver, limits
from tank_controller.cluster_state import ClusterState
from tank_controller.files import AppendFile
from tank_controller.journal import Journal
from tank_controller.journal_driver import JournalDriver
from tank_controller.journal_format import JournalError
from tank_controller.outcome import Outcome
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import alter, commit, create, init_producer, register
from tests.controller.failing_files import FailingFiles


class CountingFiles(FailingFiles):
    """Counts fsyncs, and holds them while `gate` is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.gate = threading.Event()
        self.gate.set()

    def open_append(self, path: Path) -> AppendFile:
        real = super().open_append(path)
        sync = real.sync

        def counted() -> None:
            assert self.gate.wait(10)
            self.syncs += 1
            sync()

        real.sync = counted  # type: ignore[method-assign]
        return real


class Driven:
    """A driver whose event loop is a queue that the test runs."""

    def __init__(self, folder: Path) -> None:
        self.files = CountingFiles()
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.deltas: list[pb.Delta] = []
        self.outcomes: list[Outcome] = []
        self.driver = JournalDriver(Journal(folder, "c", self.files), self.posted.put, self.deltas.append)
        self.recovered = self.driver.open(may_be_new=True)

    def propose(self, *commands: pb.Command) -> None:
        for command in commands:
            self.driver.propose(command, self.outcomes.append)

    def run_until(self, outcomes: int) -> list[Outcome]:
        """Runs the loop until so many answers are there."""
        while len(self.outcomes) < outcomes:
            self.posted.get(timeout=10)()
        return self.outcomes

    def stop(self) -> None:
        stopped: list[bool] = []
        self.driver.stop(lambda: stopped.append(True))
        while not stopped:
            self.posted.get(timeout=10)()


def error(outcome: Outcome) -> ErrorCode:
    return ErrorCode.NONE if outcome.rejection is None else outcome.rejection.error


def test_nothing_is_answered_or_applied_before_the_fsync(tmp_path: Path) -> None:
    driven = Driven(tmp_path)
    driven.files.gate.clear()
    driven.propose(register())
    with pytest.raises(queue.Empty):
        driven.posted.get(timeout=0.05)
    assert (driven.outcomes, driven.driver.state.index, driven.deltas) == ([], 0, [])
    driven.files.gate.set()
    assert error(driven.run_until(1)[0]) is ErrorCode.NONE
    assert driven.driver.state.index == 1
    driven.stop()


def test_what_gathers_during_an_fsync_shares_the_next(tmp_path: Path) -> None:
    driven = Driven(tmp_path)
    driven.files.gate.clear()
    driven.propose(register(), *(create(f"t{n}") for n in range(50)))
    driven.files.gate.set()
    outcomes = driven.run_until(51)
    assert driven.files.syncs == 2
    assert [outcome.topic_id for outcome in outcomes] == [0, *range(2, 52)]
    driven.stop()


def test_everything_is_there_after_a_restart_stopped_in_order_or_not(tmp_path: Path) -> None:
    first = Driven(tmp_path)
    first.propose(register(), create("t", 3), init_producer("p", 1), commit("g", (2, 0, 9)))
    first.run_until(4)
    second = Driven(tmp_path)  # while the first one just lies there, as after a crash
    assert second.driver.state == first.driver.state
    assert second.recovered.last_index == 4
    second.propose(alter(2, 4))
    second.run_until(1)
    second.stop()
    third = Driven(tmp_path)
    assert third.driver.state == second.driver.state
    third.stop()


def test_snapshots_come_by_themselves_and_hold_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "MIN_SNAPSHOT_AFTER_BYTES", 600)
    driven = Driven(tmp_path)
    driven.propose(register())
    for number in range(60):
        driven.propose(create(f"topic-{number}", 2))
        driven.run_until(number + 2)
    driven.stop()
    assert len(list(tmp_path.glob("*.snapshot"))) == 2
    again = Driven(tmp_path)
    assert again.recovered.snapshot_index > 2
    assert again.driver.state.snapshot() == driven.driver.state.snapshot()
    again.stop()


def test_a_snapshot_is_made_in_the_disks_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MIN_SNAPSHOT_AFTER_BYTES", 1)
    makers: list[threading.Thread] = []
    make = ClusterState.snapshot

    def noted(state: ClusterState) -> bytes:
        makers.append(threading.current_thread())
        return make(state)

    monkeypatch.setattr(ClusterState, "snapshot", noted)
    driven = Driven(tmp_path)
    driven.propose(register())
    driven.run_until(1)
    driven.stop()
    assert makers
    assert threading.main_thread() not in makers, "the event loop has better uses for its time"


@pytest.mark.parametrize(
    ("entry", "message"),
    [(pb.Command(now_ms=1).SerializeToString(), "newer version: start that one"), (b"\xff", "no command")],
)
def test_an_entry_that_this_version_can_not_apply_is_never_skipped(
    tmp_path: Path, entry: bytes, message: str
) -> None:
    driven = Driven(tmp_path)
    driven.propose(register())
    driven.run_until(1)
    driven.stop()
    journal = Journal(tmp_path, "c")
    journal.open(may_be_new=False)
    journal.append([entry])
    journal.close()
    with pytest.raises(JournalError, match=message):
        Driven(tmp_path)


def test_what_would_be_rejected_anyway_is_not_written(tmp_path: Path) -> None:
    driven = Driven(tmp_path)
    driven.propose(register())
    driven.run_until(1)
    driven.propose(create("bad name"))
    assert error(driven.outcomes[1]) is ErrorCode.INVALID_NAME
    assert (driven.driver.state.index, driven.files.syncs) == (1, 1)
    driven.stop()


def test_of_two_that_race_for_a_name_one_gets_it(tmp_path: Path) -> None:
    driven = Driven(tmp_path)
    driven.propose(register(), create("t"), create("t"))
    assert [error(outcome) for outcome in driven.run_until(3)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.TOPIC_EXISTS,
    ]
    driven.stop()


def test_a_full_disk_is_an_error_and_changes_resume_when_there_is_room(tmp_path: Path) -> None:
    driven = Driven(tmp_path)
    driven.propose(register())
    driven.run_until(1)
    driven.files.room_bytes = 10
    driven.propose(create("t"))
    assert error(driven.run_until(2)[1]) is ErrorCode.STORAGE
    assert driven.driver.failed is None
    assert not driven.driver.state.topics
    driven.files.room_bytes = None
    driven.propose(create("t"))
    assert driven.run_until(3)[2].topic_id == 2
    driven.stop()
    assert Driven(tmp_path).driver.state.topic_ids == {"t": 2}


def test_a_failed_fsync_ends_all_changes_and_says_so(tmp_path: Path) -> None:
    driven = Driven(tmp_path)
    driven.propose(register())
    driven.run_until(1)
    driven.files.fail_sync = True
    driven.propose(create("t"))
    assert error(driven.run_until(2)[1]) is ErrorCode.STORAGE
    assert driven.driver.failed is not None
    assert "restart" in driven.driver.failed
    driven.files.fail_sync = False
    driven.propose(create("t"))
    assert error(driven.outcomes[2]) is ErrorCode.STORAGE
    driven.stop()


def test_too_many_or_too_large_proposals_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_driver, "MAX_WAITING_PROPOSALS", 2)
    monkeypatch.setattr(limits, "MAX_COMMAND_BYTES", 100)
    driven = Driven(tmp_path)
    driven.propose(register())
    driven.run_until(1)
    driven.files.gate.clear()
    driven.propose(create("a"), create("b"), create("c"), create("d"))
    assert error(driven.outcomes[1]) is ErrorCode.OVERLOADED
    driven.files.gate.set()
    driven.run_until(5)
    driven.propose(commit("g", *[(2, 0, n) for n in range(99)]))
    assert error(driven.outcomes[5]) is ErrorCode.TOO_LARGE
    monkeypatch.setattr(journal_driver, "MAX_WAITING_BYTES", 1)
    driven.files.gate.clear()
    driven.propose(create("e"), create("f"), create("g"))
    assert error(driven.outcomes[6]) is ErrorCode.OVERLOADED
    driven.files.gate.set()
    assert [error(outcome) for outcome in driven.run_until(9)[7:]] == [ErrorCode.NONE] * 2
    driven.stop()


def test_stopping_answers_what_waits_and_takes_nothing_more(tmp_path: Path) -> None:
    driven = Driven(tmp_path)
    driven.files.gate.clear()
    driven.propose(register(), create("t"))
    driven.driver.stop(lambda: driven.outcomes.append(Outcome(pb.Delta())))
    driven.propose(create("u"))
    assert error(driven.outcomes[0]) is ErrorCode.OVERLOADED
    driven.files.gate.set()
    driven.run_until(4)
    assert Driven(tmp_path).driver.state.topic_ids == {"t": 2}


def test_a_listener_that_fails_keeps_nobody_from_his_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driven = Driven(tmp_path)

    def fail(outcome: Outcome) -> None:
        raise RuntimeError("listener")

    driven.files.gate.clear()
    driven.propose(register())
    driven.driver.propose(create("t"), fail)
    driven.propose(create("u"))
    driven.files.gate.set()
    assert driven.run_until(2)[1].topic_id == 3
    assert "listener" in caplog.text
    driven.stop()
