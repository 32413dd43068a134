"""In which order a leader takes committed positions: what was sent before a later one was kept is refused."""

import gc
import weakref
from pathlib import Path

import pytest

from tank_controller import limits
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import create
from tests.controller.office import Broker, Office


class Group:
    """One group, whose positions in a topic of two partitions two brokers are asked to keep."""

    def __init__(self, folder: Path) -> None:
        self.office = Office(folder)
        self.office.until(lambda: self.office.brokers.leads and self.office.state.peer_key)
        self.first, self.second = self.office.broker(1), self.office.broker(2)
        self.first.propose(create("t", 2))
        self.topic_id = self.first.outcome().topic_id
        self._number = 1

    def send(self, broker: Broker, *numbers: int, seen: int, name: str = "g") -> int:
        """Asks for positions by a broker that has seen so much; which request it is. 0: no position."""
        held = [
            pb.Position(topic_id=self.topic_id, partition=partition, sequence_number=number)
            for partition, number in enumerate(numbers)
            if number
        ]
        self._number += 1
        commit = pb.CommitPositions(group=name, positions=held)
        broker.propose(pb.Command(commit_positions=commit), self._number, seen)
        return self._number

    def keep(self, broker: Broker, *numbers: int, seen: int, name: str = "g") -> pb.ProposalOutcome:
        return broker.outcome(self.send(broker, *numbers, seen=seen, name=name))

    def position(self, partition: int = 0) -> int:
        return self.office.state.groups["g"][self.topic_id][partition].sequence_number


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_what_was_sent_before_another_broker_kept_a_later_one_is_refused(group: Group) -> None:
    seen = group.office.state.index
    assert group.keep(group.second, 8, seen=seen).results == [0]
    late = group.keep(group.first, 7, seen=seen)
    assert (late.error, group.position()) == (ErrorCode.TIMED_OUT, 8)
    assert late.index == group.office.state.index
    assert group.office.driven.driver.figures.refused_proposals["late_position"] == 1


def test_who_has_heard_of_the_later_one_is_taken_and_positions_may_be_set_back(group: Group) -> None:
    seen = group.office.state.index
    kept = group.keep(group.second, 8, seen=seen)
    late = group.keep(group.first, 3, seen=seen)
    assert late.index == kept.index == group.office.state.index > seen
    assert group.keep(group.first, 3, seen=late.index).results == [0]
    assert group.position() == 3


def test_a_later_one_counts_before_it_is_committed(group: Group) -> None:
    seen = group.office.state.index
    later = group.send(group.second, 8, seen=seen)
    late = group.send(group.first, 7, seen=seen)
    assert group.second.outcome(later).error == 0
    assert group.first.outcome(late).error == ErrorCode.TIMED_OUT
    assert group.position() == 8


def test_what_one_broker_sends_at_once_is_kept_in_its_order(group: Group) -> None:
    seen = group.office.state.index
    requests = [group.send(group.first, number, seen=seen) for number in (1, 2, 3)]
    assert [group.first.outcome(request).error for request in requests] == [0, 0, 0]
    assert group.position() == 3


def test_other_partitions_and_other_groups_are_no_hindrance(group: Group) -> None:
    seen = group.office.state.index
    group.keep(group.second, 8, seen=seen)
    assert group.keep(group.first, 0, 5, seen=seen).results == [0]
    assert group.keep(group.first, 5, seen=seen, name="another").results == [0]
    assert group.keep(group.first, 6, 6, seen=seen).error == ErrorCode.TIMED_OUT, "one of them is late"
    assert (group.position(0), group.position(1)) == (8, 5), "nothing of the command is kept"


def test_what_was_refused_itself_makes_nothing_late(group: Group) -> None:
    seen = group.office.state.index
    assert group.keep(group.second, 8, seen=seen, name="").error == ErrorCode.INVALID_NAME
    assert group.keep(group.first, 7, seen=seen, name="").error == ErrorCode.INVALID_NAME


def test_positions_of_topics_that_are_not_there_leave_those_that_are_their_place(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_POSITIONS_IN_ORDER", 1)
    seen = group.office.state.index
    assert group.keep(group.first, 5, seen=seen).results == [0]
    there, group.topic_id = group.topic_id, 99
    assert group.keep(group.second, 1, 2, seen=seen).results == [ErrorCode.UNKNOWN_TOPIC] * 2
    group.topic_id = there
    assert group.keep(group.first, 6, seen=seen).results == [0]
    assert group.keep(group.second, 4, seen=seen).error == ErrorCode.TIMED_OUT


def test_more_positions_than_a_command_may_have_leave_no_trace(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is under way at once with another is judged as it is applied, behind that one."""
    monkeypatch.setattr(limits, "MAX_POSITIONS_PER_COMMAND", 1)
    seen = group.office.state.index
    group.send(group.second, 0, 3, seen=seen)
    large = group.send(group.second, 8, 9, seen=seen)
    taken = group.send(group.first, 7, seen=seen)
    assert group.second.outcome(large).error == ErrorCode.TOO_LARGE
    assert group.first.outcome(taken).error == 0
    assert group.position() == 7


def test_a_stream_that_has_ended_is_not_kept_with_all_that_it_has_not_sent(group: Group) -> None:
    group.keep(group.second, 8, seen=group.office.state.index)
    line = weakref.ref(group.second.line)
    group.office.brokers.closed(group.second.stream)
    del group.second
    gc.collect()
    assert line() is None
    assert group.keep(group.first, 7, seen=1).error == ErrorCode.TIMED_OUT, "what it set counts"


def test_a_broker_that_names_no_entry_is_taken_as_before_and_makes_others_late(group: Group) -> None:
    seen = group.office.state.index
    group.keep(group.first, 7, seen=seen)
    assert group.keep(group.second, 8, seen=0).results == [0]
    assert group.keep(group.first, 9, seen=seen).error == ErrorCode.TIMED_OUT
    assert group.position() == 8


def test_a_full_table_takes_the_newest_of_those_that_it_forgets_for_all_others(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_POSITIONS_IN_ORDER", 1)
    seen = group.office.state.index
    forgotten = group.keep(group.second, 8, seen=seen).index
    group.keep(group.second, 0, 8, seen=seen)
    assert group.keep(group.first, 7, seen=seen).error == ErrorCode.TIMED_OUT
    assert group.keep(group.first, 7, seen=forgotten, name="another").results == [0]
