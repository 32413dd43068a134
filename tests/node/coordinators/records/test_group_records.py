"""The records of groups are Kafka's."""

import pytest

from tank_node.coordinators.machine.group_requests import CommittedOffset
from tank_node.coordinators.records.group_records import (
    GroupRecord,
    OffsetRecord,
    batch_of,
    group_record,
    offset_record,
    read,
)
from tank_protos.generated.kafka import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue
from tank_protos.kafka import record_batch, records
from tank_protos.wire.errors import WireError
from tests.node.coordinators.records.some_offsets import OFFSET, OFFSETS

KEY = b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\2"
MEMBER = MemberMetadata("m-1", "static", "m", "/10.0.0.7", 60_000, 10_000, b"said", b"todo")
GROUP = GroupMetadataValue("consumer", 3, "range", "m-1", 1_700_000_000_000, [MEMBER])


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    key, value = offset_record("g", "t", 2, OFFSET)
    assert key == KEY
    assert value == (
        b"\0\3" + (1_000).to_bytes(8) + (5).to_bytes(4) + b"\0\4note" + (1_700_000_000_000).to_bytes(8)
    )


def test_an_offset_with_a_time_of_its_own_is_written_in_the_version_that_has_one() -> None:
    _, value = offset_record("g", "t", 2, CommittedOffset(1, 5, "", 10, 20))
    assert value is not None
    assert value[:2] == b"\0\1"
    found = read(KEY, value)
    assert isinstance(found, OffsetRecord)
    assert found.offset == CommittedOffset(1, -1, "", 10, 20)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("key_version", range(2))
def test_offsets_of_all_versions_are_read(version: int, key_version: int) -> None:
    value = OffsetCommitValue(9, -1, "m", 10, -1)
    encoded = version.to_bytes(2) + b"".join(value.encode(version))
    found = read(key_version.to_bytes(2) + KEY[2:], encoded)
    assert isinstance(found, OffsetRecord)
    assert (found.group_id, found.topic, found.partition) == ("g", "t", 2)
    assert found.offset == CommittedOffset(9, -1, "m", 10, -1)


def test_a_group_comes_back_as_it_was_written() -> None:
    key, value = group_record("g", GROUP)
    assert key == b"\0\2\0\1g"
    assert value is not None
    assert value[:2] == b"\0\3"
    found = read(key, value)
    assert isinstance(found, GroupRecord)
    assert found.group_id == "g"
    assert found.value == GROUP


@pytest.mark.parametrize("version", range(5))
def test_groups_of_all_versions_are_read(version: int) -> None:
    members = [MemberMetadata("m-1", client_id="m", client_host="/h", session_timeout=1, subscription=b"s")]
    value = GroupMetadataValue("consumer", 3, "range", "m-1", -1, members)
    found = read(b"\0\2\0\1g", version.to_bytes(2) + b"".join(value.encode(version)))
    assert isinstance(found, GroupRecord)
    assert found.value is not None
    assert (found.value.generation, found.value.members[0].subscription) == (3, b"s")


def test_a_record_without_a_value_deletes() -> None:
    offset, group = read(*offset_record("g", "t", 2, None)), read(*group_record("g", None))
    assert isinstance(offset, OffsetRecord)
    assert isinstance(group, GroupRecord)
    assert (offset.offset, group.value) == (None, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\3"),
        (b"", b"\0\3"),
        (b"\0", b"\0\3"),
        (b"\0\3\0\1g", b"\0\0"),
        (b"\xff\xff\0\1g", b"\0\0"),
        (KEY + b"x", None),
        (KEY[:-1], None),
        (KEY, b""),
        (KEY, b"\0\x63" + bytes(20)),
        (KEY, b"\xff\xff" + bytes(20)),
        (KEY, b"\0\3" + bytes(3)),
        (b"\0\2\0\1g", b"\0\3\0\x09consumer"),
    ],
)
def test_what_is_damaged_or_unknown_is_nothing(key: bytes | None, value: bytes | None) -> None:
    assert read(key, value) is None


def test_a_batch_has_the_records_in_their_order() -> None:
    stored = [offset_record("g", "t", number, OFFSET) for number in range(3)] + [group_record("g", None)]
    batch = memoryview(batch_of(stored, 1_700_000_000_000))
    header = record_batch.check(batch)
    found = list(records.iterate(record_batch.payload_of(batch, header), header.records_count))
    assert [(record.key, record.value) for record in found] == stored
    assert [header.timestamp_ms(record.timestamp_delta) for record in found] == [1_700_000_000_000] * 4


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(
    ("group", "topic"), [("g", "t"), ("", "t"), ("\u00e9" * 9, "orders.v1"), ("\udcff", "t")]
)
def test_offsets_are_written_as_the_messages_own_encoders_write_them(
    group: str, topic: str, offset: CommittedOffset | None
) -> None:
    key, value = offset_record(group, topic, 2, offset)
    assert key == b"\0\1" + b"".join(OffsetCommitKey(group, topic, 2).encode(1))
    if offset is None:
        assert value is None
        return
    version = 3 if offset.expire_ms < 0 else 1
    epoch = offset.leader_epoch if version == 3 else -1
    message = OffsetCommitValue(offset.offset, epoch, offset.metadata, offset.commit_ms, offset.expire_ms)
    assert value == version.to_bytes(2) + b"".join(message.encode(version))


@pytest.mark.parametrize(
    ("group", "topic", "partition", "offset"),
    [
        ("g" * 32_768, "t", 0, OFFSET),
        ("g", "t" * 32_768, 0, None),
        ("g", "t", 2**31, None),
        ("g", "t", 0, CommittedOffset(2**63)),
        ("g", "t", 0, CommittedOffset(0, 2**31)),
        ("g", "t", 0, CommittedOffset(0, 0, "n" * 32_768)),
        ("g", "t", 0, CommittedOffset(0, 0, "", 2**63)),
        ("g\ud800", "t", 0, OFFSET),
    ],
)
def test_what_has_no_place_in_a_record_is_refused(
    group: str, topic: str, partition: int, offset: CommittedOffset | None
) -> None:
    with pytest.raises(WireError):
        offset_record(group, topic, partition, offset)
