"""The offsets that a group has committed, and those it is about to."""

from tank_node.coordinators.machine.group_memory import OFFSET_BYTES, GroupMemory
from tank_node.coordinators.machine.group_requests import CommittedOffset
from tank_node.coordinators.offsets.committed_offsets import CommittedOffsets
from tank_node.coordinators.records.kept_offset import kept

ORDERS = ("orders", 0)


def test_a_commit_is_shown_once_it_is_stored() -> None:
    offsets = CommittedOffsets()
    offsets.begin([ORDERS])
    assert offsets.get(ORDERS) is None
    offsets.end({ORDERS: CommittedOffset(7)}, is_stored=True)
    assert offsets.get(ORDERS) == CommittedOffset(7)
    assert list(offsets) == [ORDERS]


def test_a_commit_that_failed_is_never_shown() -> None:
    offsets = CommittedOffsets()
    offsets.load(ORDERS, kept(CommittedOffset(3)))
    offsets.begin([ORDERS])
    offsets.end({ORDERS: CommittedOffset(7)}, is_stored=False)
    assert offsets.get(ORDERS) == CommittedOffset(3)


def test_a_partition_changes_until_all_its_changes_have_ended() -> None:
    offsets = CommittedOffsets()
    offsets.begin([ORDERS])
    offsets.begin([ORDERS])
    offsets.end({ORDERS: CommittedOffset(7)}, is_stored=True)
    assert offsets.is_changing(ORDERS)
    offsets.end({ORDERS: None}, is_stored=True)
    assert not offsets.is_changing(ORDERS)
    assert offsets.is_unused


def test_an_offset_that_is_gone_may_be_gone_twice() -> None:
    offsets = CommittedOffsets()
    offsets.load(ORDERS, None)
    assert len(offsets) == 0


def test_what_is_stored_is_counted() -> None:
    memory = GroupMemory()
    offsets = CommittedOffsets(memory)
    offsets.load(ORDERS, kept(CommittedOffset(7, metadata="note")))
    offsets.load(("returns", 0), kept(CommittedOffset(7)))
    assert (memory.offsets, memory.held_bytes) == (2, 2 * OFFSET_BYTES + 4)
    offsets.load(ORDERS, kept(CommittedOffset(8, metadata="longer note")))
    assert (memory.offsets, memory.held_bytes) == (2, 2 * OFFSET_BYTES + 11)
    offsets.load(ORDERS, None)
    offsets.load(ORDERS, None)
    assert (memory.offsets, memory.held_bytes) == (1, OFFSET_BYTES)
    assert dict(offsets.items()).keys() == {("returns", 0)}
