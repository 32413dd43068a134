"""The requests about the names of Iggy's clients that the controllers answer, as an interface for the rooms
that do no I/O.

Every request takes a `done`, which is called once on the event loop, at once or later. Without an error the
change is committed, and in the view. Every request may end with LEVEL_TOO_LOW, and as those of topics do
(`link.MetadataRequests`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tank_node.cluster.iggy.parts import IggyGroupView, IggyOptionView, StreamView
from tank_node.cluster.view import TopicView
from tank_protos.error_codes import ErrorCode
from tank_protos.topic_settings import LogFormat


@dataclass(slots=True)
class NewIggyTopic:
    """A topic to create in a stream."""

    stream: StreamView
    name: str
    partitions: int
    """0 is allowed."""
    number: int | None = None
    """The one that the client chose; None: the lowest that is free."""
    replication_factor: int = 0
    """0: the cluster's default."""
    expiry_us: int = 0
    """These four, and the next, are the wire's: see `IggyTopicView`."""
    max_bytes: int = 0
    compression: int = 1
    options: tuple[IggyOptionView, ...] = ()
    per_partition: bool = False
    """Whether `max_bytes` bounds each partition, or all of them together."""
    log_format: LogFormat = LogFormat.KAFKA
    """The format in which messages are stored, if no option says otherwise."""


@dataclass(slots=True)
class IggyTopicChange:
    """What to change in a topic of Iggy's; None: as it is."""

    name: str | None = None
    expiry_us: int | None = None
    max_bytes: int | None = None
    compression: int | None = None
    options: tuple[IggyOptionView, ...] | None = None
    """In the place of all options."""
    per_partition: bool = False
    """Of `max_bytes`."""


@dataclass(slots=True)
class IggyOutcome:
    """The outcome of a change. `message` explains an error, and is empty without one."""

    error: ErrorCode
    message: str = ""
    number: int = 0
    """The number of the stream, topic or group."""
    topic_id: int = 0


IggyDone = Callable[[IggyOutcome], None]


class IggyRequests(Protocol):
    """Changes of streams, of topics of Iggy's, and of groups."""

    def create_stream(self, name: str, done: IggyDone, *, number: int | None = None) -> None:
        """Creates a stream. Errors: STREAM_EXISTS, NUMBER_TAKEN, INVALID_NAME, LIMIT_REACHED."""

    def rename_stream(self, stream: StreamView, name: str, done: IggyDone) -> None:
        """Renames a stream. Errors: UNKNOWN_STREAM, STREAM_EXISTS, INVALID_NAME."""

    def delete_stream(self, stream: StreamView, done: IggyDone) -> None:
        """Deletes a stream with its topics, and hides those that were exposed. Errors: UNKNOWN_STREAM."""

    def purge_stream(self, stream: StreamView, done: IggyDone) -> None:
        """Purges the stream's topics one after another, but for those that were exposed. When it ends with an
        error, some are purged."""

    def create_topic(self, topic: NewIggyTopic, done: IggyDone) -> None:
        """Creates a topic. Errors: UNKNOWN_STREAM, TOPIC_EXISTS, NUMBER_TAKEN, INVALID_NAME,
        INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_SETTING (also of an option), LIMIT_REACHED."""

    def alter_topic(self, topic: TopicView, change: IggyTopicChange, done: IggyDone) -> None:
        """Changes a topic. Errors: UNKNOWN_TOPIC, TOPIC_EXISTS, INVALID_NAME, INVALID_SETTING."""

    def add_partitions(self, topic: TopicView, count: int, done: IggyDone) -> None:
        """Adds partitions. Errors: UNKNOWN_TOPIC, INVALID_PARTITIONS, LIMIT_REACHED."""

    def shrink_topic(self, topic: TopicView, count: int, done: IggyDone) -> None:
        """Removes as many partitions, those of the highest numbers. Errors: UNKNOWN_TOPIC, INVALID_PARTITIONS
        (there are fewer)."""

    def purge_topic(self, topic: TopicView, done: IggyDone) -> None:
        """Removes all messages and positions of a topic, which gets another topic id. Errors:
        UNKNOWN_TOPIC."""

    def delete_topic(self, topic: TopicView, done: IggyDone) -> None:
        """Deletes a topic. Errors: UNKNOWN_TOPIC."""

    def create_group(self, topic: TopicView, name: str, done: IggyDone, *, number: int | None = None) -> None:
        """Creates a group of a topic. Errors: UNKNOWN_TOPIC, GROUP_EXISTS, NUMBER_TAKEN, INVALID_NAME,
        LIMIT_REACHED."""

    def delete_group(self, group: IggyGroupView, done: IggyDone) -> None:
        """Deletes a group. Errors: UNKNOWN_TOPIC, UNKNOWN_GROUP."""

    def expose_topic(self, topic: TopicView, stream: StreamView, name: str, done: IggyDone) -> None:
        """Shows a topic of another protocol to Iggy's clients. Errors: UNKNOWN_TOPIC, UNKNOWN_STREAM,
        TOPIC_EXISTS, INVALID_NAME."""

    def hide_topic(self, topic: TopicView, done: IggyDone) -> None:
        """Ends that Iggy's clients see a topic; its groups go. Errors: UNKNOWN_TOPIC."""
