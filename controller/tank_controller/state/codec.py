"""The cluster's state as bytes: snapshots, and the messages in deltas. Pure.

Equal states give equal bytes: everything is written in one order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tank_controller.state.iggy.iggy_codec import group_state, part_message, part_state, stream_state
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.iggy.iggy_state import IggyState
from tank_controller.state.iggy.users import UsersState
from tank_controller.state.iggy.users_codec import user_state
from tank_controller.state.model import (
    BrokerState,
    NamedProducer,
    PartitionState,
    PositionState,
    TopicState,
)
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import SettingError
from tank_protos.wire import varint

_LENGTH_DELIMITED = 2
"""Protobuf's wire type of messages and bytes."""
PART_BYTES = 256 * 1024
"""The size of the part of a snapshot that is read at once."""
_PUT_BACK = "put the data folder back from a backup"


class SnapshotError(ValueError):
    """A snapshot that this version can't read."""


@dataclass(slots=True)
class SnapshotContents:
    """The contents of a snapshot; the fields are those of ClusterState."""

    index: int
    peer_key: bytes = b""
    replicates: bool = False
    feature_level: int = 0
    """0: not read yet. It is always written, near the end."""
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    topics: dict[int, TopicState] = field(default_factory=dict)
    producers: dict[str, NamedProducer] = field(default_factory=dict)
    groups: dict[str, dict[int, dict[int, PositionState]]] = field(default_factory=dict)
    lossy_elections: int = 0
    demands_secret: bool = False
    iggy: IggyState = field(default_factory=IggyState)
    """Its index of topics is made by the reader."""
    users: UsersState = field(default_factory=UsersState)


def decode(data: bytes, max_level: int) -> SnapshotContents:
    """Reads a snapshot of a feature level up to this one. Raises SnapshotError for other bytes, and for a
    snapshot of a newer version.
    """
    stored = SnapshotContents(0)
    ids = _Ids()
    format_read = False
    try:
        for part in _parts(data):
            if not format_read:
                _check_format(part.format, max_level)  # it comes first
                format_read = True
            _take(stored, part, ids)
    except (SettingError, IndexError) as error:
        raise SnapshotError(f"the metadata's snapshot contradicts itself: {error}; {_PUT_BACK}") from error
    if not stored.feature_level:
        raise SnapshotError(f"the metadata's snapshot ends too early: {_PUT_BACK}")
    return stored


def _parts(data: bytes) -> Iterator[pb.Snapshot]:
    """The parts of a snapshot. Consecutive fields form a message of their own, so that the snapshot is never
    in memory as messages at once: that takes ten times its bytes.
    """
    start = at = 0
    try:
        while at < len(data):
            tag, at = varint.read(data, at)
            if tag & 7 == _LENGTH_DELIMITED:
                size, at = varint.read(data, at)
                at += size
            else:  # an integer, which has up to ten bytes
                while data[at] >= 0x80:
                    at += 1
                at += 1
            if at - start >= PART_BYTES:
                yield pb.Snapshot.FromString(data[start:at])
                start = at
        yield pb.Snapshot.FromString(data[start:])
    except Exception as error:  # the runtimes of protobuf raise different types
        raise SnapshotError(f"the metadata's snapshot can't be read: {_PUT_BACK}") from error


def _check_format(number: int, max_level: int) -> None:
    known = {each.snapshot for level, each in feature_levels.FORMATS.items() if level <= max_level}
    if number not in known:
        raise SnapshotError(
            f"the metadata's snapshot has format {number}, and this version reads up to {max(known)}: "
            "start the newer version that wrote it"
        )


def _take(stored: SnapshotContents, part: pb.Snapshot, ids: "_Ids") -> None:
    stored.index = part.index or stored.index
    stored.peer_key = part.peer_key or stored.peer_key
    stored.replicates = part.replicates or stored.replicates
    stored.feature_level = part.feature_level or stored.feature_level
    stored.demands_secret = part.demands_secret or stored.demands_secret
    stored.lossy_elections = part.lossy_elections or stored.lossy_elections
    for broker in part.brokers:
        stored.brokers[broker.broker_id] = _broker_state(broker)
    for topic in part.topics:
        if (begun := stored.topics.get(topic.topic_id)) is None:
            stored.topics[topic.topic_id] = _topic_state(topic, ids)
        else:
            begun.partitions.extend(_partition_state(partition, ids) for partition in topic.partitions)
    for producer in part.producers:
        stored.producers[producer.name] = NamedProducer(
            producer.generation, producer.producer_id, tuple(producer.ended), producer.used_ms
        )
    for group in part.groups:
        topics = stored.groups.setdefault(group.name, {})
        for position in group.positions:
            topics.setdefault(position.topic_id, {})[position.partition] = PositionState(
                position.sequence_number, position.metadata, position.committed_ms
            )
    for stream in part.streams:
        stored.iggy.put_stream(stream_state(stream))
    for iggy_group in part.iggy_groups:
        stored.iggy.put_group(group_state(iggy_group))
    for user in part.users:
        stored.users.put(user_state(user))


# --- out ---


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
        fenced_index=broker.fenced_index,
        draining=broker.draining,
        scaled_down=broker.scaled_down,
        shutting_down=broker.shutting_down,
        replicates=broker.replicates,
        flush_replicated=broker.flush_replicated,
        served_epoch=broker.served_epoch,
        clock_off=broker.clock_off,
        no_room=broker.no_room,
    )


def topic_message(topic: TopicState) -> pb.Topic:
    """A topic as snapshots and deltas hold it."""
    message = pb.Topic()
    describe_topic(message, topic)
    for number, partition in enumerate(topic.partitions):
        add_partition(message, number, partition)
    return message


class Described(Protocol):
    """A topic without its partitions."""

    @property
    def topic_id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def replication_factor(self) -> int: ...
    @property
    def was_replicated(self) -> bool: ...
    @property
    def settings(self) -> Mapping[str, str]: ...
    @property
    def iggy(self) -> IggyPart | None: ...
    @property
    def epoch_floor(self) -> int: ...


def describe_topic(message: pb.Topic, topic: Described) -> None:
    """Writes a topic without its partitions into the message."""
    message.topic_id = topic.topic_id
    message.name = topic.name
    message.replication_factor = topic.replication_factor
    message.was_replicated = topic.was_replicated
    for key, value in topic.settings.items():
        message.settings.add(key=key, value=value)
    if topic.iggy is not None:
        message.iggy.CopyFrom(part_message(topic.iggy))
    message.epoch_floor = topic.epoch_floor


def add_partition(holder: pb.Topic | pb.ChangedPartitions, number: int, partition: PartitionState) -> None:
    """Adds a partition as snapshots and deltas hold it."""
    message = holder.partitions.add(
        partition=number,
        replicas=partition.replicas,
        in_sync=partition.in_sync,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )
    # Hardly any partition has these.
    if partition.eligible:
        message.eligible.extend(partition.eligible)
        message.impaired.extend(partition.impaired)
    if partition.moves:
        message.adding.extend(partition.adding)
        message.removing.extend(partition.removing)
    if partition.lossy_elections:
        message.lossy_elections = partition.lossy_elections
        message.lossy_epoch = partition.lossy_epoch
    if partition.first_epoch:
        message.first_epoch = partition.first_epoch


def producer_message(name: str, producer: NamedProducer) -> pb.Producer:
    """A producer as snapshots hold it."""
    return pb.Producer(
        name=name,
        generation=producer.generation,
        producer_id=producer.producer_id,
        ended=producer.ended,
        used_ms=producer.used_ms,
    )


# --- in ---


class _Ids(dict[int, int]):
    """One object for each broker's id: a million partitions name the same thousand."""

    def tuple(self, ids: Iterable[int]) -> tuple[int, ...]:
        return tuple([self.setdefault(broker_id, broker_id) for broker_id in ids])


def _broker_state(broker: pb.Broker) -> BrokerState:
    return BrokerState(
        broker_id=broker.broker_id,
        incarnation=broker.incarnation,
        epoch=broker.epoch,
        endpoints=tuple((endpoint.name, endpoint.host, endpoint.port) for endpoint in broker.endpoints),
        rack=broker.rack,
        disk_uuid=broker.disk_uuid,
        fenced_index=broker.fenced_index,
        draining=broker.draining,
        scaled_down=broker.scaled_down,
        shutting_down=broker.shutting_down,
        replicates=broker.replicates,
        flush_replicated=broker.flush_replicated,
        served_epoch=broker.served_epoch,
        clock_off=broker.clock_off,
        no_room=broker.no_room,
    )


def _topic_state(topic: pb.Topic, ids: _Ids) -> TopicState:
    return TopicState(
        topic_id=topic.topic_id,
        name=topic.name,
        replication_factor=topic.replication_factor,
        settings={setting.key: setting.value for setting in topic.settings},
        partitions=[_partition_state(partition, ids) for partition in topic.partitions],
        was_replicated=topic.was_replicated,
        iggy=part_state(topic.iggy) if topic.HasField("iggy") else None,
        epoch_floor=topic.epoch_floor,
    )


def _partition_state(message: pb.Partition, ids: _Ids) -> PartitionState:
    replicas = ids.tuple(message.replicas)
    in_sync = ids.tuple(message.in_sync)
    leader = message.leader
    partition = PartitionState(
        replicas,
        # in nearly all partitions both are equal, and share one object
        replicas if in_sync == replicas else in_sync,
        ids.get(leader, leader),
        message.leader_epoch,
        message.partition_epoch,
    )
    if message.eligible:
        partition.eligible = ids.tuple(message.eligible)
        partition.impaired = ids.tuple(message.impaired)
    if message.adding or message.removing:
        partition.adding = ids.tuple(message.adding)
        partition.removing = ids.tuple(message.removing)
    if message.lossy_elections:
        partition.lossy_elections = message.lossy_elections
        partition.lossy_epoch = message.lossy_epoch
    partition.first_epoch = message.first_epoch
    return partition
