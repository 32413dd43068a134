"""The node's line to the controller, as an interface: for sessions and broker, which are synchronous.

Every question takes a `done`, which is called on the event loop, at once or later, once (where a link says
so: at most once). What changes something is done when the controller can't forget it any more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tank_node.cluster.view import ClusterView, TopicChange
from tank_node.volume import Room
from tank_protos.error_codes import ErrorCode


@dataclass(slots=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int
    replication_factor: int = 0
    """0: the cluster's default."""
    settings: dict[str, str] = field(default_factory=dict)
    validate_only: bool = False


@dataclass(slots=True)
class TopicAlteration:
    """What to change in a topic."""

    name: str
    partitions: int = 0
    """The new number of partitions, never fewer; 0: as it is."""
    settings: dict[str, str | None] = field(default_factory=dict)
    """None: back to the default."""
    validate_only: bool = False


@dataclass(slots=True)
class Position:
    """How far a group has read one partition."""

    topic: str
    partition: int
    sequence_number: int
    metadata: str = ""
    committed_ms: int = 0


@dataclass(slots=True)
class TopicOutcome:
    """Of creating, altering or deleting a topic. `message` says what to do; empty when all went well."""

    error: ErrorCode
    message: str = ""
    topic_id: int = 0


@dataclass(slots=True)
class ProducerOutcome:
    """Of asking for a producer id; never 0 when all went well. `count`: so many, from that one on."""

    error: ErrorCode
    message: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    count: int = 1


@dataclass(slots=True)
class CommitOutcome:
    """Of committing positions: `error` when nothing was kept; `results` for each position, in order."""

    error: ErrorCode
    message: str = ""
    results: list[ErrorCode] = field(default_factory=list)


@dataclass(slots=True)
class PositionsOutcome:
    """A group's positions, by topic and partition."""

    error: ErrorCode
    message: str = ""
    positions: list[Position] = field(default_factory=list)


@dataclass(slots=True)
class GroupsOutcome:
    """The names of the groups that have positions, sorted."""

    error: ErrorCode
    message: str = ""
    groups: list[str] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class InSyncChange:
    """A partition's in-sync set as its leader wants it, if nothing has changed since it looked."""

    topic_id: int
    partition: int
    leader_epoch: int
    partition_epoch: int
    """The change is refused when either epoch is not the partition's any more."""
    in_sync: tuple[tuple[int, int], ...]
    """(broker id, broker epoch), the leader among them; each epoch as the peer connection gave it."""


@dataclass(slots=True, frozen=True)
class ReplicaEnd:
    """A replica of this node, and where its log ends."""

    topic_id: int
    partition: int
    epoch_at_end: int = 0
    """Of the last batch; 0: the log is empty."""
    end: int = 0
    damaged: bool = False
    """Something is missing before that end."""


@dataclass(slots=True)
class ChangeOutcome:
    """Of a proposal about replicas. No outcome ever comes when the controller that was asked is gone: the
    view is the truth."""

    error: ErrorCode
    message: str = ""
    results: list[ErrorCode] = field(default_factory=list)
    """Of each change, in order; empty when `error` says that none was judged."""


class ControllerLink(Protocol):
    """What the node asks of the controller, in one process or over the network."""

    view: ClusterView
    """Current whenever the event loop runs other code; changes are announced after they are in it."""

    broker_epoch: int
    """Of this process; 0: it has not been registered yet. No order is taken and nothing is led before that,
    and before the view has reached this index."""

    peer_key: bytes
    """What the brokers of this cluster know each other by, 16 bytes; empty before the registration."""

    @property
    def connected(self) -> bool:
        """Whether a controller that leads has a line to this process."""

    @property
    def silence_ms(self) -> int:
        """How long ago a controller that leads was heard; one that has a line says something several times in
        a session timeout."""

    @property
    def producer_ids_left(self) -> int:
        """Producers that can start here while no controller leads."""

    def on_change(self, listener: Callable[[TopicChange], None]) -> None:
        """Calls `listener` for every topic that is created, altered or deleted from now on."""

    def on_brokers(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever brokers came, went, or have other addresses, epochs or fencing."""

    def on_registered(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when `broker_epoch` has a new value and the view has reached it; at once when it
        has now."""

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        """`answer` says where these replicas' logs, (topic id, partition), end; what isn't here, or is
        damaged beyond use, it leaves out. The controller asks before a lossy election."""

    def say_room(self, room: Room) -> None:
        """What the data folder's volume has for messages, when it is another than was said before."""

    def propose_in_sync(self, changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        """Proposes in-sync sets. The outcome comes twice: by `done`, which may be lost, and by the view."""

    def report_failed(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        """These replicas, (topic id, partition), can't go on here: they leave their in-sync sets."""

    def await_view(self, done: Callable[[bool], None]) -> None:
        """Calls `done` when the view has everything that was committed before this call; with False when
        that could not be learned."""

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        """Errors: TOPIC_EXISTS, INVALID_ (NAME, PARTITIONS, SETTING, REPLICATION_FACTOR).

        Every change may also end with OVERLOADED (too much waits, or is kept) or STORAGE.
        """

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        """Errors: UNKNOWN_TOPIC, INVALID_PARTITIONS, INVALID_SETTING."""

    def delete_topic(self, name: str, done: Callable[[TopicOutcome], None]) -> None:
        """Deletes a topic with its data and positions. Errors: UNKNOWN_TOPIC."""

    def init_producer(self, name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        """A producer id: for a name, the same for the same generation; else a fresh one.

        Errors: STALE_PRODUCER_EPOCH for a generation below the name's, INVALID_NAME, OVERLOADED when there
        are too many names.
        """

    def reserve_producer_ids(self, count: int, done: Callable[[ProducerOutcome], None]) -> None:
        """Fresh ids that follow each other; one alone below the feature level of blocks.

        Errors: INVALID_REQUEST for none, or for more than MAX_BLOCK_IDS.
        """

    def commit_positions(
        self, group: str, positions: Sequence[Position], done: Callable[[CommitOutcome], None]
    ) -> None:
        """Keeps positions. Errors of the whole: INVALID_NAME, OVERLOADED, TIMED_OUT (also where another
        broker kept one of them meanwhile: ask again); of one: UNKNOWN_TOPIC, UNKNOWN_PARTITION, TOO_LARGE
        (metadata)."""

    def fetch_positions(
        self, group: str, topics: Sequence[str], done: Callable[[PositionsOutcome], None]
    ) -> None:
        """A group's positions in these topics, or in all. Errors: UNKNOWN_GROUP, UNKNOWN_TOPIC (the view may
        be behind)."""

    def list_groups(self, done: Callable[[GroupsOutcome], None]) -> None:
        """All groups with positions."""
