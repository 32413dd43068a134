"""The broker's copy of the cluster's metadata: brokers, topics, partitions, and the producers that were
ended.

Updates from the controllers alone change it, in the order of the controllers' log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from tank_node.cluster.iggy.parts import (
    IggyGroupView,
    IggyTopicView,
    StreamView,
    iggy_group_view,
    iggy_topic_view,
    stream_view,
)
from tank_node.cluster.iggy.view import IggyView
from tank_node.cluster.users.view import UsersView, UserView, user_view
from tank_protos import feature_levels, topic_settings
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import SettingError, TopicSettings

OUTSIDE = "outside"
"""The name of a broker's endpoint for clients outside the network; "tank" is the one for all others."""
KAFKA, KAFKA_OUTSIDE = "kafka", "kafka-outside"
"""The names of its endpoints for clients of Kafka's protocol, inside and outside the network."""
NO_LEADER = 0
"""In `PartitionView.leader`: the partition has no leader now."""
_NOWHERE = ("", 0)
"""Host and port of an endpoint that a broker doesn't have."""


@dataclass(slots=True)
class BrokerView:
    """A broker of the cluster, and where it is reached."""

    broker_id: int
    epoch: int
    """The log index at which its present process registered."""
    host: str
    """With `port`: the address for other brokers, and for clients inside the network."""
    port: int
    rack: str
    fenced: bool = False
    """A fenced broker leads nothing, and is in no in-sync set."""
    draining: bool = False
    """The controllers move its replicas to other brokers."""
    shutting_down: bool = False
    outside_host: str = ""
    """With `outside_port`: the address for clients outside the network; empty: it has none."""
    outside_port: int = 0
    kafka_host: str = ""
    """With `kafka_port`: the address for clients of Kafka's protocol inside the network; empty: none."""
    kafka_port: int = 0
    kafka_outside_host: str = ""
    """With `kafka_outside_port`: the address for clients of Kafka's protocol outside the network; empty:
    none."""
    kafka_outside_port: int = 0

    def address(self, *, outside: bool) -> tuple[str, int]:
        """The address at which a client reaches this broker. Without an outside address it is `host` and
        `port` for all: brokers of older versions may have registered their outside address there."""
        if outside and self.outside_host:
            return self.outside_host, self.outside_port
        return self.host, self.port

    def kafka_address(self, *, outside: bool) -> tuple[str, int] | None:
        """The address at which a client reaches this broker with Kafka's protocol; None when the broker
        serves no such clients. Without an outside address it is `kafka_host` and `kafka_port` for all."""
        if outside and self.kafka_outside_host:
            return self.kafka_outside_host, self.kafka_outside_port
        return (self.kafka_host, self.kafka_port) if self.kafka_host else None


@dataclass(slots=True)
class PartitionView:
    """The replicas of a partition."""

    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    """In the order of preference as leader; during a move those that will be removed come last."""
    in_sync: tuple[int, ...]
    """In the order of `replicas`."""
    eligible: tuple[int, ...] = ()
    """Replicas that are out of sync, but without which nothing was acknowledged: they may be elected."""
    impaired: tuple[int, ...] = ()
    """Eligible replicas that may have lost messages: only a lossy election makes one of them the leader."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    lossy_elections: int = 0
    lossy_epoch: int = 0
    """The leader epoch that began with the last lossy or unclean election: before it, acknowledged messages
    may have been lost."""
    first_epoch: int = 0
    """The leader epoch with which the partition began, after an earlier one of its number was removed: a log
    of lower epochs is of that one. 0: there was none."""

    def counts_on(self, broker_id: int) -> bool:
        """Whether the controllers believe that this broker's replica has every acknowledged message."""
        if broker_id == self.leader or broker_id in self.in_sync:
            return True
        return broker_id in self.eligible and broker_id not in self.impaired


@dataclass(slots=True)
class TopicView:
    """A topic in the view. Every change puts another object in its place: keep the id, not the object."""

    topic_id: int
    name: str
    replication_factor: int
    settings: TopicSettings
    settings_text: dict[str, str]
    """The settings that were set for this topic, as they were written."""
    partitions: list[PartitionView]
    """By number, without holes."""
    iggy: IggyTopicView | None = None
    """What makes it one of Iggy's topics; None: Iggy's clients don't see it."""
    epoch_floor: int = 0
    """Not below the epochs of the partitions that were removed: replicas of these may be left on brokers that
    were away. 0: none was removed. Partitions that are added begin above it."""


class ChangeKind(Enum):
    """What happened to a topic."""

    CREATED = "created"
    ALTERED = "altered"
    DELETED = "deleted"


@dataclass(slots=True, frozen=True)
class TopicChange:
    """A topic that was created, altered (settings, partitions, leaders) or deleted. The view shows it
    already."""

    kind: ChangeKind
    topic: TopicView
    """The topic as it is now, or a deleted topic as it last was."""
    partitions: tuple[int, ...] = ()
    """The partitions that are new or changed; of a created topic: all."""


@dataclass(slots=True)
class ClusterView:
    """The cluster's metadata, as far as this broker has received them."""

    cluster_id: str
    broker_id: int
    index: int = 0
    """The index of the last entry of the controllers' log whose changes are in here."""
    feature_level: int = feature_levels.FIRST
    """The cluster's feature level, which only rises."""
    brokers: dict[int, BrokerView] = field(default_factory=dict)
    _by_name: dict[str, TopicView] = field(default_factory=dict)
    _by_id: dict[int, TopicView] = field(default_factory=dict)
    _ended_producers: set[int] = field(default_factory=set)
    iggy: "IggyView[TopicView]" = field(init=False)
    """The names of Iggy's clients."""
    users: UsersView = field(default_factory=UsersView)
    """The users of Iggy's clients."""

    def __post_init__(self) -> None:
        self.iggy = IggyView(self._by_id)

    def topic(self, name: str) -> TopicView | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: int) -> TopicView | None:
        """The topic with this id; None when it was deleted, even if there is a new one of its name."""
        return self._by_id.get(topic_id)

    def topics(self) -> Iterable[TopicView]:
        """All topics, in no order. The result must not be used after a change."""
        return self._by_id.values()

    def was_deleted(self, topic_id: int) -> bool:
        """Whether this topic existed once in this cluster and was deleted: ids are log indexes, used once."""
        return topic_id <= self.index and topic_id not in self._by_id

    def producer_ended(self, producer_id: int) -> bool:
        """Whether a later process with the producer's name has ended this id, which may write nothing
        more."""
        return producer_id in self._ended_producers

    def apply(self, delta: pb.Delta) -> list[TopicChange]:
        """Applies the changes of a log entry, and returns the topics that changed. An entry that was applied
        before changes nothing."""
        if delta.index <= self.index:
            return []
        for broker_id in delta.removed_brokers:
            self.brokers.pop(broker_id, None)
        for broker in delta.brokers:
            self.brokers[broker.broker_id] = _broker(broker)
        changes = [change for topic_id in delta.deleted_topics for change in self._delete(topic_id)]
        changes += [self._put(_topic(topic)) for topic in delta.topics]
        for changed in delta.changed:
            if (topic_view := self._by_id.get(changed.topic_id)) is not None:
                changes.append(self._change(topic_view, changed.partitions))
        if delta.streams or delta.deleted_streams or delta.iggy_groups or delta.deleted_iggy_groups:
            self.iggy.apply(delta)
        if delta.users or delta.removed_users:
            self.users.put(map(user_view, delta.users), delta.removed_users)
        self._ended_producers.update(delta.ended_producers)
        self._ended_producers.difference_update(delta.forgotten_producers)
        self.feature_level = max(self.feature_level, delta.feature_level)
        self.index = delta.index
        return changes

    def replace(self, whole: "WholeState") -> list[TopicChange]:
        """Replaces all metadata, and returns the topics that changed. A state older than the present one
        changes nothing."""
        if whole.index < self.index:
            return []
        present = {topic.topic_id for topic in whole.topics}
        changes = [change for topic_id in self._by_id.keys() - present for change in self._delete(topic_id)]
        changes.sort(key=lambda change: change.topic.topic_id)
        self.brokers = whole.brokers
        for topic in whole.topics:
            before = self._by_id.get(topic.topic_id)
            change = self._put(topic)
            if before != topic:
                changes.append(change)
        parts = [(each.topic_id, each.iggy) for each in whole.topics if each.iggy is not None]
        self.iggy.replace(whole.streams, parts, whole.iggy_groups)
        self.users.replace(whole.users)
        self._ended_producers = whole.ended_producers
        self.feature_level = max(self.feature_level, whole.feature_level)
        self.index = whole.index
        return changes

    def _put(self, view: TopicView) -> TopicChange:
        before = self._by_id.get(view.topic_id)
        self._by_id[view.topic_id] = self._by_name[view.name] = view
        self.iggy.topic_changed(view.topic_id, before.iggy if before is not None else None, view.iggy)
        if before is None:
            return TopicChange(ChangeKind.CREATED, view, tuple(range(len(view.partitions))))
        known = before.partitions
        changed = [
            partition.partition
            for partition in view.partitions
            if partition.partition >= len(known) or _differ(partition, known[partition.partition])
        ]
        return TopicChange(ChangeKind.ALTERED, view, tuple(changed))

    def _change(self, topic: TopicView, changed: Iterable[pb.Partition]) -> TopicChange:
        """Puts changed partitions into a topic. The unchanged ones are shared with the old object, and not
        compared."""
        partitions = list(topic.partitions)
        numbers = []
        for partition in changed:
            if partition.partition < len(partitions):
                partitions[partition.partition] = _partition(partition)
                numbers.append(partition.partition)
        view = replace(topic, partitions=partitions)
        self._by_id[view.topic_id] = self._by_name[view.name] = view
        return TopicChange(ChangeKind.ALTERED, view, tuple(numbers))

    def _delete(self, topic_id: int) -> list[TopicChange]:
        old = self._by_id.pop(topic_id, None)
        if old is None:
            return []
        del self._by_name[old.name]
        self.iggy.topic_changed(topic_id, old.iggy, None)
        return [TopicChange(ChangeKind.DELETED, old)]


class WholeState:
    """All metadata, collected from several messages until `ClusterView.replace` takes them over in one step.

    A million partitions are seconds of work, so each message's objects are made when it comes. Partitions
    that have not changed are the view's own objects, so that the last step need not compare their fields.
    """

    __slots__ = (
        "_view", "brokers", "ended_producers", "feature_level", "iggy_groups", "index", "streams", "topics",
        "users",
    )  # fmt: skip

    def __init__(self, view: ClusterView) -> None:
        """view: the view whose metadata will be replaced."""
        self.index = self.feature_level = 0
        self.brokers: dict[int, BrokerView] = {}
        self.topics: list[TopicView] = []
        self.streams: list[StreamView] = []
        self.iggy_groups: list[IggyGroupView] = []
        self.users: list[UserView] = []
        self.ended_producers: set[int] = set()
        self._view = view

    def add(self, part: pb.Delta) -> None:
        """Adds a message's part of the metadata. No topic is split over two messages; a part may be empty."""
        self.index = max(self.index, part.index)
        self.feature_level = max(self.feature_level, part.feature_level)
        for broker in part.brokers:
            self.brokers[broker.broker_id] = _broker(broker)
        for topic in part.topics:
            made = _topic(topic)
            known = self._view.topic_by_id(made.topic_id)
            if known is not None:
                for number, (old, new) in enumerate(zip(known.partitions, made.partitions, strict=False)):
                    if old == new:
                        made.partitions[number] = old
            self.topics.append(made)
        self.streams += map(stream_view, part.streams)
        self.iggy_groups += map(iggy_group_view, part.iggy_groups)
        self.users += map(user_view, part.users)
        self.ended_producers.update(part.ended_producers)


def _differ(one: PartitionView, other: PartitionView) -> bool:
    return one is not other and one != other


def _broker(broker: pb.Broker) -> BrokerView:
    at = {endpoint.name: (endpoint.host, endpoint.port) for endpoint in broker.endpoints}
    return BrokerView(
        broker.broker_id,
        broker.epoch,
        *at.get("tank", _NOWHERE),
        broker.rack,
        broker.fenced_index != 0,
        broker.draining,
        broker.shutting_down,
        *at.get(OUTSIDE, _NOWHERE),
        *at.get(KAFKA, _NOWHERE),
        *at.get(KAFKA_OUTSIDE, _NOWHERE),
    )


def _topic(topic: pb.Topic) -> TopicView:
    pairs = {setting.key: setting.value for setting in topic.settings}
    return TopicView(
        topic_id=topic.topic_id,
        name=topic.name,
        replication_factor=topic.replication_factor,
        settings=_settings(pairs),
        settings_text=pairs,
        partitions=[_partition(partition) for partition in topic.partitions],
        iggy=iggy_topic_view(topic.iggy) if topic.HasField("iggy") else None,
        epoch_floor=topic.epoch_floor,
    )


def _partition(partition: pb.Partition) -> PartitionView:
    return PartitionView(
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        replicas=tuple(partition.replicas),
        in_sync=tuple(partition.in_sync),
        eligible=tuple(partition.eligible),
        impaired=tuple(partition.impaired),
        adding=tuple(partition.adding),
        removing=tuple(partition.removing),
        lossy_elections=partition.lossy_elections,
        lossy_epoch=partition.lossy_epoch,
        first_epoch=partition.first_epoch,
    )


def _settings(pairs: dict[str, str]) -> TopicSettings:
    """Parses settings that the controllers have checked. A setting that only a newer version knows is left
    out: it must not stop this broker."""
    try:
        return topic_settings.from_pairs(pairs)
    except SettingError as error:
        rest = {key: value for key, value in pairs.items() if key != error.key}
        return _settings(rest)
