"""The topics of the cluster, as a group's machine sees them."""

from dataclasses import dataclass
from typing import TypeAlias

TopicId: TypeAlias = bytes
"""A topic's id, 16 bytes: a topic that is made again under its name has another one."""
Place: TypeAlias = tuple[TopicId, int]
"""A topic's id and a partition's number."""
Places: TypeAlias = frozenset[Place]

NOWHERE: Places = frozenset()


class InvalidPattern(ValueError):
    """A pattern of topics' names that can't be read, or that is refused; the message says what is wrong."""


@dataclass(slots=True, frozen=True)
class TopicShape:
    """What matters of a topic to those who share its partitions."""

    topic_id: TopicId
    name: str
    partitions: int


class Topics:
    """The topics, as an interface. A machine asks it during its events, and keeps no answer longer than
    `version` stands."""

    __slots__ = ()

    @property
    def version(self) -> int:
        """A number that rises when topics come or go, or get partitions."""
        raise NotImplementedError

    def named(self, name: str) -> TopicShape | None:
        """The topic of this name."""
        raise NotImplementedError

    def of_id(self, topic_id: TopicId) -> TopicShape | None:
        """The topic with this id; None when it was deleted."""
        raise NotImplementedError

    def matching(self, pattern: str) -> frozenset[str]:
        """The names of the topics that match this pattern. Raises InvalidPattern."""
        raise NotImplementedError
