"""The cluster's state: what the controller's log adds up to. Pure, and the same on every controller.

Invariant: the state after entry n depends on the entries up to n alone; its snapshot is the same bytes
however it was reached (replayed, or loaded from an older snapshot and the rest replayed).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tank_protos.generated import control_pb2 as pb

SNAPSHOT_FORMAT = 1


class SnapshotError(ValueError):
    """A snapshot that this version can't read."""


@dataclass(slots=True)
class BrokerState:
    """A broker, and the process that was its last to register."""

    broker_id: int
    incarnation: bytes
    epoch: int
    """The index of the entry that registered this incarnation; only grows."""
    endpoints: tuple[tuple[str, str, int], ...]
    """(name, host, port)."""
    rack: str
    disk_uuid: bytes


@dataclass(slots=True)
class PartitionState:
    """Who holds a partition, and who leads it."""

    replicas: tuple[int, ...]
    """In the order of preference."""
    in_sync: tuple[int, ...]
    leader: int
    """0: nobody."""
    leader_epoch: int
    """Only grows; in one epoch there is one leader, and one process of it."""
    partition_epoch: int
    """Grows with every change of this partition."""


@dataclass(slots=True)
class TopicState:
    """A topic. Its id is the index of the entry that created it: a topic made again gets another."""

    topic_id: int
    name: str
    replication_factor: int
    settings: dict[str, str]
    """What somebody set; sorted by key."""
    partitions: list[PartitionState]


@dataclass(slots=True)
class ProducerState:
    """The present id of a named producer."""

    generation: int
    producer_id: int
    ended: tuple[int, ...]
    """Ids of earlier generations, oldest first; bounded."""
    used_ms: int


@dataclass(slots=True)
class PositionState:
    """How far a group has read a partition."""

    sequence_number: int
    metadata: bytes
    committed_ms: int


@dataclass(slots=True)
class ClusterState:
    """All of it. Changed by `commands.apply` alone."""

    index: int = 0
    """The last entry that is in here."""
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    topics: dict[int, TopicState] = field(default_factory=dict)
    producers: dict[str, ProducerState] = field(default_factory=dict)
    """By name, in the order of last use."""
    groups: dict[str, dict[int, dict[int, PositionState]]] = field(default_factory=dict)
    """Group, in the order of the last commit; topic id; partition. No group and no topic in it is empty."""

    topic_ids: dict[str, int] = field(default_factory=dict)
    """Derived, as is all below: not in the snapshot."""
    held: Counter[int] = field(default_factory=Counter)
    """How many replicas each broker holds."""
    led: Counter[int] = field(default_factory=Counter)
    """How many partitions each broker leads."""
    partition_count: int = 0
    position_count: int = 0
    metadata_bytes: int = 0

    def topic(self, name: str) -> TopicState | None:
        """The topic of this name."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def count_in(self, partition: PartitionState, sign: int = 1) -> None:
        """Adds a partition to the counts; `sign` -1: takes it out. Call it around every change of one."""
        self.partition_count += sign
        self.led[partition.leader] += sign
        for broker_id in partition.replicas:
            self.held[broker_id] += sign

    def snapshot(self) -> bytes:
        """All of it, as `load` reads it."""
        snapshot = pb.Snapshot(
            format=SNAPSHOT_FORMAT,
            index=self.index,
            brokers=[broker_message(self.brokers[broker_id]) for broker_id in sorted(self.brokers)],
            topics=[topic_message(self.topics[topic_id]) for topic_id in sorted(self.topics)],
            producers=[_producer_message(name, producer) for name, producer in self.producers.items()],
            groups=[pb.Group(name=name, positions=positions(topics)) for name, topics in self.groups.items()],
        )
        return snapshot.SerializeToString(deterministic=True)

    def delta(self) -> pb.Delta:
        """All that brokers need to know, for one that knows nothing yet."""
        return pb.Delta(
            index=self.index,
            brokers=[broker_message(broker) for broker in self.brokers.values()],
            topics=[topic_message(topic) for topic in self.topics.values()],
            ended_producers=[number for producer in self.producers.values() for number in producer.ended],
        )

    @staticmethod
    def load(data: bytes) -> "ClusterState":
        """The state that gave this snapshot. SnapshotError when it is none, or from a newer version."""
        try:
            snapshot = pb.Snapshot.FromString(data)
        except Exception as error:  # the runtimes of protobuf raise different types
            raise SnapshotError(
                "the metadata's snapshot is none: put the data folder back from a backup"
            ) from error
        if snapshot.format != SNAPSHOT_FORMAT:
            raise SnapshotError(
                f"the metadata's snapshot has format {snapshot.format}, and this version reads "
                f"{SNAPSHOT_FORMAT}: start the newer version that wrote it"
            )
        state = ClusterState(index=snapshot.index)
        for broker in snapshot.brokers:
            state.brokers[broker.broker_id] = _broker_state(broker)
        for topic in snapshot.topics:
            state.topics[topic.topic_id] = _topic_state(topic)
            state.topic_ids[topic.name] = topic.topic_id
            for partition in state.topics[topic.topic_id].partitions:
                state.count_in(partition)
        for producer in snapshot.producers:
            state.producers[producer.name] = ProducerState(
                producer.generation, producer.producer_id, tuple(producer.ended), producer.used_ms
            )
        for group in snapshot.groups:
            topics = state.groups.setdefault(group.name, {})
            for position in group.positions:
                topics.setdefault(position.topic_id, {})[position.partition] = PositionState(
                    position.sequence_number, position.metadata, position.committed_ms
                )
                state.position_count += 1
                state.metadata_bytes += len(position.metadata)
        return state


def positions(topics: dict[int, dict[int, PositionState]]) -> Iterator[pb.Position]:
    """A group's positions by topic id and partition."""
    for topic_id in sorted(topics):
        for partition, position in sorted(topics[topic_id].items()):
            yield pb.Position(
                topic_id=topic_id,
                partition=partition,
                sequence_number=position.sequence_number,
                metadata=position.metadata,
                committed_ms=position.committed_ms,
            )


def broker_message(broker: BrokerState) -> pb.Broker:
    """A broker as snapshots and deltas hold it."""
    return pb.Broker(
        broker_id=broker.broker_id,
        incarnation=broker.incarnation,
        epoch=broker.epoch,
        endpoints=[pb.Endpoint(name=name, host=host, port=port) for name, host, port in broker.endpoints],
        rack=broker.rack,
        disk_uuid=broker.disk_uuid,
    )


def topic_message(topic: TopicState) -> pb.Topic:
    """A topic as snapshots and deltas hold it."""
    return pb.Topic(
        topic_id=topic.topic_id,
        name=topic.name,
        replication_factor=topic.replication_factor,
        settings=[pb.Setting(key=key, value=value) for key, value in topic.settings.items()],
        partitions=[
            pb.Partition(
                partition=number,
                replicas=partition.replicas,
                in_sync=partition.in_sync,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
            )
            for number, partition in enumerate(topic.partitions)
        ],
    )


def _producer_message(name: str, producer: ProducerState) -> pb.Producer:
    return pb.Producer(
        name=name,
        generation=producer.generation,
        producer_id=producer.producer_id,
        ended=producer.ended,
        used_ms=producer.used_ms,
    )


def _broker_state(broker: pb.Broker) -> BrokerState:
    return BrokerState(
        broker_id=broker.broker_id,
        incarnation=broker.incarnation,
        epoch=broker.epoch,
        endpoints=tuple((endpoint.name, endpoint.host, endpoint.port) for endpoint in broker.endpoints),
        rack=broker.rack,
        disk_uuid=broker.disk_uuid,
    )


def _topic_state(topic: pb.Topic) -> TopicState:
    return TopicState(
        topic_id=topic.topic_id,
        name=topic.name,
        replication_factor=topic.replication_factor,
        settings={setting.key: setting.value for setting in topic.settings},
        partitions=[
            PartitionState(
                replicas=tuple(partition.replicas),
                in_sync=tuple(partition.in_sync),
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
            )
            for partition in topic.partitions
        ],
    )
