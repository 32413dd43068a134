"""The offsets that a group has committed."""

import sys
from collections.abc import Iterable, Iterator, Mapping

from tank_node.coordinators.machine.committed_offset import CommittedOffset
from tank_node.coordinators.machine.group_memory import OFFSET_BYTES, GroupMemory
from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.records.kept_offset import kept, note_bytes_of, offset_of


class CommittedOffsets:
    """Committed offsets by partition, as far as they are stored; and which of them are being changed.

    A change is begun when it is appended, and ends when it is below the high-water mark, or failed. The ends
    come in the order of the log.
    """

    __slots__ = ("_changing", "_memory", "_stored")

    def __init__(self, memory: GroupMemory | None = None) -> None:
        """memory: counts the offsets, beside those of other groups."""
        self._stored: dict[TopicPartition, bytes] = {}
        """As `kept_offset` has them."""
        self._changing: dict[TopicPartition, int] = {}
        """How many changes of a partition's offset are under way."""
        self._memory = memory or GroupMemory()

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._stored)

    @property
    def is_unused(self) -> bool:
        """Whether there are none, and none under way."""
        return not self._stored and not self._changing

    def get(self, partition: TopicPartition) -> CommittedOffset | None:
        """What is committed, or None."""
        found = self._stored.get(partition)
        return None if found is None else offset_of(found)

    def kept(self, partition: TopicPartition) -> bytes | None:
        """What is committed, as `kept_offset` has it, or None."""
        return self._stored.get(partition)

    def items(self) -> Iterable[tuple[TopicPartition, CommittedOffset]]:
        """All of them."""
        return [(partition, offset_of(found)) for partition, found in self._stored.items()]

    def partitions(self) -> set[TopicPartition]:
        """Those that have one, or may have one when what is under way has ended."""
        return self._stored.keys() | self._changing.keys()

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Changes of these were appended. They don't expire until the changes have ended."""
        for partition in partitions:
            self._changing[partition] = self._changing.get(partition, 0) + 1

    def end(self, changes: Mapping[TopicPartition, CommittedOffset | None], *, is_stored: bool) -> None:
        """The changes that were begun together are stored, or failed. None: the offset is gone."""
        for partition, offset in changes.items():
            left = self._changing.pop(partition, 1) - 1
            if left:
                self._changing[partition] = left
            if is_stored:
                if partition not in self._stored:
                    partition = sys.intern(partition[0]), partition[1]
                self.load(partition, None if offset is None else kept(offset))

    def load(self, partition: TopicPartition, offset: bytes | None) -> None:
        """Takes over what the log says. partition: many share the name of their topic, which is interned.
        offset: as `kept_offset` has it; None: it is gone."""
        before = self._stored.get(partition)
        if offset is None:
            if before is not None:
                del self._stored[partition]
                self._memory.add(0, -1, -OFFSET_BYTES - note_bytes_of(before))
        elif before is None:
            self._stored[partition] = offset
            self._memory.add(0, 1, OFFSET_BYTES + note_bytes_of(offset))
        else:
            self._stored[partition] = offset
            changed = note_bytes_of(offset) - note_bytes_of(before)
            if changed:
                self._memory.add(0, 0, changed)

    def is_changing(self, partition: TopicPartition) -> bool:
        """Whether a change of this one is under way."""
        return partition in self._changing
