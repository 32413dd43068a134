"""Topics and partitions as they were at one entry, while later entries change them. Pure.

To write a million partitions takes seconds, so it is done in pieces, between which commands are applied. An
image copies the small parts at once, and reads each partition when its turn comes; a partition that a command
is about to change is saved first (`keep`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tank_controller.state.codec import add_partition
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.keys import key_of
from tank_controller.state.model import PartitionState, TopicState
from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True, frozen=True)
class ImagedTopic:
    """A topic at the moment of the image. Its list of partitions only grows: where some are removed, the
    topic gets another list.
    """

    topic_id: int
    name: str
    replication_factor: int
    settings: Mapping[str, str]
    was_replicated: bool
    iggy: IggyPart | None
    epoch_floor: int
    partitions: list[PartitionState]
    count: int


class TopicsImage:
    """Topics at one moment. It reads values that are replaced and never changed, and partitions that `keep`
    has saved.
    """

    def __init__(self, topics: Mapping[int, TopicState], index: int) -> None:
        """`index`: the last entry that the image contains."""
        self.topics = [
            ImagedTopic(
                topic.topic_id,
                topic.name,
                topic.replication_factor,
                topic.settings,
                topic.was_replicated,
                topic.iggy,
                topic.epoch_floor,
                topic.partitions,
                len(topic.partitions),
            )
            for _, topic in sorted(topics.items())
        ]
        """The topics in the order of their ids, in which they are written."""
        self._before: dict[int, PartitionState] = {}
        """Saved partitions, by key, as they were before they changed."""
        self._next = 0
        """Partitions below this key are written."""
        self._end = key_of(index + 1, 0)
        """Topics of this key and above were created after the image."""

    def keep(self, key: int, partition: PartitionState) -> None:
        """Saves a partition that is about to change."""
        if self._next <= key < self._end and key not in self._before:
            self._before[key] = partition.copy()

    def write(self, message: pb.Topic, topic: ImagedTopic, start: int, most: int) -> int:
        """Adds at most `most` partitions to the message; returns the number at which to go on, `topic.count`
        at the end.
        """
        end = min(start + most, topic.count)
        for number in range(start, end):
            before = self._before.pop(key_of(topic.topic_id, number), None)
            add_partition(message, number, before or topic.partitions[number])
        self._next = key_of(topic.topic_id, end)
        return end

    def written(self) -> None:
        """Notes that everything is written."""
        self._next = self._end
