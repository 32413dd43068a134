"""The records in which a coordinator keeps groups: Kafka's own, so that tools that read `__consumer_offsets`
work. Every version is read, and the one that Kafka writes is written.

A record's key and value begin with the version of their message. The version of a key tells what the record
is about: 0 and 1 a committed offset, 2 a classic group, 3 to 8 a group of the consumer protocol
(`consumer_records`), and one that Kafka doesn't have a group of Iggy's clients (`iggy_records`). A record
without a value says that this is gone."""

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, TypeAlias

from tank_node.coordinators.machine.committed_offset import NO_EPOCH, CommittedOffset
from tank_node.coordinators.machine.stored_record import StoredRecord, joined, split
from tank_node.coordinators.records import consumer_records, iggy_records
from tank_node.coordinators.records.consumer_records import ConsumerRecord
from tank_node.coordinators.records.iggy_records import IGGY_KEY, IggyRecord
from tank_protos.generated.kafka import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tank_protos.wire.errors import WireError

_OFFSET_KEYS: Final = range(2)
_GROUP_KEY: Final = 2
OFFSET_KEY_WRITTEN: Final = 1
OFFSET_WRITTEN: Final = 3
"""The versions that are written."""
_EXPIRING_WRITTEN: Final = 1
"""The one version that has a time at which the offset goes; it has no leader epoch."""
_GROUP_WRITTEN: Final = 3
_NEVER: Final = -1
TOPIC_ID: Final = b"topic-id"
"""The name of a record's header with the id of the offset's topic, in eight bytes. Kafka's format has a place
for it in a version that its older tools can't read; they don't look at headers."""
_write_hh: Final = Struct(">hh").pack
_write_h: Final = Struct(">h").pack
_write_i: Final = Struct(">i").pack
_write_q: Final = Struct(">q").pack
_write_hqih: Final = Struct(">hqih").pack


class OffsetRecord:
    """A record about one committed offset."""

    __slots__ = ("group_id", "offset", "partition", "topic")

    def __init__(self, group_id: str, topic: str, partition: int, offset: CommittedOffset | None) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.offset = offset
        """None: it is deleted."""


class GroupRecord:
    """A record about a group and its members."""

    __slots__ = ("group_id", "value")

    def __init__(self, group_id: str, value: GroupMetadataValue | None) -> None:
        self.group_id = group_id
        self.value = value
        """None: the group is deleted."""


GroupsRecord: TypeAlias = OffsetRecord | GroupRecord | ConsumerRecord | IggyRecord
"""A record of one of the kinds that there are."""


def read(key: bytes | None, value: bytes | None) -> GroupsRecord | None:
    """What a record says; None for one that can't be read: it is damaged, or of a kind or version that only
    later brokers know."""
    if key is None:
        return None
    try:
        version, rest = split(key)
        if version in _OFFSET_KEYS:
            named = OffsetCommitKey.decode(rest, version)
            offset = None if value is None else read_offset_value(value)
            return OffsetRecord(named.group, named.topic, named.partition, offset)
        if version == _GROUP_KEY:
            return GroupRecord(GroupMetadataKey.decode(rest, version).group, _group(value))
        if version in consumer_records.KINDS:
            return consumer_records.read(version, rest, value)
        if version == IGGY_KEY:
            return iggy_records.read(key, value)
    except WireError:
        pass
    return None


def read_offset_value(value: bytes) -> CommittedOffset:
    """The offset in a record's value. Raises WireError."""
    version, rest = split(value)
    found = OffsetCommitValue.decode(rest, version)
    return CommittedOffset(
        found.offset, found.leader_epoch, found.metadata, found.commit_timestamp, found.expire_timestamp
    )


def _group(value: bytes | None) -> GroupMetadataValue | None:
    if value is None:
        return None
    version, rest = split(value)
    return GroupMetadataValue.decode(rest, version)


def offset_record(group_id: str, topic: str, partition: int, offset: CommittedOffset | None) -> StoredRecord:
    """The record of a committed offset; None deletes it. Raises WireError for a text that doesn't fit."""
    try:
        group = group_id.encode("utf-8", "surrogateescape")
        name = topic.encode("utf-8", "surrogateescape")
        head = _write_hh(OFFSET_KEY_WRITTEN, len(group))
        key = head + group + _write_h(len(name)) + name + _write_i(partition)
    except (StructError, UnicodeEncodeError):
        # The message's own encoder says what is wrong; it takes four times as long.
        named = OffsetCommitKey(group_id, topic, partition)
        key = joined(OFFSET_KEY_WRITTEN, named.encode(OFFSET_KEY_WRITTEN))
    return key, None if offset is None else offset_value(offset)


def offset_value(offset: CommittedOffset) -> bytes:
    """The value of a committed offset's record. Raises WireError for what it can't hold."""
    version, epoch = OFFSET_WRITTEN, offset.leader_epoch
    if offset.expire_ms != _NEVER:
        version, epoch = _EXPIRING_WRITTEN, NO_EPOCH
    else:
        try:
            note = offset.metadata.encode("utf-8", "surrogateescape")
            fixed = _write_hqih(OFFSET_WRITTEN, offset.offset, epoch, len(note))
            return fixed + note + _write_q(offset.commit_ms)
        except (StructError, UnicodeEncodeError):
            pass  # as above
    value = OffsetCommitValue(offset.offset, epoch, offset.metadata, offset.commit_ms, offset.expire_ms)
    return joined(version, value.encode(version))


def group_record(group_id: str, value: GroupMetadataValue | None) -> StoredRecord:
    """The record of a group; None deletes it. Raises WireError for a text that doesn't fit."""
    key = joined(_GROUP_KEY, GroupMetadataKey(group_id).encode(_GROUP_KEY))
    return key, None if value is None else joined(_GROUP_WRITTEN, value.encode(_GROUP_WRITTEN))


def batch_of(
    stored: Sequence[StoredRecord], now_ms: int, topic_ids: Mapping[int, int] | None = None
) -> bytes:
    """A record batch of these records, at least one, with this time. topic_ids: the topics of committed
    offsets, where they are known, by the places of their records."""
    keys, values = zip(*stored, strict=True)
    headers = None
    if topic_ids:
        # One object for all offsets of a topic: most records of a batch are of few topics.
        made = {topic_id: ((TOPIC_ID, topic_id.to_bytes(8, "big")),) for topic_id in set(topic_ids.values())}
        headers = {place: made[topic_id] for place, topic_id in topic_ids.items()}
    from tank_protos.kafka import (
        produced_batch,
    )  # with its codecs, 2 MB: a broker without groups does without

    return produced_batch.encode(values, timestamps=now_ms, keys=keys, headers=headers, compression=False)
