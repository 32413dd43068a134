"""What reaches the leading controller late: by an old socket, or because the leader was held up itself."""

from pathlib import Path

import pytest

from tank_controller.limits import BROKEN_STREAM_GRACE_MS
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import create
from tests.controller.office import Office


@pytest.fixture
def office(tmp_path: Path) -> Office:
    office = Office(tmp_path)
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    return office


def commit(topic_id: int, sequence_number: int) -> pb.Command:
    position = pb.Position(topic_id=topic_id, sequence_number=sequence_number)
    return pb.Command(commit_positions=pb.CommitPositions(group="g", positions=[position]))


def test_positions_that_come_by_an_old_socket_do_not_overtake_those_of_another_broker(office: Office) -> None:
    cut_off, other = office.broker(1), office.broker(2)
    other.propose(create("t"))
    topic_id = other.outcome().topic_id

    def wait_for_the_fence() -> bool:
        other.beat()
        return office.state.brokers[1].fenced

    office.until(wait_for_the_fence)
    other.propose(commit(topic_id, 20), 2)
    assert other.outcome(2).error == 0
    cut_off.propose(commit(topic_id, 10), 3)  # sent before, by a stream that nobody has ended
    assert cut_off.outcome(3).error == ErrorCode.TIMED_OUT
    assert office.state.groups["g"][topic_id][0].sequence_number == 20
    cut_off.beat()
    office.until(lambda: not office.state.brokers[1].fenced)
    cut_off.propose(commit(topic_id, 30), 4)
    assert cut_off.outcome(4).error == 0


def test_a_broker_whose_stream_broke_while_the_leader_was_held_up_is_heard_before_it_is_judged(
    office: Office,
) -> None:
    before = office.broker(1)
    office.brokers.closed(before.stream)
    office.clock.pass_ms(BROKEN_STREAM_GRACE_MS + 100)
    office.brokers.tick()
    again = office.stream(1, view_index=before.line.index)  # it was in the socket all the time
    office.until(lambda: again.line.all("registered"))
    office.pass_ms(200)
    assert not office.state.brokers[1].fenced


def test_a_leader_that_is_held_up_again_and_again_judges_all_the_same(office: Office) -> None:
    broker = office.broker(1)
    office.brokers.closed(broker.stream)

    def fenced_by_late_ticks() -> bool:
        office.clock.pass_ms(BROKEN_STREAM_GRACE_MS)
        return office.state.brokers[1].fenced

    office.until(fenced_by_late_ticks)
