"""The offsets that a group has committed."""

import sys
from collections.abc import Iterable, Iterator, Mapping

from tank_node.coordinators.group_requests import CommittedOffset, TopicPartition


class CommittedOffsets:
    """Committed offsets by partition, as far as they are stored; and which of them are being changed.

    A change is begun when it is appended, and ends when it is below the high-water mark, or failed. The ends
    come in the order of the log.
    """

    def __init__(self) -> None:
        self._stored: dict[TopicPartition, CommittedOffset] = {}
        self._changing: dict[TopicPartition, int] = {}
        """How many changes of a partition's offset are under way."""

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
        return self._stored.get(partition)

    def items(self) -> Iterable[tuple[TopicPartition, CommittedOffset]]:
        """All of them."""
        return self._stored.items()

    def partitions(self) -> set[TopicPartition]:
        """Those that have one, or may have one when what is under way has ended."""
        return self._stored.keys() | self._changing.keys()

    def of_topic(self, topic: str) -> list[TopicPartition]:
        """The partitions of this topic that have one."""
        return [partition for partition in self._stored if partition[0] == topic]

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
                self.load(partition, offset)

    def load(self, partition: TopicPartition, offset: CommittedOffset | None) -> None:
        """Takes over what the log says."""
        if offset is None:
            self._stored.pop(partition, None)
        else:
            self._stored[sys.intern(partition[0]), partition[1]] = offset

    def is_changing(self, partition: TopicPartition) -> bool:
        """Whether a change of this one is under way."""
        return partition in self._changing
