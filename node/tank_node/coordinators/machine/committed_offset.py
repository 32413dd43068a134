"""One committed offset."""

from typing import Final

NO_EPOCH: Final = -1
"""A leader epoch that the client did not say."""
NO_TOPIC_ID: Final = 0
"""The id of no topic: of an offset of which it is unknown."""
_NEVER: Final = -1


class CommittedOffset:
    """How far a group has read one partition. Two are equal whatever their topics' ids are."""

    __slots__ = ("commit_ms", "expire_ms", "leader_epoch", "metadata", "offset", "topic_id")

    def __init__(
        self,
        offset: int,
        leader_epoch: int = NO_EPOCH,
        metadata: str = "",
        commit_ms: int = 0,
        expire_ms: int = _NEVER,
        topic_id: int = NO_TOPIC_ID,
    ) -> None:
        self.offset = offset
        """The next offset to read."""
        self.leader_epoch = leader_epoch
        """The epoch of the last record that was read."""
        self.metadata = metadata
        """The client's note."""
        self.commit_ms = commit_ms
        """When it was committed, by the wall clock; older clients say it themselves."""
        self.expire_ms = expire_ms
        """When it goes; -1: as the broker is configured."""
        self.topic_id = topic_id
        """The id of the topic that it was committed for: a later topic may have the same name."""

    def of_topic(self, topic_id: int) -> "CommittedOffset":
        """Returns this offset for the topic with this id: itself, unless it is of another one already."""
        if self.topic_id == NO_TOPIC_ID:
            self.topic_id = topic_id
        if self.topic_id == topic_id:
            return self
        return CommittedOffset(
            self.offset, self.leader_epoch, self.metadata, self.commit_ms, self.expire_ms, topic_id
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CommittedOffset)
            and self.offset == other.offset
            and self.leader_epoch == other.leader_epoch
            and self.metadata == other.metadata
            and self.commit_ms == other.commit_ms
            and self.expire_ms == other.expire_ms
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.commit_ms))

    def __repr__(self) -> str:
        said = f"{self.offset}, {self.leader_epoch}, {self.metadata!r}, {self.commit_ms}, {self.expire_ms}"
        return f"CommittedOffset({said}, {self.topic_id})"
