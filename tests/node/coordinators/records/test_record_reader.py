"""The reader of a coordinator's load, beside the one that reads all versions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tank_node.coordinators.machine.committed_offset import CommittedOffset
from tank_node.coordinators.records.group_records import (
    GroupsRecord,
    OffsetRecord,
    batch_of,
    group_record,
    offset_record,
    read,
)
from tank_node.coordinators.records.kept_offset import kept, offset_of, topic_id_of
from tank_node.coordinators.records.record_reader import GroupRecordReader, ReadOffset, ReadRecord
from tank_protos.generated.kafka import OffsetCommitKey, OffsetCommitValue
from tank_protos.kafka import record_batch, records
from tests.node.coordinators.records.some_offsets import OFFSET, OFFSETS


def said(found: ReadRecord | None) -> tuple[str, str, int, CommittedOffset | None]:
    """What was read about an offset."""
    assert isinstance(found, ReadOffset)
    offset = None if found.kept is None else offset_of(found.kept)
    return found.group_id, found.topic, found.partition, offset


def wanted_of(record: GroupsRecord | None) -> tuple[str, str, int, CommittedOffset | None]:
    """The same of a record that was read otherwise."""
    assert isinstance(record, OffsetRecord)
    return record.group_id, record.topic, record.partition, record.offset


@pytest.mark.parametrize("offset", OFFSETS)
def test_what_was_written_is_read(offset: CommittedOffset | None) -> None:
    reader = GroupRecordReader()
    for group, topic in (("g", "t"), ("g", "u"), ("h", "u"), ("\udcff", "\u00e9")):
        for partition in (7, 8):
            found = reader.read(*offset_record(group, topic, partition, offset))
            assert isinstance(found, ReadOffset)
            assert (found.group_id, found.topic, found.partition) == (group, topic, partition)
            assert found.kept == (None if offset is None else kept(offset))


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("key_version", range(2))
def test_all_versions_are_read_between_those_that_are_written(version: int, key_version: int) -> None:
    reader = GroupRecordReader()
    key = key_version.to_bytes(2) + b"".join(OffsetCommitKey("g", "t", 2).encode(key_version))
    value = version.to_bytes(2) + b"".join(OffsetCommitValue(7, 5, "note", 10, 20).encode(version))
    for _ in range(2):
        assert said(reader.read(*offset_record("other", "u", 3, OFFSET))) == ("other", "u", 3, OFFSET)
        group_id, topic, partition, offset = said(reader.read(key, value))
        assert (group_id, topic, partition) == ("g", "t", 2)
        assert offset is not None
        assert (offset.offset, offset.metadata, offset.commit_ms) == (7, "note", 10)


@settings(max_examples=500)
@given(data=st.data())
def test_anything_is_read_as_all_versions_are_read(data: st.DataObject) -> None:
    """Cut, damaged and unknown records, too."""
    key, value = data.draw(st.sampled_from([offset_record("g", "t", 2, each) for each in OFFSETS]))
    damaged = [bytearray(key), bytearray(value or b"")]
    for part in damaged:
        for _ in range(data.draw(st.integers(0, 2))):
            if part:
                part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
        del part[data.draw(st.integers(len(part) // 2, len(part))) :]
    given_key, given_value = bytes(damaged[0]), None if value is None else bytes(damaged[1])
    reader = GroupRecordReader()
    reader.read(*offset_record("g", "t", 2, OFFSET))
    found, wanted = reader.read(given_key, given_value), read(given_key, given_value)
    if isinstance(wanted, OffsetRecord):
        assert said(found) == wanted_of(wanted)
    else:
        assert type(found) is type(wanted)


def test_the_topics_ids_stand_in_headers_beside_the_records() -> None:
    stored = [offset_record("g", "t", number, OFFSET) for number in range(4)] + [group_record("g", None)]
    batch = memoryview(batch_of(stored, 5, {0: 77, 2: 2**40, 3: 2**40}))
    header = record_batch.check(batch)
    found = list(records.iterate(record_batch.payload_of(batch, header), header.records_count))
    assert [(record.key, record.value) for record in found] == stored
    reader = GroupRecordReader()
    ids = []
    for record in found[:4]:
        offset = reader.read(record.key, record.value, record.headers)
        assert isinstance(offset, ReadOffset)
        assert offset.kept is not None
        ids.append(topic_id_of(offset.kept))
    assert ids == [77, 0, 2**40, 2**40]
    assert found[0].headers == ((b"topic-id", (77).to_bytes(8)),)
