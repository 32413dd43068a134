"""A leader and its followers, as real brokers in one process: what is acknowledged, who is in sync."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import ChangeOutcome
from tank_node.disk import OsDisk
from tank_node.log.log import LogState
from tank_node.partition.leader import PartitionLeader
from tank_node.partition.waiters import ProducerStamp
from tank_node.segment.index import TAIL_RECORDS
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceTopic
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append, errors, members
from tests.support.nodes.replicas import assert_copies


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    yield cell
    cell.close()


@pytest.mark.parametrize("flush", ["disk", "replicated"])
def test_what_is_acknowledged_is_on_all_in_sync(cell: BrokerCell, flush: str) -> None:
    cell.create(flush=flush)
    cell.run(200)
    told = Told()
    for token in range(20):
        append(cell.nodes[1], b"x" * 100, told, token)
    assert not told.told, "nobody else has it yet"
    cell.run(300)
    assert errors(told) == [ErrorCode.NONE] * 20
    for broker_id in (2, 3):
        assert_copies(cell.nodes[1].log(), cell.nodes[broker_id].log())
        assert cell.nodes[broker_id].partition().high_water_mark == 20
        assert cell.nodes[broker_id].log().synced == 20 or flush == "replicated"


def test_one_that_is_cut_off_holds_the_mark_until_it_has_left_the_in_sync_set(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.disconnect(1, 3)
    told = Told()
    append(cell.nodes[1], b"x", told, 0)
    cell.run(2900)
    assert not told.told
    assert members(cell) == (1, 2, 3)
    cell.run(600)
    assert members(cell) == (1, 2)
    assert errors(told) == [ErrorCode.NONE]
    cell.connect(1, 3)
    cell.run(3000)
    assert members(cell) == (1, 2, 3)
    assert_copies(cell.nodes[1].log(), cell.nodes[3].log())


def test_an_idle_partition_keeps_a_member_that_is_cut_off(cell: BrokerCell) -> None:
    cell.create()
    told = Told()
    append(cell.nodes[1], b"x", told, 0)
    cell.run(500)
    assert errors(told) == [ErrorCode.NONE]
    cell.disconnect(1, 3)
    cell.run(8000, 200)
    assert members(cell) == (1, 2, 3)


def test_old_and_proposed_members_are_waited_for_until_the_view_shows_the_outcome(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.disconnect(1, 3)
    cell.judge = lambda node: None  # the controller does not answer
    told = Told()
    append(cell.nodes[1], b"x", told, 0)
    cell.run(4000)
    assert cell.nodes[1].controller.proposed
    assert not told.told, "3 may still be a member: a timeout is no outcome"
    cell.judge = cell.accept
    cell.run(200)
    assert members(cell) == (1, 2)
    assert errors(told) == [ErrorCode.NONE]
    # The other way: one that was proposed counts at once.
    cell.judge = lambda node: None
    cell.connect(1, 3)
    cell.run(3000)
    assert cell.nodes[1].controller.proposed
    cell.disconnect(1, 3)
    append(cell.nodes[1], b"y", told, 1)
    cell.run(1000)
    assert 1 not in told.told, "3 may be a member by now"
    cell.judge = cell.accept
    cell.run(300)
    assert 1 not in told.told
    cell.run(4000)
    assert errors(told) == [ErrorCode.NONE] * 2


def test_a_proposal_names_members_with_the_epochs_of_their_processes(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.disconnect(1, 3)
    cell.judge = lambda node: None
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(4000)
    (change, _) = cell.nodes[1].controller.proposed[0]
    assert change.in_sync == (
        (1, cell.nodes[1].controller.broker_epoch),
        (2, cell.nodes[2].controller.broker_epoch),
    )
    assert (change.leader_epoch, change.partition_epoch) == (1, 1)


def test_a_proposal_is_sent_again_as_it_was_and_its_last_refusal_is_an_outcome(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.disconnect(1, 3)
    cell.judge = lambda node: None
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(6000)
    proposed = cell.nodes[1].controller.proposed
    assert len(proposed) == 2
    (first, judge_first), (second, judge_second) = proposed
    assert first == second
    refused = ChangeOutcome(ErrorCode.NONE, "", [ErrorCode.INVALID_REQUEST])
    leadership = cell.nodes[1].broker.topics["a"].partitions[0].leadership
    assert leadership is not None
    judge_first(refused)
    assert leadership.in_sync.proposed == first.in_sync, "the second one is under way"  # type: ignore[attr-defined]
    judge_second(ChangeOutcome(ErrorCode.OVERLOADED, "not judged"))
    assert leadership.in_sync.proposed == first.in_sync  # type: ignore[attr-defined]
    judge_second(refused)
    assert leadership.in_sync.proposed is None  # type: ignore[attr-defined]


def test_too_few_in_sync_refuse_appends_and_stop_the_mark(cell: BrokerCell) -> None:
    cell.create(min_insync=2, flush="replicated")
    cell.run(200)
    told = Told()
    cell.disconnect(1, 2)
    cell.disconnect(1, 3)
    append(cell.nodes[1], b"x", told, 0, timeout_ms=10_000)
    cell.run(4000)
    assert members(cell) == (1,)
    append(cell.nodes[1], b"y", told, 1)
    assert told.told == {1: (ErrorCode.NOT_ENOUGH_REPLICAS, 0, 0)}
    assert cell.nodes[1].log().last == 1, "nothing of it is stored"
    assert cell.nodes[1].partition().high_water_mark == 0
    cell.connect(1, 2)
    cell.run(3000)
    assert told.told[0][0] is ErrorCode.NONE


@pytest.mark.parametrize("leaves", ["fenced", "draining", "shutting_down"])
def test_who_is_about_to_leave_is_not_proposed(cell: BrokerCell, leaves: str) -> None:
    broker = cell.nodes[1].controller.view.brokers[3]
    setattr(broker, leaves, True)
    cell.create(flush="replicated")
    cell.change(in_sync=(1, 2))
    proposed = []
    cell.judge = lambda node: proposed.extend(node.controller.proposed)
    cell.run(3000)
    assert not proposed
    setattr(broker, leaves, False)
    cell.run(300)
    assert proposed


def test_what_is_not_acknowledged_in_time_may_still_be_committed(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.disconnect(1, 3)
    told = Told()
    append(cell.nodes[1], b"x", told, 0, timeout_ms=1000)
    cell.run(1100)
    cell.nodes[1].broker.begin_tick()
    cell.nodes[1].broker.give_up_late()
    assert errors(told) == [ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]
    cell.run(4000)
    assert cell.nodes[1].partition().high_water_mark == 1


@pytest.mark.parametrize(
    ("required", "in_sync", "error"),
    [(0, 2, 0), (255, 2, 0), (1, 2, 0), (2, 2, 4), (2, 3, 0), (3, 3, 4), (254, 3, 4)],
)
def test_a_client_says_how_many_must_be_in_sync(
    cell: BrokerCell, required: int, in_sync: int, error: int
) -> None:
    cell.create(flush="replicated")
    cell.change(in_sync=(1, 2, 3)[:in_sync])
    cell.judge = lambda node: None
    cell.run(200)
    client = cell.nodes[1].client()
    entry = ProducePartition(0, memoryview(batch_of(b"x")))
    for _ in range(2):  # the second one may go a shorter way
        client.send(ProduceRequest(2, 1, "", required, 0, [ProduceTopic("a", [entry])]))
        cell.run(200)
        ((_, payload),) = client.answers()
        assert payload[4] == error
    assert cell.nodes[1].log().last == (0 if error else 2)


def test_a_repeat_is_answered_when_the_mark_has_passed_its_first_copy(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    cell.disconnect(1, 3)
    told = Told()
    producer = ProducerStamp(9, 0, 0)
    append(cell.nodes[1], b"x", told, 0, producer)
    append(cell.nodes[1], b"x", told, 1, producer)
    cell.run(1000)
    assert not told.told
    cell.run(4000)
    assert told.told == {0: (ErrorCode.NONE, 1, 1), 1: (ErrorCode.NONE, 1, 1)}
    assert cell.nodes[1].log().last == 1


def test_the_mark_reaches_followers_without_news_within_a_tenth_of_a_second(cell: BrokerCell) -> None:
    cell.create(flush="replicated")
    cell.run(500)
    append(cell.nodes[1], b"x", Told(), 0)
    while cell.nodes[1].partition().high_water_mark < 1:
        cell.step()
    assert cell.nodes[2].partition().high_water_mark == 0
    cell.clock.pass_ms(50)
    cell.step()
    cell.step()
    assert cell.nodes[2].partition().high_water_mark == 1


def test_an_index_that_cannot_be_read_is_no_answer_to_how_much_a_follower_lacks(
    cell: BrokerCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell.create(flush="replicated")
    cell.run(200)
    node, told = cell.nodes[1], Told()
    for token in range(2 * TAIL_RECORDS + 1):
        append(node, b"x", told, token)
    cell.run(300)
    leadership = node.partition().leadership
    assert isinstance(leadership, PartitionLeader)
    assert leadership.bytes_behind(1) > 0
    for segment in node.log().segments:
        segment.index.drop_memory()

    def refuse(disk: OsDisk, fd: int, size: int, position: int) -> bytes:
        raise OSError(5, "worn out")

    monkeypatch.setattr(OsDisk, "read_at", refuse)
    assert leadership.bytes_behind(1) == 0
    assert (node.metrics.storage_errors, node.log().state) == (1, LogState.ACTIVE)
