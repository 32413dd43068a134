"""What a program asks of a consumer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tank_client import errors
from tank_client.consuming.held_partitions import PartitionEvent
from tank_client.model import Route
from tank_client.routing.routes import check_topic
from tank_client.settings import ConsumerSettings, Start

OnPartitions: TypeAlias = Callable[[list[Route]], object]
"""Called with (topic, partition)s. The asynchronous client awaits what it returns, if that can be awaited."""
MOST_NAME_BYTES: Final = 255
"""The greatest size of a group's name and an instance id."""


@dataclass(slots=True, frozen=True)
class PartitionListener:
    """What a program wants to hear of its partitions in a group."""

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None

    def of(self, kind: PartitionEvent) -> OnPartitions | None:
        """The callback for that kind of change; without `on_lost`, `on_revoked` hears of losses, too."""
        if kind is PartitionEvent.ASSIGNED:
            return self.on_assigned
        if kind is PartitionEvent.LOST and self.on_lost is not None:
            return self.on_lost
        return self.on_revoked


@dataclass(slots=True, frozen=True)
class ReadingPlan:
    """The topics, where to begin, and the group. Raises InvalidArgument."""

    topics: list[str] | dict[str, list[int]]
    start: Start
    group: str | None
    stop_at_end: bool
    settings: ConsumerSettings
    instance_id: str = ""
    listener: PartitionListener = field(default_factory=PartitionListener)

    def __post_init__(self) -> None:
        for topic in self.topics:
            check_topic(topic)
        for what, name in (("group", self.group), ("instance_id", self.instance_id)):
            if name is not None and len(name.encode()) > MOST_NAME_BYTES:
                raise errors.InvalidArgument(f"{what}={name!r}: it has at most {MOST_NAME_BYTES} bytes")
        if not self.is_member and (self.instance_id or self.listener != PartitionListener()):
            raise errors.InvalidArgument(
                "instance_id, on_assigned, on_revoked and on_lost are for members of a group, which get "
                "their partitions from it: client.consumer('topic', group='name')"
            )

    @property
    def is_member(self) -> bool:
        """Whether the group is to share the topics' partitions out: it is named, and no partitions are."""
        return bool(self.group) and not isinstance(self.topics, dict)


def as_topics(topics: str | Iterable[str] | Mapping[str, Iterable[int]]) -> list[str] | dict[str, list[int]]:
    """The topics as lists: they are read again when partitions may have been added."""
    if isinstance(topics, Mapping):
        return {topic: list(partitions) for topic, partitions in topics.items()}
    # Bytes are a sequence, too, but not one of names.
    return [topics] if isinstance(topics, str | bytes) else list(topics)
