"""The cluster's state: the result of the controllers' log. Pure, and the same on every controller.

Invariant: the state after entry n depends only on the entries up to n. Its snapshot has the same bytes
however it was reached (replayed, or loaded from an older snapshot and the rest replayed).
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from tank_controller import limits
from tank_controller.state import codec
from tank_controller.state.codec import SnapshotContents, SnapshotError
from tank_controller.state.iggy.iggy_state import IggyState
from tank_controller.state.iggy.users import UsersState
from tank_controller.state.keys import KeySet, key_of, partition_of, topic_of
from tank_controller.state.model import (
    NO_BROKER,
    BrokerState,
    NamedProducer,
    PartitionState,
    PositionState,
    TopicState,
)
from tank_controller.state.placement import Spread
from tank_controller.state.snapshot_image import SnapshotImage
from tank_controller.state.topics_image import TopicsImage
from tank_controller.state.view_image import ViewImage
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb

Piece = TypeVar("Piece")

__all__ = [
    "NO_BROKER",
    "BrokerState",
    "ClusterState",
    "NamedProducer",
    "PartitionState",
    "PositionState",
    "SnapshotError",
    "TopicState",
]


@dataclass(slots=True)
class Derived:
    """Indexes and counts that follow from the rest of the state. Not part of a snapshot."""

    topic_ids: dict[str, int] = field(default_factory=dict)
    held: dict[int, KeySet] = field(default_factory=dict)
    """The partitions that each broker is a replica of; none is empty."""
    led: Counter[int] = field(default_factory=Counter)
    """How many partitions each broker leads; under NO_BROKER: how many have no leader."""
    preferred: Counter[int] = field(default_factory=Counter)
    """How many partitions each broker is the first replica of."""
    leaderless: set[int] = field(default_factory=set)
    """The keys of partitions without a leader."""
    displaced: set[int] = field(default_factory=set)
    """Partitions whose leader is not their first replica."""
    moving: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    """Leaderless partitions with an eligible replica that may have lost messages: a lossy election may be
    due."""
    under_replicated: int = 0
    """How many partitions have fewer in-sync replicas than replicas."""
    below_min_insync: int = 0
    """How many partitions acknowledge nothing, because too few replicas are in sync."""
    partition_count: int = 0
    position_count: int = 0
    metadata_bytes: int = 0


@dataclass(slots=True)
class ClusterState:
    """The whole state. Only `commands.apply` changes it."""

    index: int = 0
    """The last entry that was applied."""
    peer_key: bytes = b""
    """The key with which brokers authenticate to each other; the first leader proposes it."""
    replicates: bool = False
    """Whether the registered brokers replicate, or once did."""
    feature_level: int = feature_levels.FIRST
    """The feature level in force; it never falls."""
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    topics: dict[int, TopicState] = field(default_factory=dict)
    producers: dict[str, NamedProducer] = field(default_factory=dict)
    """By name, in the order of last use."""
    groups: dict[str, dict[int, dict[int, PositionState]]] = field(default_factory=dict)
    """Group (in the order of the last commit), topic id, partition. No group, and no topic of a group, is
    empty.
    """
    lossy_elections: int = 0
    """The number of lossy and unclean elections so far, with those of deleted partitions: each may have lost
    acknowledged messages.
    """
    demands_secret: bool = False
    """Whether every process must prove the cluster's secret; never taken back."""
    iggy: IggyState = field(default_factory=IggyState)
    """Streams, and the groups of Iggy's clients."""
    users: UsersState = field(default_factory=UsersState)
    """The users of Iggy's clients."""
    derived: Derived = field(default_factory=Derived)
    spread: Spread = field(default_factory=Spread, compare=False)
    """Replicas by broker and rack; refreshed before a placement."""
    images: list[TopicsImage] = field(default_factory=list, compare=False, repr=False)
    """The images of snapshots and whole views that are being written."""

    @property
    def topic_ids(self) -> dict[str, int]:
        """Topic ids by name."""
        return self.derived.topic_ids

    @property
    def partition_count(self) -> int:
        """How many partitions all topics have."""
        return self.derived.partition_count

    @property
    def position_count(self) -> int:
        """How many positions all groups have committed."""
        return self.derived.position_count

    @property
    def metadata_bytes(self) -> int:
        """The bytes of all positions' metadata."""
        return self.derived.metadata_bytes

    @property
    def some_default_replicated(self) -> bool:
        """Whether topics without a `flush` setting may be led by a broker that acknowledges messages in
        memory alone.
        """
        return any(broker.flush_replicated for broker in self.brokers.values())

    def topic(self, name: str) -> TopicState | None:
        """The topic of this name."""
        topic_id = self.derived.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: int, number: int) -> PartitionState | None:
        """A partition; None where there is none."""
        topic = self.topics.get(topic_id)
        return topic.partitions[number] if topic is not None and number < len(topic.partitions) else None

    def find(self, key: int) -> tuple[TopicState, PartitionState]:
        """The partition with this key, which must be there, and its topic."""
        topic = self.topics[topic_of(key)]
        return topic, topic.partitions[partition_of(key)]

    def held_by(self, broker_id: int) -> KeySet:
        """The partitions that a broker is a replica of. The caller must not change the set."""
        return self.derived.held.get(broker_id) or KeySet()

    def candidates(self) -> Spread:
        """The brokers that take new replicas: not fenced, not about to leave, with room."""
        self.spread.refresh(self._seat)
        return self.spread

    def _seat(self, broker_id: int) -> tuple[str, int] | None:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.leaves or broker.no_room:
            return None
        return broker.rack, len(self.held_by(broker_id))

    # --- for commands: what is derived follows every change ---

    def count_in(self, key: int, partition: PartitionState) -> None:
        """Counts a new partition."""
        self.derived.partition_count += 1
        self.hold(key, partition.replicas)
        self.count_leader(key, partition)

    def count_out(self, key: int, partition: PartitionState) -> None:
        """Takes a partition out of the counts, before it goes."""
        self.derived.partition_count -= 1
        self.release(key, partition.replicas)
        self.uncount_leader(key, partition)

    def hold(self, key: int, replicas: tuple[int, ...]) -> None:
        """Makes these brokers replicas of the partition."""
        held = self.derived.held
        for broker_id in replicas:
            keys = held.get(broker_id)
            if keys is None:
                keys = held[broker_id] = KeySet()
            keys.add(key)
        self.spread.touch(replicas)

    def release(self, key: int, replicas: tuple[int, ...]) -> None:
        """Ends that these brokers are replicas of the partition."""
        for broker_id in replicas:
            keys = self.derived.held[broker_id]
            keys.remove(key)
            if not keys:
                del self.derived.held[broker_id]
        self.spread.touch(replicas)

    def count_leader(self, key: int, partition: PartitionState) -> None:
        """Adds a partition to the counts of leaders and to the sets of partitions that need work."""
        derived, leader = self.derived, partition.leader
        first = partition.replicas[0]
        derived.led[leader] += 1
        derived.preferred[first] += 1
        if leader == NO_BROKER:
            derived.leaderless.add(key)
            if partition.impaired:
                derived.doubtful.add(key)
        elif leader != first:
            derived.displaced.add(key)
        if partition.adding or partition.removing:
            derived.moving.add(key)
        self._count_out_of_sync(key, partition, 1)

    def uncount_leader(self, key: int, partition: PartitionState) -> None:
        """Reverses `count_leader`; called before the partition changes."""
        derived, leader = self.derived, partition.leader
        first = partition.replicas[0]
        derived.led[leader] -= 1
        derived.preferred[first] -= 1
        if leader == NO_BROKER:
            derived.leaderless.remove(key)
            derived.doubtful.discard(key)
        elif leader != first:
            derived.displaced.remove(key)
        if partition.adding or partition.removing:
            derived.moving.remove(key)
        self._count_out_of_sync(key, partition, -1)

    def _count_out_of_sync(self, key: int, partition: PartitionState, one: int) -> None:
        if len(partition.in_sync) == len(partition.replicas):
            # so is nearly every partition, and min.insync.replicas is never above the number of replicas
            return
        if partition.under_replicated:
            self.derived.under_replicated += one
        if len(partition.in_sync) < self.topics[topic_of(key)].min_insync:
            self.derived.below_min_insync += one

    def set_settings(self, topic: TopicState, settings: dict[str, str]) -> None:
        """Replaces the settings of a topic, which the caller has checked, and updates what follows
        from them.
        """
        derived = self.derived
        derived.below_min_insync -= sum(len(each.in_sync) < topic.min_insync for each in topic.partitions)
        topic.set(settings)
        derived.below_min_insync += sum(len(each.in_sync) < topic.min_insync for each in topic.partitions)

    # --- in and out ---

    def snapshot(self) -> bytes:
        """Returns the state as bytes that `load` reads."""
        return b"".join(self.snapshot_pieces())

    def snapshot_pieces(self, items: int = limits.SNAPSHOT_PART) -> Iterator[bytes]:
        """The bytes of `snapshot`, in pieces of about `items` partitions; the state may change between
        pieces.
        """
        image = SnapshotImage(self._stored())
        return self._while_imaged(image.topics, image.pieces(items))

    def delta(self) -> pb.Delta:
        """The whole state as one delta, for an empty view."""
        (whole,) = [update for update in self.whole_view(limits.MAX_PARTITIONS, sys.maxsize) if update]
        return whole.delta

    def whole_view(self, items: int, part_bytes: int) -> Iterator[pb.ViewUpdate | None]:
        """The content of `delta` in messages of about `part_bytes` bytes, as `ViewImage.updates` gives
        them.
        """
        image = ViewImage(self._stored())
        return self._while_imaged(image.topics, image.updates(items, part_bytes))

    def _while_imaged(self, image: TopicsImage, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Keeps the image up to date until all pieces are taken, or the iterator is closed."""
        self.images.append(image)

        def taken() -> Iterator[Piece]:
            try:
                yield from pieces
            finally:
                self.images.remove(image)

        return taken()

    def keep_for_images(self, key: int, partition: PartitionState) -> None:
        """Saves a partition for images in the making, before a command changes it."""
        for image in self.images:
            image.keep(key, partition)

    @staticmethod
    def load(data: bytes, max_level: int = feature_levels.OWN.highest) -> "ClusterState":
        """Reads a snapshot, in a format of the feature levels up to this one. Raises SnapshotError when the
        bytes are no snapshot, or one of a newer version.
        """
        stored = codec.decode(data, max_level)
        state = ClusterState(
            stored.index,
            stored.peer_key,
            stored.replicates,
            stored.feature_level,
            stored.brokers,
            stored.topics,
            stored.producers,
            stored.groups,
            stored.lossy_elections,
            stored.demands_secret,
            stored.iggy,
            stored.users,
        )
        derived = state.derived
        state.spread.touch(stored.brokers)
        for topic_id, topic in stored.topics.items():
            derived.topic_ids[topic.name] = topic_id
            if topic.iggy is not None:
                stored.iggy.put_topic(topic_id, topic.iggy)
            for number, partition in enumerate(topic.partitions):
                state.count_in(key_of(topic_id, number), partition)
        for topics in stored.groups.values():
            for partitions in topics.values():
                derived.position_count += len(partitions)
                derived.metadata_bytes += sum(len(position.metadata) for position in partitions.values())
        return state

    def _stored(self) -> SnapshotContents:
        return SnapshotContents(
            self.index,
            self.peer_key,
            self.replicates,
            self.feature_level,
            self.brokers,
            self.topics,
            self.producers,
            self.groups,
            self.lossy_elections,
            self.demands_secret,
            self.iggy,
            self.users,
        )
