"""The books of Iggy's clients see what must not be."""

import pytest

from tank_node.coordinators.iggy.consumer_ids import named_consumer
from tank_node.coordinators.machine.committed_offset import CommittedOffset
from tank_node.coordinators.records.group_records import batch_of, offset_record
from tank_node.segment.record import FORMAT_KAFKA, Record
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.books.stored_batches import Batch
from tests.simulation.iggy.iggy_marks import IggyMarks, MarkPlace
from tests.simulation.world.world import Violation, World

CONSUMER = named_consumer("alone")
GROUPS = (9, 0)
"""The partition of the internal topic."""
PLACE = MarkPlace(CONSUMER, 7, 1)


def store(marks: IggyMarks, committed: int, epoch: int, topic_id: int = 7) -> None:
    """The mark of the internal topic passes a record of the consumer in partition 1."""
    record = offset_record(CONSUMER, "main.orders", 1, CommittedOffset(committed, epoch))
    data = batch_of([record], 0, {0: topic_id})
    content = Record(1, 0, 0, len(data), 0, 0, 0, 0, 0, 0, 0, FORMAT_KAFKA, 0, 1)
    marks.committed(GROUPS, Batch(1, 1, content, bytes(data)))


@pytest.fixture
def marks() -> IggyMarks:
    return IggyMarks(MessageBooks(World(0)))


def test_an_offset_that_goes_back_is_seen(marks: IggyMarks) -> None:
    store(marks, 5, 1)
    store(marks, 6, 1)
    with pytest.raises(Violation, match="goes back from 6 to 3"):
        store(marks, 3, 1)


def test_a_client_may_put_it_back(marks: IggyMarks) -> None:
    store(marks, 5, 1)
    marks.explicit[PLACE].add(3)
    store(marks, 3, 1)
    assert [mark.committed for mark in marks.history[PLACE]] == [5, 3]


def test_an_offset_of_a_deposed_leader_is_seen(marks: IggyMarks) -> None:
    store(marks, 5, 2)
    with pytest.raises(Violation, match="the leader of epoch 1 stores 6"):
        store(marks, 6, 1)


def test_a_partition_made_anew_and_a_purged_topic_begin_again(marks: IggyMarks) -> None:
    store(marks, 5, 2)
    marks.floors[7, 1] = 4
    store(marks, 1, 5)
    store(marks, 1, 0, topic_id=8)
    assert len(marks.history) == 2
