"""Committed offsets as a coordinator keeps them."""

import pytest

from tank_node.coordinators.machine.committed_offset import NO_TOPIC_ID, CommittedOffset
from tank_node.coordinators.machine.group_memory import text_bytes
from tank_node.coordinators.records.group_records import offset_record
from tank_node.coordinators.records.kept_offset import kept, note_bytes_of, offset_of, topic_id_of
from tests.node.coordinators.records.some_offsets import OFFSETS

ALL = [offset for offset in OFFSETS if offset is not None]


def of_topic(offset: CommittedOffset, topic_id: int) -> CommittedOffset:
    """The same offset of a topic with this id."""
    return CommittedOffset(
        offset.offset, offset.leader_epoch, offset.metadata, offset.commit_ms, offset.expire_ms, topic_id
    )


@pytest.mark.parametrize("topic_id", [NO_TOPIC_ID, 77, 2**64 - 1])
@pytest.mark.parametrize("offset", ALL)
def test_an_offset_comes_back_as_it_was_kept(offset: CommittedOffset, topic_id: int) -> None:
    before = of_topic(offset, topic_id)
    found = offset_of(kept(before))
    if offset.expire_ms < 0:
        assert found == before
    else:  # the version of a record that has such a time has no epoch
        assert (found.offset, found.commit_ms, found.expire_ms) == (1, 10, 20)
    assert found.topic_id == topic_id == topic_id_of(kept(before))
    assert note_bytes_of(kept(before)) == text_bytes(offset.metadata)


@pytest.mark.parametrize("offset", ALL)
def test_it_is_the_value_of_its_record_and_its_topics_id(offset: CommittedOffset) -> None:
    _, value = offset_record("g", "t", 1, offset)
    assert value is not None
    assert kept(of_topic(offset, 2**40)) == value + (2**40).to_bytes(8)
