"""What the cluster's state is made of. Plain data; `ClusterState` holds it, commands change it."""

from dataclasses import dataclass, field

from tank_protos import topic_settings
from tank_protos.topic_settings import FlushPolicy, TopicSettings

NOBODY = 0
"""In `PartitionState.leader`."""


@dataclass(slots=True)
class BrokerState:
    """A broker, and the process that was its last to register."""

    broker_id: int
    incarnation: bytes
    epoch: int
    """The index of the entry that registered this incarnation; only grows."""
    endpoints: tuple[tuple[str, str, int], ...]
    """(name, host, port). No two brokers have the same host and port."""
    rack: str
    disk_uuid: bytes
    served_epoch: int = 0
    """Of the last process before this one that was ever unfenced, and so may have acknowledged something.
    What registered below feature level 3 has none: 0."""
    fenced_index: int = 0
    """The entry that fenced it; 0: it is not fenced. Invariant: a fenced broker leads nothing and is in no
    in-sync set."""
    draining: bool = False
    scaled_down: bool = False
    """It drains because fewer brokers are wanted: `scaling` takes that back, or removes it when it has gone.
    Invariant: then it is draining."""
    shutting_down: bool = False
    replicates: bool = False
    """It may be one of several; a process that is alone, or of before there was replication, may not."""
    clock_off: bool = False
    """The leading controller found its clock away from those of most. Below feature level 3 never."""
    no_room: bool = False
    """Its volume had no room for messages. Below feature level 3 never. It ends when the volume is larger,
    with a new process that finds room, or by hand; not because room is free again."""
    flush_replicated: bool = False
    """How this process flushes topics that don't say. Others follow it: every broker's unsure tail is judged
    by it."""

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
        """Whether others had better lead."""
        return self.draining or self.shutting_down

    @property
    def steps_aside(self) -> bool:
        """Whether what it leads goes to others that can lead as soon as there are any."""
        return self.leaves or self.clock_off or self.no_room


@dataclass(slots=True)
class PartitionState:
    """Who holds a partition, and who leads it. Sets of replicas are in the order of `replicas`."""

    replicas: tuple[int, ...]
    """In the order of preference; during a move those that are to go come last."""
    in_sync: tuple[int, ...]
    """Among the replicas, none fenced. Empty exactly when nobody leads."""
    leader: int
    """0: nobody; else in sync."""
    leader_epoch: int
    """Only grows; in one epoch there is one leader, and one process of it."""
    partition_epoch: int
    """Grows with every change of this partition."""
    eligible: tuple[int, ...] = ()
    """Out of sync, but nothing was acknowledged without them. Empty once enough are in sync."""
    impaired: tuple[int, ...] = ()
    """Eligible ones that came back without all they had: not elected but by a lossy election."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    lossy_elections: int = 0
    """Of this partition so far, lossy and unclean ones."""
    lossy_epoch: int = 0
    """The leader epoch that began with the last of them."""

    def copy(self) -> "PartitionState":
        """Another one that is the same."""
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
        )

    @property
    def moves(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def under_replicated(self) -> bool:
        """Whether a replica that doesn't only just come is out of sync."""
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
    """A topic. Its id is the index of the entry that created it: a topic made again gets another."""

    topic_id: int
    name: str
    replication_factor: int
    settings: dict[str, str]
    """What somebody set; sorted by key. Replaced by `set` alone."""
    partitions: list[PartitionState]
    was_replicated: bool = False
    """Messages were acknowledged that were in memory alone, before its `flush` became another, or the default
    of the last broker that did so. For ever."""
    policy: TopicSettings = field(init=False)
    """Derived, as is the next."""
    min_insync: int = field(init=False)
    """How many must be in sync for anything to be acknowledged; 1 at least."""

    def __post_init__(self) -> None:
        self.set(self.settings)

    def set(self, settings: dict[str, str]) -> None:
        """Takes other settings, which were checked."""
        self.settings = settings
        self.policy = topic_settings.from_pairs(settings) if settings else _NOTHING_SET
        self.min_insync = self.policy.min_insync(self.replication_factor)

    def may_be_unsynced(self, broker_default_replicated: bool) -> bool:
        """Whether a broker may have acknowledged what its disk didn't hold yet."""
        return self.was_replicated or self.acknowledges_unsynced(broker_default_replicated)

    def acknowledges_unsynced(self, broker_default_replicated: bool) -> bool:
        """Whether a broker does so now."""
        if self.policy.flush is None:
            return broker_default_replicated
        return self.policy.flush is FlushPolicy.REPLICATED


_NOTHING_SET = TopicSettings()


@dataclass(slots=True)
class ProducerState:
    """The present id of a named producer. Replaced, never changed: a snapshot may be reading it."""

    generation: int
    producer_id: int
    ended: tuple[int, ...]
    """Ids of earlier generations, oldest first; bounded."""
    used_ms: int


@dataclass(slots=True)
class PositionState:
    """How far a group has read a partition. Replaced, never changed: a snapshot may be reading it."""

    sequence_number: int
    metadata: bytes
    committed_ms: int
