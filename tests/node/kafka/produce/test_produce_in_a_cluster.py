"""Produce where partitions have followers: acks, too few replicas in sync, and a leader that loses office."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.kafka import ProduceResponse
from tank_protos.generated.kafka.produce_response import PartitionProduceResponse
from tank_protos.kafka.record_batch import ProducerFields
from tests.support.clients.kafka_producer import ALL, NEWEST, Producer, batch_of, records_for
from tests.support.nodes.broker_cell import BrokerCell

VERSIONS = (0, 3, 9, NEWEST)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, brokers=2)
    yield cell
    cell.close()


def results(line: Producer) -> list[PartitionProduceResponse]:
    """The results in the answers since the last time, each of one batch."""
    answers = [line.read(frame, ProduceResponse, line.version)[1] for frame in line.frames()]
    return [answer.responses[0].partition_responses[0] for answer in answers]


def send(line: Producer, *, acks: int = ALL, timeout_ms: int = 1000) -> None:
    request = line.request((0, records_for(line.version, b"x")), acks=acks, timeout_ms=timeout_ms)
    line.send(request, line.version)


@pytest.mark.parametrize("version", VERSIONS)
def test_acks_of_1_is_answered_without_followers_and_all_with_them(cell: BrokerCell, version: int) -> None:
    cell.create(flush="replicated")
    cell.run()
    line = Producer(cell.nodes[1], version)
    send(line, acks=1)
    send(line, acks=ALL)
    assert [each.base_offset for each in results(line)] == [0]
    cell.run()
    assert [each.base_offset for each in results(line)] == [1]


def test_acks_of_1_waits_for_the_leaders_fsync_where_the_topic_wants_it(cell: BrokerCell) -> None:
    cell.create(flush="disk")
    cell.run()
    cell.disconnect(1, 2)
    line = Producer(cell.nodes[1])
    send(line, acks=1)
    assert results(line) == []
    cell.nodes[1].sync()
    assert [each.error_code for each in results(line)] == [0]


def test_answers_stay_in_order_when_a_later_one_is_complete_first(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run()
    line = Producer(cell.nodes[1])
    send(line, acks=ALL)
    send(line, acks=1)
    assert line.correlation_ids() == []
    cell.run()
    assert line.correlation_ids() == [1, 2]


@pytest.mark.parametrize("version", VERSIONS)
def test_with_too_few_in_sync_nothing_is_stored_for_acks_of_all(cell: BrokerCell, version: int) -> None:
    cell.create(flush="replicated", min_insync=2)
    cell.run()
    cell.change(in_sync=(1,))
    line = Producer(cell.nodes[1], version)
    send(line, acks=ALL)
    assert [(each.error_code, each.base_offset) for each in results(line)] == [(19, -1)]
    assert cell.nodes[1].log().last == 0
    send(line, acks=1)
    assert [(each.error_code, each.base_offset) for each in results(line)] == [(0, 0)]


def test_at_the_deadline_the_error_says_whether_too_few_are_in_sync(cell: BrokerCell) -> None:
    cell.create(flush="replicated", min_insync=2)
    cell.run()
    cell.disconnect(1, 2)
    leader, line = cell.nodes[1], Producer(cell.nodes[1])
    send(line, timeout_ms=100)
    cell.clock.pass_ms(101)
    leader.broker.begin_tick()
    leader.broker.give_up_late()
    assert [each.error_code for each in results(line)] == [7]
    send(line, timeout_ms=100)
    cell.change(in_sync=(1,))
    cell.clock.pass_ms(101)
    leader.broker.begin_tick()
    leader.broker.give_up_late()
    assert [(each.error_code, each.base_offset) for each in results(line)] == [(20, -1)]
    assert leader.log().last == 2, "a local write is never undone"


def test_a_leader_that_loses_office_names_the_next_one_at_once(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run()
    cell.disconnect(1, 2)
    line = Producer(cell.nodes[1])
    send(line)
    cell.change(leader=2)
    (frame,) = line.frames()
    answer = line.read(frame, ProduceResponse, NEWEST)[1]
    (result,) = answer.responses[0].partition_responses
    assert result.error_code == 6
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (2, 2)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(2, 9002)]


def test_a_former_leader_whose_view_is_late_does_not_name_itself(cell: BrokerCell) -> None:
    """A client that goes where it is sent would come back at once, again and again."""
    cell.create(flush="replicated")
    cell.run()
    former = cell.nodes[1].partition()
    former.believe(former.leader_epoch + 1)
    line = Producer(cell.nodes[1])
    answer = line.ask(line.request((0, records_for(NEWEST, b"x"))), ProduceResponse, NEWEST)
    (result,) = answer.responses[0].partition_responses
    assert result.error_code == 6
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (-1, -1)
    assert list(answer.node_endpoints) == []


def test_a_repeat_at_the_next_leader_is_stored_once(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run()
    batch = batch_of(b"x", producer=ProducerFields(9, 0, 0))
    for leader in (1, 2):
        line = Producer(cell.nodes[leader])
        line.send(line.request((0, batch)), NEWEST)
        cell.run()
        assert [(each.error_code, each.base_offset) for each in results(line)] == [(0, 0)]
        if leader == 1:
            cell.change(leader=2)
            cell.run()
    assert cell.nodes[2].log().last == 1


def test_a_deleted_topic_is_unknown_to_those_who_wait(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run()
    cell.disconnect(1, 2)
    line = Producer(cell.nodes[1])
    send(line)
    cell.nodes[1].controller.delete_topic("a", lambda outcome: None)
    assert [each.error_code for each in results(line)] == [3]
