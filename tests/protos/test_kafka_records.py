"""Messages that lie in other bytes of Kafka's, byte by byte: no other implementation's vectors have them."""

import pytest

from tank_protos.generated.kafka import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    EndTxnMarker,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
)
from tank_protos.generated.kafka.consumer_protocol_assignment import TopicPartition, TopicPartitionCollection
from tank_protos.generated.kafka.group_metadata_value import MemberMetadata
from tank_protos.generated.kafka.transaction_log_value import PartitionsSchema
from tank_protos.wire.errors import UnsupportedVersion
from tank_protos.wire.message import Message

OFFSET = OffsetCommitValue(offset=7, leader_epoch=3, metadata="m", commit_timestamp=1000)
MEMBER = MemberMetadata("a", "i", "c", "/h", 60_000, 10_000, b"\1", b"\2\3")
GROUP = GroupMetadataValue("consumer", 5, "range", "a", 1000, [MEMBER])
TRANSACTION = TransactionLogValue(
    producer_id=9,
    producer_epoch=2,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema("t", [0, 1])],
    transaction_last_update_timestamp_ms=1001,
    transaction_start_timestamp_ms=1000,
)


@pytest.mark.parametrize(
    ("message", "version", "wire"),
    [
        (OffsetCommitKey("g", "t", 4), 0, "0001 67 0001 74 00000004"),
        (OffsetCommitKey("g", "t", 4), 1, "0001 67 0001 74 00000004"),
        (GroupMetadataKey("g"), 2, "0001 67"),
        (OFFSET, 0, "0000000000000007 0001 6d 00000000000003e8"),
        (OFFSET, 1, "0000000000000007 0001 6d 00000000000003e8 ffffffffffffffff"),
        (OFFSET, 2, "0000000000000007 0001 6d 00000000000003e8"),
        (OFFSET, 3, "0000000000000007 00000003 0001 6d 00000000000003e8"),
        (OFFSET, 4, "0000000000000007 00000003 02 6d 00000000000003e8 00"),
        (
            GROUP,
            3,
            "0008 636f6e73756d6572 00000005 0005 72616e6765 0001 61 00000000000003e8 00000001"
            " 0001 61 0001 69 0001 63 0002 2f68 0000ea60 00002710 00000001 01 00000002 0203",
        ),
        (
            GROUP,
            4,
            "09 636f6e73756d6572 00000005 06 72616e6765 02 61 00000000000003e8 02"
            " 02 61 02 69 02 63 03 2f68 0000ea60 00002710 02 01 03 0203 00 00",
        ),
        (TransactionLogKey("x"), 0, "0001 78"),
        (
            TRANSACTION,
            0,
            "0000000000000009 0002 0000ea60 01 00000001 0001 74 00000002 00000000 00000001"
            " 00000000000003e9 00000000000003e8",
        ),
        (
            TRANSACTION,
            1,
            "0000000000000009 0002 0000ea60 01 02 02 74 03 00000000 00000001 00"
            " 00000000000003e9 00000000000003e8 00",
        ),
        (EndTxnMarker(6), 0, "00000006"),
        (ConsumerProtocolSubscription(["t"]), 0, "00000001 0001 74 ffffffff"),
        (
            ConsumerProtocolSubscription(["t"], b"", rack_id="r"),
            3,
            "00000001 0001 74 00000000 00000000 ffffffff 0001 72",
        ),
        (
            ConsumerProtocolAssignment(TopicPartitionCollection([TopicPartition("t", [2])])),
            0,
            "00000001 0001 74 00000001 00000002 ffffffff",
        ),
    ],
)
def test_a_record_has_these_bytes(message: Message, version: int, wire: str) -> None:
    payload = bytes.fromhex(wire)
    assert b"".join(message.encode(version)) == payload
    assert b"".join(type(message).decode(payload, version).encode(version)) == payload


def test_what_an_older_record_lacks_has_its_default() -> None:
    old = OffsetCommitValue.decode(bytes.fromhex("0000000000000007 0001 6d 00000000000003e8"), 2)
    assert (old.leader_epoch, old.expire_timestamp) == (-1, -1)
    oldest = b"".join(GROUP.encode(0))
    group = GroupMetadataValue.decode(oldest, 0)
    assert group.current_state_timestamp == -1
    assert (group.members[0].group_instance_id, group.members[0].rebalance_timeout) == (None, 0)


def test_a_producer_id_that_changes_is_in_tags_and_needs_a_version_with_them() -> None:
    changed = TransactionLogValue(producer_id=9, previous_producer_id=8, client_transaction_version=2)
    assert b"".join(changed.encode(1)).hex().endswith("02 00 08 0000000000000008 02 02 0002".replace(" ", ""))
    with pytest.raises(UnsupportedVersion, match="PreviousProducerId"):
        changed.encode(0)
