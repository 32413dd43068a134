"""Commands on their way into the log: what askers are told, and what the log is spared."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tank_controller import limits
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.leader.proposals import PRODUCER_USE_NOTED_MS, Proposals
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import alter, commit, create, init_producer, register
from tests.controller.raft_node.failing_files import FailingFiles
from tests.support.controllers.driven import Driven


class Asked:
    """A controller of one voter with a broker, and what it answered."""

    def __init__(self, folder: Path) -> None:
        self.files = FailingFiles()
        self.driven = Driven(folder, self.files).lead()
        self.proposals = Proposals(self.driven.driver, self.driven.machine)
        self.outcomes: list[CommandOutcome] = []
        self.deltas: list[pb.Delta] = []
        self.driven.machine.on_delta = self.deltas.append
        assert self.ask(register()) is ErrorCode.NONE

    def propose(self, *commands: pb.Command) -> None:
        for command in commands:
            self.proposals.propose(command, self.outcomes.append)

    def answers(self, number: int) -> list[ErrorCode]:
        """The errors of the last so many."""
        self.driven.run_until(lambda: len(self.outcomes) >= number)
        return [error(outcome) for outcome in self.outcomes[-number:]]

    def ask(self, command: pb.Command) -> ErrorCode:
        self.outcomes.clear()
        self.propose(command)
        return self.answers(1)[0]

    @property
    def entries(self) -> int:
        return self.driven.driver.raft.log.last_index


def error(outcome: CommandOutcome) -> ErrorCode:
    return ErrorCode.NONE if outcome.rejection is None else outcome.rejection.error


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def test_an_outcome_comes_with_its_delta_before_it(asked: Asked) -> None:
    assert asked.ask(create("t")) is ErrorCode.NONE
    assert asked.deltas[-1].topics[0].topic_id == asked.outcomes[0].topic_id
    assert asked.ask(init_producer("", 0)) is ErrorCode.NONE
    assert asked.deltas[-1].topics, "an entry that changes nothing that brokers know gives no delta"


def test_what_would_be_rejected_anyway_is_not_written(asked: Asked) -> None:
    entries = asked.entries
    assert asked.ask(create("bad name")) is ErrorCode.INVALID_NAME
    assert asked.entries == entries


def test_what_is_refused_by_the_state_of_now_is_not_written_behind_what_came_later(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_answers: list[Callable[[Exception | None], None]] = []
    monkeypatch.setattr(asked.driven.driver, "read", late_answers.append)
    early = alter(asked.entries + 1, 5)
    asked.outcomes.clear()
    asked.propose(early, create("t"))
    assert asked.answers(1) == [ErrorCode.NONE]
    late_answers[0](None)
    assert asked.answers(2) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC]
    (topic,) = asked.driven.machine.state.topics.values()
    assert len(topic.partitions) == 1


def test_of_two_that_race_for_a_name_one_gets_it(asked: Asked) -> None:
    asked.outcomes.clear()
    asked.propose(create("t"), create("t"))
    assert asked.answers(2) == [ErrorCode.NONE, ErrorCode.TOPIC_EXISTS]


def test_too_many_and_too_large_ones_are_refused(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WAITING_PROPOSALS", 2)
    monkeypatch.setattr(limits, "MAX_COMMAND_BYTES", 100)
    asked.outcomes.clear()
    asked.propose(create("a"), create("b"), create("c"))
    assert error(asked.outcomes[0]) is ErrorCode.OVERLOADED
    assert asked.answers(3)[1:] == [ErrorCode.NONE, ErrorCode.NONE]
    assert asked.ask(commit("g", *[(2, 0, n) for n in range(99)])) is ErrorCode.TOO_LARGE


def test_a_producer_that_asks_again_within_the_hour_writes_nothing(asked: Asked) -> None:
    first = init_producer("p", 1)
    assert asked.ask(first) is ErrorCode.NONE
    producer_id, entries = asked.outcomes[0].producer_id, asked.entries
    assert asked.ask(first) is ErrorCode.NONE
    assert (asked.outcomes[0].producer_id, asked.entries) == (producer_id, entries)
    first.now_ms += PRODUCER_USE_NOTED_MS
    assert asked.ask(first) is ErrorCode.NONE
    assert (asked.outcomes[0].producer_id, asked.entries) == (producer_id, entries + 1)


def test_who_does_not_lead_says_so(asked: Asked) -> None:
    raft = asked.driven.driver.raft
    raft.become_follower(raft.term + 1, None)
    assert asked.ask(create("t")) is ErrorCode.NO_LEADER
    problems: list[Rejected | None] = []
    asked.proposals.read(problems.append)
    assert problems[0] is not None
    assert problems[0].error is ErrorCode.NO_LEADER


def test_a_failed_disk_is_named(asked: Asked) -> None:
    asked.files.fail_sync = True
    for _ in range(2):
        assert asked.ask(create("t")) is ErrorCode.STORAGE
        assert "check the disk" in str(asked.outcomes[0].rejection)


def test_a_full_disk_is_named_and_changes_resume_when_there_is_room(asked: Asked) -> None:
    asked.files.room_bytes = 10
    assert asked.ask(create("t")) is ErrorCode.STORAGE
    assert "make room" in str(asked.outcomes[0].rejection)
    assert asked.ask(create("u")) is ErrorCode.STORAGE
    asked.files.room_bytes = None
    asked.driven.driver.tick()
    asked.driven.run_until(lambda: asked.driven.driver.idle)
    assert asked.ask(create("t")) is ErrorCode.TOPIC_EXISTS, "what waited for room came to be"


def test_a_judgement_changes_nothing(asked: Asked) -> None:
    assert error(asked.proposals.judge(create("t"))) is ErrorCode.NONE
    assert error(asked.proposals.judge(create("bad name"))) is ErrorCode.INVALID_NAME
    assert not asked.driven.machine.state.topics


def test_an_asker_that_fails_keeps_nobody_from_his_answer(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(outcome: CommandOutcome) -> None:
        raise RuntimeError("asker")

    asked.outcomes.clear()
    asked.proposals.propose(create("t"), fail)
    asked.propose(create("u"))
    assert asked.answers(1) == [ErrorCode.NONE]
    assert "asker" in caplog.text
