"""The records in which a coordinator keeps groups of the consumer protocol: Kafka's own.

A group is several records, each under a key of its own: its epoch, the topics it reads, the epoch of its
targets; and for every member what it says, what it is to have, and what it has."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from tank_node.coordinators.machine.stored_record import StoredRecord, joined, split
from tank_node.coordinators.machine.topics import Places, TopicId, TopicShape
from tank_node.coordinators.records.consumer_member import ClassicSide, MemberStanding, Said, ShareProgress
from tank_protos.generated.kafka import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
)
from tank_protos.generated.kafka.consumer_group_current_member_assignment_value import (
    TopicPartitions as CurrentPartitions,
)
from tank_protos.generated.kafka.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from tank_protos.generated.kafka.consumer_group_partition_metadata_value import TopicMetadata
from tank_protos.generated.kafka.consumer_group_target_assignment_member_value import (
    TopicPartitions as TargetPartitions,
)
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import WireError


class KeyKind(IntEnum):
    """What a record is about; the number is its key's version."""

    CLASSIC = 2
    """A classic group: here only ever deleted, when it has become one of the consumer protocol."""
    GROUP = 3
    TOPICS = 4
    MEMBER = 5
    TARGETS = 6
    TARGET = 7
    CURRENT = 8


KINDS: Final = range(KeyKind.GROUP, KeyKind.CURRENT + 1)
"""The versions of the keys of these records."""
_WRITTEN: Final = 0
"""The version of values."""

Key: TypeAlias = tuple[KeyKind, str]
"""What a record is about, and the member's id where it is about one."""
Value: TypeAlias = int | Mapping[str, TopicShape] | Said | Places | MemberStanding | None
"""What a record says: the epochs of GROUP and TARGETS, topics by name, a member's words, target and standing.
None: it is gone."""


class ConsumerRecord:
    """A record about a group of the consumer protocol."""

    __slots__ = ("group_id", "key", "value")

    def __init__(self, group_id: str, key: Key, value: Value) -> None:
        self.group_id = group_id
        self.key = key
        self.value = value


# --- writing -----------------------------------------------------------------------------------------


def record(group_id: str, key: Key, value: Value) -> StoredRecord:
    """The record that says this. Raises WireError for a text that doesn't fit."""
    kind, member_id = key
    named = joined(kind, _key(group_id, kind, member_id).encode(kind))
    return named, None if value is None else joined(_WRITTEN, _value(kind, value))


_Key: TypeAlias = (
    GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
)


def _key(group_id: str, kind: KeyKind, member_id: str) -> _Key:
    match kind:
        case KeyKind.CLASSIC:
            return GroupMetadataKey(group_id)
        case KeyKind.GROUP:
            return ConsumerGroupMetadataKey(group_id)
        case KeyKind.TOPICS:
            return ConsumerGroupPartitionMetadataKey(group_id)
        case KeyKind.MEMBER:
            return ConsumerGroupMemberMetadataKey(group_id, member_id)
        case KeyKind.TARGETS:
            return ConsumerGroupTargetAssignmentMetadataKey(group_id)
        case KeyKind.TARGET:
            return ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
        case KeyKind.CURRENT:
            return ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)


def _value(kind: KeyKind, value: Value) -> list[Buffer]:
    if isinstance(value, int):
        if kind is KeyKind.GROUP:
            return ConsumerGroupMetadataValue(value).encode(_WRITTEN)
        return ConsumerGroupTargetAssignmentMetadataValue(value).encode(_WRITTEN)
    if isinstance(value, Said):
        return _said(value).encode(_WRITTEN)
    if isinstance(value, MemberStanding):
        return ConsumerGroupCurrentMemberAssignmentValue(
            value.epoch,
            value.previous_epoch,
            value.progress,
            [CurrentPartitions(topic, numbers) for topic, numbers in by_topic(value.assigned)],
            [CurrentPartitions(topic, numbers) for topic, numbers in by_topic(value.revoking)],
        ).encode(_WRITTEN)
    if isinstance(value, frozenset):
        return ConsumerGroupTargetAssignmentMemberValue(
            [TargetPartitions(topic, numbers) for topic, numbers in by_topic(value)]
        ).encode(_WRITTEN)
    assert value is not None, "a record that deletes has no value"
    topics = [TopicMetadata(each.topic_id, each.name, each.partitions) for each in value.values()]
    return ConsumerGroupPartitionMetadataValue(topics).encode(_WRITTEN)


def _said(said: Said) -> ConsumerGroupMemberMetadataValue:
    classic = None
    if said.classic is not None:
        protocols = [ClassicProtocol(name, metadata) for name, metadata in said.classic.protocols]
        classic = ClassicMemberMetadata(said.classic.session_ms, protocols)
    return ConsumerGroupMemberMetadataValue(
        said.instance_id,
        said.rack_id,
        said.client_id,
        said.client_host,
        sorted(said.topics),
        said.regex or None,
        said.rebalance_ms,
        said.assignor,
        classic,
    )


def by_topic(places: Places) -> list[tuple[TopicId, list[int]]]:
    """The numbers of partitions by topic, both rising."""
    found: dict[TopicId, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return list(found.items())


# --- reading -----------------------------------------------------------------------------------------


def read(kind: int, key: memoryview, value: bytes | None) -> ConsumerRecord | None:
    """What a record says, whose key is of a version of `KINDS`; None for a version of the value that only
    later brokers know. Raises WireError."""
    group_id, member_id = _named(KeyKind(kind), key)
    return ConsumerRecord(
        group_id, (KeyKind(kind), member_id), None if value is None else _said_by(kind, value)
    )


def _named(kind: KeyKind, key: memoryview) -> tuple[str, str]:
    match kind:
        case KeyKind.GROUP:
            return ConsumerGroupMetadataKey.decode(key, kind).group_id, ""
        case KeyKind.TOPICS:
            return ConsumerGroupPartitionMetadataKey.decode(key, kind).group_id, ""
        case KeyKind.TARGETS:
            return ConsumerGroupTargetAssignmentMetadataKey.decode(key, kind).group_id, ""
        case KeyKind.MEMBER:
            member = ConsumerGroupMemberMetadataKey.decode(key, kind)
            return member.group_id, member.member_id
        case KeyKind.TARGET:
            target = ConsumerGroupTargetAssignmentMemberKey.decode(key, kind)
            return target.group_id, target.member_id
        case KeyKind.CURRENT:
            current = ConsumerGroupCurrentMemberAssignmentKey.decode(key, kind)
            return current.group_id, current.member_id
    raise WireError(f"a key of version {kind} is not of these")


def _said_by(kind: int, value: bytes) -> Value:
    version, rest = split(value)
    match kind:
        case KeyKind.GROUP:
            return ConsumerGroupMetadataValue.decode(rest, version).epoch
        case KeyKind.TARGETS:
            return ConsumerGroupTargetAssignmentMetadataValue.decode(rest, version).assignment_epoch
        case KeyKind.TOPICS:
            topics = ConsumerGroupPartitionMetadataValue.decode(rest, version).topics
            return {
                each.topic_name: TopicShape(each.topic_id, each.topic_name, each.num_partitions)
                for each in topics
            }
        case KeyKind.MEMBER:
            return _member(ConsumerGroupMemberMetadataValue.decode(rest, version))
        case KeyKind.TARGET:
            return _places(ConsumerGroupTargetAssignmentMemberValue.decode(rest, version).topic_partitions)
        case _:
            found = ConsumerGroupCurrentMemberAssignmentValue.decode(rest, version)
            try:
                progress = ShareProgress(found.state)
            except ValueError:
                raise WireError(f"a member can't be in state {found.state}") from None
            return MemberStanding(
                found.member_epoch,
                found.previous_member_epoch,
                progress,
                _places(found.assigned_partitions),
                _places(found.partitions_pending_revocation),
            )


def _member(found: ConsumerGroupMemberMetadataValue) -> Said:
    classic = None
    if found.classic_member_metadata is not None:
        side = found.classic_member_metadata
        protocols = tuple((each.name, bytes(each.metadata)) for each in side.supported_protocols)
        classic = ClassicSide(side.session_timeout_ms, protocols)
    return Said(
        found.instance_id,
        found.rack_id,
        found.client_id,
        found.client_host,
        frozenset(found.subscribed_topic_names),
        found.subscribed_topic_regex or "",
        found.rebalance_timeout_ms,
        found.server_assignor,
        classic,
    )


def _places(found: Iterable[CurrentPartitions] | Iterable[TargetPartitions]) -> Places:
    return frozenset((bytes(each.topic_id), number) for each in found for number in each.partitions)


class ConsumerImage:
    """A group of the consumer protocol, as its records say."""

    def __init__(self) -> None:
        self.epoch = 0
        """0: there is no record of the group itself."""
        self.target_epoch = 0
        self.topics: dict[str, TopicShape] = {}
        self.members: dict[str, Said] = {}
        self.targets: dict[str, Places] = {}
        self.standings: dict[str, MemberStanding] = {}

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of it."""
        return not (
            self.epoch or self.target_epoch or self.topics or self.members or self.targets or self.standings
        )

    def take(self, key: Key, value: Value) -> None:
        """Takes over what a record says; a later one replaces an earlier one of its key."""
        kind, member_id = key
        if isinstance(value, Said):
            self.members[member_id] = value
        elif isinstance(value, MemberStanding):
            self.standings[member_id] = value
        elif isinstance(value, frozenset):
            self.targets[member_id] = value
        elif isinstance(value, Mapping):
            self.topics = dict(value)
        elif kind is KeyKind.GROUP:
            self.epoch = value or 0
        elif kind is KeyKind.TARGETS:
            self.target_epoch = value or 0
        elif kind is KeyKind.TOPICS:
            self.topics = {}
        elif kind is KeyKind.MEMBER:
            self.members.pop(member_id, None)
        elif kind is KeyKind.TARGET:
            self.targets.pop(member_id, None)
        else:
            self.standings.pop(member_id, None)
