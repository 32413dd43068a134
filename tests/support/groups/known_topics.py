"""Topics that a test makes, changes and deletes."""

from collections.abc import Mapping

from tank_node.coordinators.machine.topic_pattern import TopicPattern
from tank_node.coordinators.machine.topics import TopicId, Topics, TopicShape


class KnownTopics(Topics):
    """Topics by name, with their numbers of partitions."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self._shapes: dict[str, TopicShape] = {}
        self._ids = 0
        self._version = 0
        for name, count in partitions.items():
            self.make(name, count)

    def make(self, name: str, partitions: int) -> None:
        """Makes a topic, with an id of its own."""
        self._ids += 1
        self._shapes[name] = TopicShape(self._ids.to_bytes(16, "big"), name, partitions)
        self._version += 1

    def grow(self, name: str, partitions: int) -> None:
        """A topic has so many partitions by now."""
        self._shapes[name] = TopicShape(self._shapes[name].topic_id, name, partitions)
        self._version += 1

    def delete(self, name: str) -> None:
        """A topic is gone."""
        del self._shapes[name]
        self._version += 1

    @property
    def version(self) -> int:
        return self._version

    def named(self, name: str) -> TopicShape | None:
        return self._shapes.get(name)

    def of_id(self, topic_id: TopicId) -> TopicShape | None:
        return next((each for each in self._shapes.values() if each.topic_id == topic_id), None)

    def matching(self, pattern: str) -> frozenset[str]:
        found = TopicPattern(pattern)
        return frozenset(name for name in self._shapes if found.matches(name))
