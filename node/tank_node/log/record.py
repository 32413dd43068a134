"""The 64-byte record that the index holds for every batch. Pure. Its layout:
`tank_protos.storage.index_record`."""

from struct import Struct
from typing import Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from tank_node.disk import Buffer
from tank_protos import bundle
from tank_protos.storage.index_record import POSITION_AT as POSITION_AT
from tank_protos.storage.index_record import RECORD as RECORD
from tank_protos.storage.index_record import RECORD_BYTES as RECORD_BYTES
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError

CHECKED_HEAD: Final = Struct("<QIIII")
"""first, span, position, length and the checksum: what differs from the bytes that the checksum is made
of."""
HEAD_BYTES: Final = CHECKED_HEAD.size

FIRST_AT: Final = 0
MAX_TIMESTAMP_AT: Final = 32
PRODUCER_ID_AT: Final = 40
FLAGS_AT: Final = 59

TRANSACTIONAL: Final = 1
MARKER: Final = 2
SPARSE: Final = 4
"""The batch carries its own numbers."""
BREAK: Final = 8
"""A chunk must begin here: the batch is dense and does not follow on the one before it in the file."""
REWRITTEN: Final = 16
"""Batches or messages were taken out of this segment: some of its records may have BREAK."""

FORMAT_TANK: Final = 0
_BUNDLE_SPARSE: Final = 0x40


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
    """The record at an offset of a buffer that is long enough."""
    return Record._make(RECORD.unpack_from(buffer, offset))


def names_producers(records: bytes) -> bool:
    """Whether one of these packed records is of an idempotent producer."""
    return any(memoryview(records).cast("Q")[PRODUCER_ID_AT // 8 :: RECORD_BYTES // 8].tolist())


def checksum(batch: Buffer, record: Record) -> int:
    """What `record.crc` must be for these bytes."""
    value: int = crc32c(record._replace(position=0, crc=0).pack(), crc32c(batch))
    return value


def matches(record: Record, batch: Buffer) -> bool:
    """Whether a record and the bytes it points to belong together."""
    return len(batch) == record.length > 0 and checksum(batch, record) == record.crc


def sealed(batch: Buffer, record: Record) -> Record:
    """The record with the checksum for these bytes."""
    return record._replace(crc=checksum(batch, record))


def is_sparse_bundle(batch: Buffer) -> bool:
    """Whether a stored TANK batch (length prefix, bundle) carries its own numbers."""
    at = 1
    if batch[0] & 0x80:
        at = 2 if batch[1] < 0x80 else 3 if batch[2] < 0x80 else 4 if batch[3] < 0x80 else 5
    return bool(batch[at] & _BUNDLE_SPARSE)


def last_in(record: Record, batch: Buffer) -> int:
    """The last number that a batch's own bytes have: compaction may have taken those behind it. -1: nobody
    can decode them."""
    if not record.flags & SPARSE:
        return record.last
    try:
        _, start = varint.read(batch, 0)
        return bundle.read_header(memoryview(batch)[start:]).last
    except WireError:
        return -1
