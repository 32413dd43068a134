"""The node's copy of the cluster's state: brokers, topics, partitions, and which producers were ended.

It changes by deltas alone, in the order of the controller's log. Sessions and broker read it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from tank_protos import feature_levels, topic_settings
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import SettingError, TopicSettings

OUTSIDE = "outside"
"""The endpoint of a broker that is for clients of the outside; "tank" is for all others."""
NO_LEADER = 0
"""In `PartitionView.leader`: nobody leads now."""


@dataclass(slots=True)
class BrokerView:
    """A broker of the cluster, and where it is reached."""

    broker_id: int
    epoch: int
    """The log index at which its present process registered."""
    host: str
    """With `port`: for other brokers, and for clients that reach them there."""
    port: int
    rack: str
    fenced: bool = False
    """It may lead nothing, and be in sync nowhere."""
    draining: bool = False
    """What it has is to go elsewhere."""
    shutting_down: bool = False
    outside_host: str = ""
    """With `outside_port`: for clients of the outside; empty: it has no such address."""
    outside_port: int = 0

    def address(self, *, outside: bool) -> tuple[str, int]:
        """Where a client reaches it. A broker without an address of the outside is shown to all by its one:
        one of an older version may have said that of the outside there."""
        if outside and self.outside_host:
            return self.outside_host, self.outside_port
        return self.host, self.port


@dataclass(slots=True)
class PartitionView:
    """Who holds a partition."""

    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    """In the order of preference; during a move those that are to go come last."""
    in_sync: tuple[int, ...]
    """In the order of `replicas`."""
    eligible: tuple[int, ...] = ()
    """Out of sync, but nothing was acknowledged without them: they may be elected."""
    impaired: tuple[int, ...] = ()
    """Eligible ones that may have lost something: a lossy election alone makes one of them lead."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    lossy_elections: int = 0
    lossy_epoch: int = 0
    """The leader epoch that began with the last lossy or unclean election: before it, acknowledged messages
    may have been lost."""

    def counts_on(self, broker_id: int) -> bool:
        """Whether this broker's replica is taken for one that has everything."""
        if broker_id == self.leader or broker_id in self.in_sync:
            return True
        return broker_id in self.eligible and broker_id not in self.impaired


@dataclass(slots=True)
class TopicView:
    """A topic as the controller last told it. Replaced whole by a change: hold the id, not the object."""

    topic_id: int
    name: str
    replication_factor: int
    settings: TopicSettings
    settings_text: dict[str, str]
    """What somebody set, as it was written."""
    partitions: list[PartitionView]
    """By number, without holes."""


class ChangeKind(Enum):
    """What happened to a topic."""

    CREATED = "created"
    ALTERED = "altered"
    DELETED = "deleted"


@dataclass(slots=True, frozen=True)
class TopicChange:
    """A topic that was created, altered (settings, partitions, leaders) or deleted, after the view has it."""

    kind: ChangeKind
    topic: TopicView
    """As it is now; of a deleted one, as it was."""
    partitions: tuple[int, ...] = ()
    """Of an altered topic: those that are new or changed. Of a created one: all."""


@dataclass(slots=True)
class ClusterView:
    """What this node knows of the cluster."""

    cluster_id: str
    broker_id: int
    index: int = 0
    """The last log entry that is in here."""
    feature_level: int = feature_levels.FIRST
    """The one in force; it only rises."""
    brokers: dict[int, BrokerView] = field(default_factory=dict)
    _by_name: dict[str, TopicView] = field(default_factory=dict)
    _by_id: dict[int, TopicView] = field(default_factory=dict)
    _ended_producers: set[int] = field(default_factory=set)

    def topic(self, name: str) -> TopicView | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: int) -> TopicView | None:
        """The topic with this id; None when it was deleted, even if there is a new one of its name."""
        return self._by_id.get(topic_id)

    def topics(self) -> Iterable[TopicView]:
        """All topics, in no order. Not to be held over a change."""
        return self._by_id.values()

    def was_deleted(self, topic_id: int) -> bool:
        """Whether this topic existed once in this cluster and was deleted: ids are log indexes, used once."""
        return topic_id <= self.index and topic_id not in self._by_id

    def producer_ended(self, producer_id: int) -> bool:
        """Whether a higher generation of the producer's name ended this id: it may write no more."""
        return producer_id in self._ended_producers

    def apply(self, delta: pb.Delta) -> list[TopicChange]:
        """Takes in what a log entry changed. One that is here already changes nothing."""
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
        self._ended_producers.update(delta.ended_producers)
        self._ended_producers.difference_update(delta.forgotten_producers)
        self.feature_level = max(self.feature_level, delta.feature_level)
        self.index = delta.index
        return changes

    def replace(self, whole: "WholeState") -> list[TopicChange]:
        """Takes in the whole state: what isn't in it is gone. One of before what is here changes nothing."""
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
        self._ended_producers = whole.ended_producers
        self.feature_level = max(self.feature_level, whole.feature_level)
        self.index = whole.index
        return changes

    def _put(self, view: TopicView) -> TopicChange:
        before = self._by_id.get(view.topic_id)
        self._by_id[view.topic_id] = self._by_name[view.name] = view
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
        """The topic with other partitions; those that did not change are shared, and not looked at."""
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
        return [TopicChange(ChangeKind.DELETED, old)]


class WholeState:
    """The whole state on its way into a view, which it replaces at one stroke (`ClusterView.replace`).

    A million partitions are seconds of work: they are made part by part as they come, and those that are as
    the view has them are its own, so that the stroke need not compare what is in them.
    """

    __slots__ = ("_view", "brokers", "ended_producers", "feature_level", "index", "topics")

    def __init__(self, view: ClusterView) -> None:
        """view: what it is to replace."""
        self.index = self.feature_level = 0
        self.brokers: dict[int, BrokerView] = {}
        self.topics: list[TopicView] = []
        self.ended_producers: set[int] = set()
        self._view = view

    def add(self, part: pb.Delta) -> None:
        """Takes in what a message has of it. A topic is never in two. An empty part says nothing."""
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
        self.ended_producers.update(part.ended_producers)


def _differ(one: PartitionView, other: PartitionView) -> bool:
    return one is not other and one != other


def _broker(broker: pb.Broker) -> BrokerView:
    host, port = "", 0
    outside_host, outside_port = "", 0
    for endpoint in broker.endpoints:
        if endpoint.name == "tank":
            host, port = endpoint.host, endpoint.port
        elif endpoint.name == OUTSIDE:
            outside_host, outside_port = endpoint.host, endpoint.port
    return BrokerView(
        broker.broker_id,
        broker.epoch,
        host,
        port,
        broker.rack,
        broker.fenced_index != 0,
        broker.draining,
        broker.shutting_down,
        outside_host,
        outside_port,
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
    )


def _settings(pairs: dict[str, str]) -> TopicSettings:
    """The controller has checked them; what a newer one knows and we don't must not stop the node."""
    try:
        return topic_settings.from_pairs(pairs)
    except SettingError as error:
        rest = {key: value for key, value in pairs.items() if key != error.key}
        return _settings(rest)
