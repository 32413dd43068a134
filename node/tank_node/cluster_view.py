"""The node's copy of the cluster's state: brokers, topics, partitions, and which producers were ended.

It changes by deltas alone, in the order of the controller's log. Sessions and broker read it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tank_protos import topic_settings
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import SettingError, TopicSettings

NO_LEADER = 0
"""In `PartitionView.leader`: nobody leads now."""


@dataclass(slots=True)
class BrokerView:
    """A broker of the cluster, and where clients reach it."""

    broker_id: int
    epoch: int
    """The log index at which its present process registered."""
    host: str
    port: int
    rack: str


@dataclass(slots=True)
class PartitionView:
    """Who holds a partition."""

    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


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


@dataclass(slots=True)
class ClusterView:
    """What this node knows of the cluster."""

    cluster_id: str
    broker_id: int
    index: int = 0
    """The last log entry that is in here."""
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
        changes = []
        for broker in delta.brokers:
            self.brokers[broker.broker_id] = _broker(broker)
        for topic_id in delta.deleted_topics:
            if (old := self._by_id.pop(topic_id, None)) is not None:
                del self._by_name[old.name]
                changes.append(TopicChange(ChangeKind.DELETED, old))
        for topic in delta.topics:
            view = _topic(topic)
            kind = ChangeKind.ALTERED if view.topic_id in self._by_id else ChangeKind.CREATED
            self._by_id[view.topic_id] = self._by_name[view.name] = view
            changes.append(TopicChange(kind, view))
        self._ended_producers.update(delta.ended_producers)
        self._ended_producers.difference_update(delta.forgotten_producers)
        self.index = delta.index
        return changes


def _broker(broker: pb.Broker) -> BrokerView:
    host, port = "", 0
    for endpoint in broker.endpoints:
        if endpoint.name == "tank":
            host, port = endpoint.host, endpoint.port
    return BrokerView(broker.broker_id, broker.epoch, host, port, broker.rack)


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
    )


def _settings(pairs: dict[str, str]) -> TopicSettings:
    """The controller has checked them; what a newer one knows and we don't must not stop the node."""
    try:
        return topic_settings.from_pairs(pairs)
    except SettingError as error:
        rest = {key: value for key, value in pairs.items() if key != error.key}
        return _settings(rest)
