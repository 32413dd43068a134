"""The 64-byte index record of a batch. Pure. `tank_protos.storage.index_record` has its layout."""

from struct import Struct
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from tank_node.disk import Buffer
from tank_protos.storage.index_record import POSITION_AT as POSITION_AT
from tank_protos.storage.index_record import RECORD as RECORD
from tank_protos.storage.index_record import RECORD_BYTES as RECORD_BYTES

CHECKED_HEAD: Final = Struct("<QIIII")
"""The head of a record: first, span, position, length and checksum. The checksum covers the batch and its
record, with position and checksum 0."""
HEAD_BYTES: Final = CHECKED_HEAD.size

FIRST_AT: Final = 0
APPEND_MS_AT: Final = 24
MAX_TIMESTAMP_AT: Final = 32
PRODUCER_ID_AT: Final = 40
FLAGS_AT: Final = 59

TRANSACTIONAL: Final = 1
MARKER: Final = 2
SPARSE: Final = 4
"""The batch carries its own numbers."""
BREAK: Final = 8
"""A chunk must begin here: the batch is dense, and its first number is not the next one after the batch
before."""
REWRITTEN: Final = 16
"""The record is of a segment from which batches or messages were removed. Others of it may have BREAK."""

FORMAT_TANK: Final = 0
FORMAT_KAFKA: Final = 1


class Record(NamedTuple):
    """One index record: a batch's numbers, place, checksum, times and producer."""

    first: int
    span: int
    position: int
    length: int
    crc: int
    append_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_sequence: int
    leader_epoch: int
    producer_epoch: int
    format: int
    flags: int
    messages: int

    @property
    def last(self) -> int:
        return self.first + self.span

    @property
    def end(self) -> int:
        """Where the next batch begins in the log file."""
        return self.position + self.length

    def pack(self) -> bytes:
        return RECORD.pack(*self)


def read_record(buffer: Buffer, offset: int) -> Record:
    """Unpacks the record at an offset of a buffer."""
    return Record._make(RECORD.unpack_from(buffer, offset))


def names_producers(records: bytes) -> bool:
    """Whether any of these packed records is of an idempotent producer."""
    return any(memoryview(records).cast("Q")[PRODUCER_ID_AT // 8 :: RECORD_BYTES // 8].tolist())


def checksum(batch: Buffer, record: Record) -> int:
    """The value of `record.crc` for a record and its batch."""
    value: int = crc32c(record._replace(position=0, crc=0).pack(), crc32c(batch))
    return value


def matches(record: Record, batch: Buffer) -> bool:
    """Whether a batch has the length and checksum of its record."""
    return len(batch) == record.length > 0 and checksum(batch, record) == record.crc


def sealed(batch: Buffer, record: Record) -> Record:
    """Returns the record with the checksum for its batch."""
    return record._replace(crc=checksum(batch, record))
