"""The parts of the cluster's state. Plain data: `ClusterState` holds it, commands change it."""

from dataclasses import dataclass, field

from tank_controller.state.iggy.iggy_part import IggyPart
from tank_protos import topic_settings
from tank_protos.topic_settings import FlushPolicy, TopicSettings

NO_BROKER = 0
"""The value of `PartitionState.leader` while the partition has no leader."""


@dataclass(slots=True)
class BrokerState:
    """A broker, and its last process that registered."""

    broker_id: int
    incarnation: bytes
    epoch: int
    """The broker epoch: the index of the entry that registered this process; only grows."""
    endpoints: tuple[tuple[str, str, int], ...]
    """(name, host, port). No two brokers have the same host and port."""
    rack: str
    disk_uuid: bytes
    served_epoch: int = 0
    """The epoch of the last earlier process that was ever unfenced, and so may have acknowledged messages. 0:
    there was none.
    """
    fenced_index: int = 0
    """The index of the entry that fenced it; 0: it is not fenced. Invariant: a fenced broker leads nothing
    and is in no in-sync set.
    """
    draining: bool = False
    scaled_down: bool = False
    """It drains because fewer brokers are wanted. `scaling` ends the drain when more are wanted again, and
    removes the broker when it has stopped. Invariant: then it is draining.
    """
    shutting_down: bool = False
    replicates: bool = False
    """The process replicates, so the cluster may have several brokers; a process that doesn't must be the
    only one.
    """
    clock_off: bool = False
    """The leading controller found that its clock differs from the clocks of most brokers."""
    no_room: bool = False
    """Its volume had no room for messages. The mark goes when a new process of the broker finds a larger
    volume, or by an operator; free space alone doesn't end it.
    """
    flush_replicated: bool = False
    """The default `flush` of this process, for topics that set none. The state needs it to know which
    messages were acknowledged before they were on a disk.
    """

    @property
    def fenced(self) -> bool:
        """Whether it may neither lead nor be in sync."""
        return self.fenced_index != 0

    @property
    def has_served(self) -> bool:
        """Whether this process was ever unfenced."""
        return self.fenced_index != self.epoch

    @property
    def leaves(self) -> bool:
        """Whether the broker is about to leave, so that other brokers should lead."""
        return self.draining or self.shutting_down

    @property
    def steps_aside(self) -> bool:
        """Whether its leaderships move to other replicas as soon as these can lead."""
        return self.leaves or self.clock_off or self.no_room


@dataclass(slots=True)
class PartitionState:
    """A partition's replicas and leader. Sets of replicas are in the order of `replicas`."""

    replicas: tuple[int, ...]
    """In the order of preference. During a move, the replicas that will be removed come last."""
    in_sync: tuple[int, ...]
    """A subset of the replicas, none of them fenced. Empty exactly when the partition has no leader."""
    leader: int
    """The broker id of the leader, which is in sync; NO_BROKER without a leader."""
    leader_epoch: int
    """Only grows. Each epoch has one leader, and one process of that broker."""
    partition_epoch: int
    """Grows with every change of this partition."""
    eligible: tuple[int, ...] = ()
    """Replicas out of sync without which nothing was acknowledged since they left. Empty once enough replicas
    are in sync.
    """
    impaired: tuple[int, ...] = ()
    """Eligible replicas that may have lost messages: only a lossy or unclean election makes them leader."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    lossy_elections: int = 0
    """How many lossy and unclean elections this partition has had."""
    lossy_epoch: int = 0
    """The leader epoch that began with the last lossy or unclean election."""
    first_epoch: int = 0
    """The leader epoch with which the partition began, after an earlier one of its number was removed; 0:
    there was none. Logs of lower epochs are of that one."""

    def copy(self) -> "PartitionState":
        """Returns a copy."""
        return PartitionState(
            self.replicas,
            self.in_sync,
            self.leader,
            self.leader_epoch,
            self.partition_epoch,
            self.eligible,
            self.impaired,
            self.adding,
            self.removing,
            self.lossy_elections,
            self.lossy_epoch,
            self.first_epoch,
        )

    @property
    def moves(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def under_replicated(self) -> bool:
        """Whether a replica is out of sync, apart from those that are being added."""
        if len(self.in_sync) == len(self.replicas):
            return False
        return not self.adding or not set(self.replicas) <= {*self.in_sync, *self.adding}

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the move is through."""
        return self.replicas[: len(self.replicas) - len(self.removing)]

    def in_order(self, members: set[int]) -> tuple[int, ...]:
        """These replicas in the order of preference."""
        if len(members) == len(self.replicas):
            return self.replicas
        return tuple(broker_id for broker_id in self.replicas if broker_id in members)


@dataclass(slots=True)
class TopicState:
    """A topic. Its id is the index of the entry that created it, so a topic that is created again gets
    another id.
    """

    topic_id: int
    name: str
    replication_factor: int
    settings: dict[str, str]
    """The settings that were set for this topic; sorted by key. Only `set` replaces them."""
    partitions: list[PartitionState]
    was_replicated: bool = False
    """Messages of the topic were once acknowledged in memory alone, before its `flush` changed or the last
    broker with that default went. Stays true for ever.
    """
    iggy: IggyPart | None = None
    """What makes it one of Iggy's topics; None: Iggy's clients don't see it."""
    epoch_floor: int = 0
    """The greatest epoch of the partitions that were removed: new ones begin above it."""
    policy: TopicSettings = field(init=False)
    """Derived from the settings, as is the next field."""
    min_insync: int = field(init=False)
    """How many replicas must be in sync for a message to be acknowledged; at least 1."""

    def __post_init__(self) -> None:
        self.set(self.settings)

    def set(self, settings: dict[str, str]) -> None:
        """Replaces the settings, which the caller has checked."""
        self.settings = settings
        self.policy = topic_settings.from_pairs(settings) if settings else _NOTHING_SET
        self.min_insync = self.policy.min_insync(self.replication_factor)

    def may_be_unsynced(self, broker_default_replicated: bool) -> bool:
        """Whether a broker may have acknowledged messages that were on no disk yet."""
        return self.was_replicated or self.acknowledges_unsynced(broker_default_replicated)

    def acknowledges_unsynced(self, broker_default_replicated: bool) -> bool:
        """Whether a broker acknowledges messages that are on no disk yet, at present."""
        if self.policy.flush is None:
            return broker_default_replicated
        return self.policy.flush is FlushPolicy.REPLICATED


_NOTHING_SET = TopicSettings()


@dataclass(slots=True)
class NamedProducer:
    """The present id of a named producer. Replaced, never changed: a snapshot may be reading it."""

    generation: int
    producer_id: int
    ended: tuple[int, ...]
    """Ids of earlier generations, oldest first; a bounded number."""
    used_ms: int


@dataclass(slots=True)
class PositionState:
    """How far a group has read a partition. Replaced, never changed: a snapshot may be reading it."""

    sequence_number: int
    metadata: bytes
    committed_ms: int
