"""Control batches: each ends a transaction in a partition. They have an offset, but clients do not show them.

A control batch has one record with the key `i16 version, i16 type` and the value `i16 version, i32
coordinator_epoch`, big-endian.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from tank_protos.kafka.errors import invalid
from tank_protos.kafka.record_batch import (
    CONTROL,
    MAGIC,
    NO_EPOCH,
    TRANSACTIONAL,
    RecordBatchHeader,
    payload_of,
    seal,
)
from tank_protos.kafka.records import KafkaRecord, read_columns
from tank_protos.kafka.records import encode as encode_records
from tank_protos.wire.buffer import Buffer

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0
_NO_SEQUENCE: Final = -1


class ControlType(IntEnum):
    """The end of a transaction."""

    ABORT = 0
    COMMIT = 1


class TransactionEnd(NamedTuple):
    """The content of a control batch."""

    kind: ControlType
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def encode(
    end: TransactionEnd, timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int = NO_EPOCH
) -> bytes:
    """Returns the control batch for the end of a transaction. It has 78 bytes."""
    record = KafkaRecord(_KEY.pack(_VERSION, end.kind), _VALUE.pack(_VERSION, end.coordinator_epoch), 0, 0)
    header = RecordBatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        CONTROL | TRANSACTIONAL,
        0,
        timestamp_ms,
        timestamp_ms,
        end.producer_id,
        end.producer_epoch,
        _NO_SEQUENCE,
        1,
    )
    return seal(header, encode_records([record]))


def decode(batch: Buffer, header: RecordBatchHeader) -> TransactionEnd | None:
    """Returns the content of a control batch with this header, or None if it is of another kind and ends no
    transaction: readers ignore it. Raises InvalidRecords, also for a batch that is no control batch."""
    if not header.attributes & CONTROL:
        raise invalid("a control batch without its attribute")
    columns = read_columns(payload_of(batch, header), 1)
    key, value = columns.keys[0], columns.values[0]
    # Later versions may add fields behind these.
    if key is None or len(key) < _KEY.size:
        raise invalid("a control record without version and type", 0)
    _, kind = _KEY.unpack_from(key, 0)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise invalid("a control record without its coordinator's epoch", 0)
    _, coordinator_epoch = _VALUE.unpack_from(value, 0)
    return TransactionEnd(ControlType(kind), header.producer_id, header.producer_epoch, coordinator_epoch)
