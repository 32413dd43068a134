"""Control batches: the worked example, both ends of a transaction, and what is none."""

from struct import pack

import pytest

from tank_protos.kafka.control_batch import ControlType, TransactionEnd, decode, encode
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.record_batch import check, read_header, seal, verify
from tank_protos.kafka.records import KafkaRecord
from tank_protos.kafka.records import encode as encode_records
from tests.support.values.kafka_records import STAMP_MS

EXAMPLE = bytes.fromhex(
    "0000000000000007 00000042 00000003 02 9df7b5fa 0030 00000000 000001a1fafc30bc 000001a1fafc30bc"
    "00000000000004d2 0000 ffffffff 00000001"
    "20 00 00 00 08 00000001 0c 000000000003 00"
)


def test_the_worked_example() -> None:
    end = TransactionEnd(ControlType.COMMIT, producer_id=1234, producer_epoch=0, coordinator_epoch=3)
    assert encode(end, STAMP_MS, base_offset=7, leader_epoch=3) == EXAMPLE
    assert len(EXAMPLE) == 78
    assert decode(EXAMPLE, verify(memoryview(EXAMPLE))) == end


@pytest.mark.parametrize("kind", ControlType)
def test_both_ends_of_a_transaction_come_back(kind: ControlType) -> None:
    end = TransactionEnd(kind, 2**60, 2**15 - 1, 2**31 - 1)
    batch = encode(end, 5)
    assert decode(batch, verify(memoryview(batch))) == end


def test_no_client_may_send_one() -> None:
    with pytest.raises(InvalidRecords, match="ends a transaction"):
        check(memoryview(EXAMPLE))


def with_record(key: bytes | None, value: bytes | None) -> bytes:
    return seal(read_header(EXAMPLE), encode_records([KafkaRecord(key, value, 0, 0)]))


def test_another_kind_is_passed_over() -> None:
    """Kafka's own controllers write some, and later versions may write more."""
    for kind in (2, 6, -1, 100):
        batch = with_record(pack(">hh", 0, kind), None)
        assert decode(batch, verify(memoryview(batch))) is None


def test_fields_behind_those_that_are_known_are_passed_over() -> None:
    batch = with_record(pack(">hhi", 1, 0, 9), pack(">hiq", 1, 5, 9))
    end = decode(batch, verify(memoryview(batch)))
    assert end is not None
    assert (end.kind, end.coordinator_epoch) == (ControlType.ABORT, 5)


@pytest.mark.parametrize(
    "batch",
    [
        with_record(None, bytes(6)),
        with_record(b"\0\0\0", bytes(6)),
        with_record(bytes(4), None),
        with_record(bytes(4), bytes(5)),
        seal(read_header(EXAMPLE)._replace(attributes=0x10), EXAMPLE[61:]),
        seal(read_header(EXAMPLE)._replace(records_count=2, last_offset_delta=1), EXAMPLE[61:] * 2),
    ],
    ids=["no key", "a short key", "no value", "a short value", "no attribute", "two records"],
)
def test_what_is_no_control_batch_is_refused(batch: bytes) -> None:
    with pytest.raises(InvalidRecords):
        decode(batch, verify(memoryview(batch)))
