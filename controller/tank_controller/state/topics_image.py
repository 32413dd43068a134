"""Topics and partitions as they were at one entry, while later ones change them. Pure.

Writing down a million partitions takes seconds. It is done in pieces, between which commands are applied: an
image holds what is small at once, and reads a partition when its turn comes. A partition that a command is
about to change before that is kept as it was (`keep`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tank_controller.state.codec import add_partition
from tank_controller.state.keys import key_of
from tank_controller.state.model import PartitionState, TopicState
from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True, frozen=True)
class ImagedTopic:
    """A topic as it was. Its list of partitions only grows."""

    topic_id: int
    name: str
    replication_factor: int
    settings: Mapping[str, str]
    was_replicated: bool
    partitions: list[PartitionState]
    count: int


class TopicsImage:
    """Of one moment. Reads states that are replaced and never changed, and partitions that are kept."""

    def __init__(self, topics: Mapping[int, TopicState], index: int) -> None:
        """`index`: the last entry that is in them."""
        self.topics = [
            ImagedTopic(
                topic.topic_id,
                topic.name,
                topic.replication_factor,
                topic.settings,
                topic.was_replicated,
                topic.partitions,
                len(topic.partitions),
            )
            for _, topic in sorted(topics.items())
        ]
        """In the order of their ids, in which they are to be written."""
        self._before: dict[int, PartitionState] = {}
        """By key: partitions that were changed since, as they were."""
        self._next = 0
        """What is written already is below this key."""
        self._end = key_of(index + 1, 0)
        """Topics of this key and above came later."""

    def keep(self, key: int, partition: PartitionState) -> None:
        """The partition is about to change."""
        if self._next <= key < self._end and key not in self._before:
            self._before[key] = partition.copy()

    def write(self, message: pb.Topic, topic: ImagedTopic, start: int, most: int) -> int:
        """Adds so many partitions at most; the number at which to go on, `topic.count` at the end."""
        end = min(start + most, topic.count)
        for number in range(start, end):
            before = self._before.pop(key_of(topic.topic_id, number), None)
            add_partition(message, number, before or topic.partitions[number])
        self._next = key_of(topic.topic_id, end)
        return end

    def written(self) -> None:
        """All of it."""
        self._next = self._end
