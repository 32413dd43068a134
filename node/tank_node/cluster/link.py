"""The broker's connection to the controllers, as an interface for the rooms that do no I/O.

Every request takes a `done`, which is called on the event loop with the outcome, at once or later, exactly
once (where a method says so: at most once). A change succeeds when it is committed in the controllers' log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tank_node.cluster.iggy.link import IggyRequests
from tank_node.cluster.users.link import UserRequests
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
    assignments: list[list[int]] = field(default_factory=list)
    """The brokers of each partition, by number, the preferred leader first; empty: the controllers choose."""
    validate_only: bool = False
    is_internal: bool = False
    """Whether a broker creates it for itself: only such a one may have the name of an internal topic."""


@dataclass(slots=True)
class TopicAlteration:
    """What to change in a topic."""

    name: str
    partitions: int = 0
    """The new number of partitions, never fewer; 0: as it is."""
    settings: dict[str, str | None] = field(default_factory=dict)
    """The new values; None sets a setting back to its default."""
    assignments: list[list[int]] = field(default_factory=list)
    """The brokers of each new partition, as in `NewTopic`."""
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
    """The outcome of creating, altering or deleting a topic. `message` explains an error, and is empty
    without one."""

    error: ErrorCode
    message: str = ""
    topic_id: int = 0


@dataclass(slots=True)
class ProducerOutcome:
    """The outcome of asking for producer ids: `count` ids, from `producer_id` on, which is 0 only with an
    error."""

    error: ErrorCode
    message: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    count: int = 1


@dataclass(slots=True)
class CommitOutcome:
    """The outcome of committing positions: `error` when none was committed, else `results` has an error code
    for each, in order."""

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
    """The in-sync set that a partition's leader proposes, on the condition that neither epoch has changed."""

    topic_id: int
    partition: int
    leader_epoch: int
    partition_epoch: int
    """The change is refused when either epoch is not the partition's any more."""
    in_sync: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of each, the leader included; a follower's epoch is that of the connection on
    which it answered."""


@dataclass(slots=True, frozen=True)
class ReplicaEnd:
    """A replica of this node, and where its log ends."""

    topic_id: int
    partition: int
    epoch_at_end: int = 0
    """The leader epoch of the last batch; 0: the log is empty."""
    end: int = 0
    damaged: bool = False
    """Some messages before that end are missing."""


@dataclass(slots=True, frozen=True)
class Placement:
    """The brokers that are to have a partition's replicas, the preferred leader first."""

    topic_id: int
    partition: int
    replicas: tuple[int, ...]


@dataclass(slots=True)
class ChangeOutcome:
    """The outcome of a proposal about replicas. None comes when the controller that was asked is gone: the
    view alone tells then what was committed."""

    error: ErrorCode
    message: str = ""
    results: list[ErrorCode] = field(default_factory=list)
    """An error code for each change, in order; empty when `error` says that none was considered."""


class MetadataRequests(Protocol):
    """Requests that the controllers answer."""

    @property
    def iggy(self) -> IggyRequests:
        """Those about the names of Iggy's clients."""

    @property
    def users(self) -> UserRequests:
        """Those about the users of Iggy's clients."""

    @property
    def producer_ids_left(self) -> int:
        """How many producers can still start at this broker while no controller leads."""

    def propose_in_sync(self, changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        """Proposes in-sync sets. The outcome comes twice: by `done`, which may be lost, and by the view."""

    def report_failed(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        """Reports that this broker's replicas of these partitions, (topic id, partition), have failed: the
        controllers take them out of their in-sync sets."""

    def elect_leaders(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None], *, unclean: bool
    ) -> None:
        """Makes the preferred replicas of these partitions, (topic id, partition), their leaders; or elects
        any live replica of one partition that has no leader (unclean). Errors: NOT_ELECTABLE.

        This method and the next two are for administrators. A controller of an older version refuses them
        with INVALID_REQUEST.
        """

    def reassign(self, placements: Sequence[Placement], done: Callable[[ChangeOutcome], None]) -> None:
        """Begins to move replicas. Errors: INVALID_REPLICATION_FACTOR, UNKNOWN_BROKER, INELIGIBLE_REPLICA,
        OVERLOADED (the broker has too many), IN_USE (they move elsewhere already)."""

    def cancel_reassign(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        """Ends the moves of these partitions: the added replicas are removed. Errors: NOT_ENOUGH_REPLICAS
        (the added ones hold messages that too few others have)."""

    def await_view(self, done: Callable[[bool], None], *, of_client: bool = False) -> None:
        """Calls `done` with True when the view has everything that was committed before this call, or with
        False when the controllers gave no answer. `of_client`: a client waits for it, so it fails at once
        while no controller leads."""

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        """Creates a topic. Errors: TOPIC_EXISTS, INVALID_NAME, INVALID_PARTITIONS, INVALID_SETTING,
        INVALID_REPLICATION_FACTOR; of assignments UNKNOWN_BROKER and INELIGIBLE_REPLICA.

        Every change may also end with OVERLOADED (too many requests wait, or a limit is reached) or STORAGE.
        """

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        """Changes a topic. Errors: UNKNOWN_TOPIC, INVALID_PARTITIONS, INVALID_SETTING; of assignments
        UNKNOWN_BROKER and INELIGIBLE_REPLICA."""

    def delete_topic(self, name: str, done: Callable[[TopicOutcome], None]) -> None:
        """Deletes a topic with its data and positions. Errors: UNKNOWN_TOPIC."""

    def init_producer(self, name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        """Asks for a producer id: the same one for the same name and generation, else a new one.

        Errors: STALE_PRODUCER_EPOCH for a generation below the name's last, INVALID_NAME, OVERLOADED when
        there are too many names.
        """

    def reserve_producer_ids(self, count: int, done: Callable[[ProducerOutcome], None]) -> None:
        """Asks for `count` new producer ids in a row; the answer has a single one while the cluster's feature
        level knows no blocks.

        Errors: INVALID_REQUEST for a count of 0, or above MAX_BLOCK_IDS.
        """

    def commit_positions(
        self, group: str, positions: Sequence[Position], done: Callable[[CommitOutcome], None]
    ) -> None:
        """Commits a group's positions. Errors of the request: INVALID_NAME, OVERLOADED, TIMED_OUT (also when
        another broker committed one of them meanwhile: ask again). Errors of one position: UNKNOWN_TOPIC,
        UNKNOWN_PARTITION, TOO_LARGE (its metadata)."""

    def fetch_positions(
        self, group: str, topics: Sequence[str], done: Callable[[PositionsOutcome], None]
    ) -> None:
        """Asks for a group's positions in these topics, or in all when none is named. Errors: UNKNOWN_GROUP,
        UNKNOWN_TOPIC (perhaps because the view is behind)."""

    def list_groups(self, done: Callable[[GroupsOutcome], None]) -> None:
        """Asks for the names of all groups that have positions."""

    def groups_to_move(self, done: Callable[[GroupsOutcome], None]) -> None:
        """Asks for the names of the groups whose positions the controllers still hold, from feature level 4
        on. Errors: TIMED_OUT, also when the controller that answers doesn't know of the level yet."""

    def positions_to_move(self, group: str, done: Callable[[PositionsOutcome], None]) -> None:
        """Asks for such a group's positions. Errors: UNKNOWN_GROUP, TIMED_OUT."""

    def drop_positions(self, groups: Sequence[str], done: Callable[[ChangeOutcome], None]) -> None:
        """Has the controllers drop all positions of these groups, because their coordinator holds them.
        Errors: INVALID_REQUEST below feature level 4."""


class ControllerLink(Protocol):
    """The connection: the controllers' metadata, whether a controller that leads is heard, and listeners."""

    view: ClusterView
    """The copy of the metadata. Listeners are called after a change is in it."""

    broker_epoch: int
    """This process's broker epoch: the index of its registration in the controllers' log. 0 until the view
    has reached that index; until then the broker leads and follows nothing."""

    peer_key: bytes
    """The 16 bytes by which brokers of this cluster recognize each other; empty before the registration."""

    @property
    def requests(self) -> MetadataRequests:
        """The requests that the broker makes, for itself and for clients."""

    @property
    def connected(self) -> bool:
        """Whether a controller that leads has accepted this process on the open stream."""

    @property
    def silence_ms(self) -> int:
        """How long ago a controller that leads was heard. One that is connected sends something several times
        in a session timeout."""

    def on_change(self, listener: Callable[[TopicChange], None]) -> None:
        """Calls `listener` for every topic that is created, altered or deleted from now on."""

    def on_brokers(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever brokers came, went, or have other addresses, epochs or fencing."""

    def on_registered(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever `broker_epoch` gets a new value, and at once when it isn't 0 now."""

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        """Sets the callback that answers the controllers' question, before a lossy election, where the logs
        of these replicas, (topic id, partition), end. It leaves out replicas that this broker lacks, or that
        are too damaged to use."""

    def on_names_asked(self, answer: Callable[[], Sequence[str] | None]) -> None:
        """Sets the callback that names, for the controllers below Iggy's feature level, the groups that this
        broker coordinates and whose names are Iggy's from that level on; None: they are not all read."""

    def say_room(self, room: Room) -> None:
        """Reports that the room for messages on the data folder's volume has changed."""

    def hold_back(self, *, on: bool) -> None:
        """Keeps this broker fenced from now on, because its data folder can't be written, or ends that."""
