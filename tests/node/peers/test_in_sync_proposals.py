"""What a leader proposes of in-sync sets: when it sends a proposal again, and which answers count."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tank_node.cluster.link import ChangeOutcome, InSyncChange
from tank_node.limits import Limits
from tank_node.partition.leader import PartitionLeader
from tank_protos.error_codes import ErrorCode
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.leading import append

Proposal = tuple[InSyncChange, Callable[[ChangeOutcome], None]]
REFUSED = ChangeOutcome(ErrorCode.NONE, "", [ErrorCode.STALE_EPOCH])
TAKEN = ChangeOutcome(ErrorCode.NONE, "", [ErrorCode.NONE])


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """A follower is gone, and the leader has proposed to go on without it."""
    cell = BrokerCell(tmp_path, 3)
    cell.create(flush="replicated")
    cell.run(300)
    cell.judge = lambda node: None
    cell.disconnect(1, 3)
    append(cell.nodes[1], b"x", Told(), 0)
    cell.run(4000)
    yield cell
    cell.close()


def proposed(cell: BrokerCell) -> list[Proposal]:
    return cell.nodes[1].controller.proposed


def leadership(cell: BrokerCell) -> PartitionLeader:
    found = cell.nodes[1].partition().leadership
    assert isinstance(found, PartitionLeader)
    return found


def test_a_proposal_whose_outcome_the_view_does_not_show_is_sent_again(cell: BrokerCell) -> None:
    ((first, _),) = proposed(cell)
    assert [broker_id for broker_id, _ in first.in_sync] == [1, 2]
    cell.run(2400)
    assert [change for change, _ in proposed(cell)] == [first, first]


def test_after_a_refusal_another_is_proposed(cell: BrokerCell) -> None:
    ((first, done),) = proposed(cell)
    done(REFUSED)
    assert leadership(cell).in_sync.proposed is None
    assert cell.nodes[1].metrics.in_sync_refusals == {"stale_epoch": 1}
    cell.run(250)
    assert [change for change, _ in proposed(cell)] == [first, first]


def test_the_refusal_of_an_earlier_sending_means_nothing_yet(cell: BrokerCell) -> None:
    cell.run(2400)
    (_, early), (_, late) = proposed(cell)
    early(REFUSED)
    assert leadership(cell).in_sync.proposed is not None, "the later one may be taken"
    late(REFUSED)
    assert leadership(cell).in_sync.proposed is None


def test_the_refusal_of_an_earlier_proposal_means_nothing_for_its_successor(cell: BrokerCell) -> None:
    ((_, early),) = proposed(cell)
    cell.change(leader=1)  # a higher partition epoch: what was proposed has an outcome
    cell.run(250)
    assert len(proposed(cell)) == 2
    early(REFUSED)
    assert leadership(cell).in_sync.proposed is not None
    assert not cell.nodes[1].metrics.in_sync_refusals


def test_that_a_proposal_was_taken_the_view_says_alone(cell: BrokerCell) -> None:
    ((first, done),) = proposed(cell)
    done(TAKEN)
    assert leadership(cell).in_sync.proposed == first.in_sync
    assert leadership(cell).in_sync.members == (1, 2, 3)


def test_an_answer_for_a_partition_that_is_led_no_more_changes_nothing(cell: BrokerCell) -> None:
    ((_, done),) = proposed(cell)
    cell.change(leader=2)
    done(REFUSED)
    assert not cell.nodes[1].metrics.in_sync_refusals


def test_one_command_carries_a_bounded_number_of_proposals(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 3, Limits(changes_per_proposal=2))
    cell.create(partitions=5, flush="replicated")
    cell.run(300)
    cell.judge = lambda node: None
    sent: list[int] = []

    def noted(changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        sent.append(len(changes))

    cell.nodes[1].controller.propose_in_sync = noted  # type: ignore[method-assign]
    cell.disconnect(1, 3)
    leader = cell.nodes[1]
    leader.broker.begin_tick()
    for number in range(5):
        leader.partition(number=number).append(memoryview(batch_of(b"x")), Told(), number)
    leader.broker.end_tick()
    cell.run(4000)
    assert sent == [2, 2, 1]
    cell.close()
