"""A stretch of a partition's log, as its leader pushes it to a follower: index records and their batches.

It replaces the bundle in a ProduceWithBaseSeqNumRequest of version 0x103. Its parts, little-endian:

- the head: `u64 topic_id, u32 leader_epoch, u32 previous_epoch, u64 high_water_mark, u64 log_start, u32
  batches`
- `u32`: a CRC-32C of the entry, from its partition's number up to here (`covered`)
- only when `batches` has its highest bit set: `u32 n`, and n bytes with the memory of producers
- the records of the batches, 64 bytes each (`index_record`)
- the batches, back to back, byte for byte as the leader stores them

Records and batches are not checked here: they have checksums of their own.
"""

from struct import Struct
from typing import ClassVar, Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from tank_protos.storage.index_record import RECORD_BYTES
from tank_protos.wire import varint
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange, Truncated, WireError

PUSH_VERSION: Final = 0x103
"""The client version of a ProduceWithBaseSeqNumRequest that carries stretches."""

_HEAD = Struct("<QIIQQI")
HEAD_BYTES: Final = _HEAD.size
_U32_END: Final = 2**32
_length = Struct("<I")
_number, _start = Struct("<H").pack, Struct("<Q").pack
CHECKSUM_BYTES: Final = 4
HAS_PRODUCERS: Final = 2**31
"""The bit in the count of batches of a stretch with the memory of producers."""


class BadHead(WireError):
    """The numbers of a stretch don't match their checksum: none of them is used."""

    reason: ClassVar[str] = "push_head_checksum"


class Stretch(NamedTuple):
    """A stretch. Its first number (the log's end before it + 1) is not in here: the entry that carries it has
    it as base number."""

    topic_id: int
    leader_epoch: int
    """The epoch of the leader that pushes; no record has a higher one."""
    previous_epoch: int
    """The leader epoch of the number before the stretch, in the leader's log; 0: there is no such number."""
    high_water_mark: int
    """The leader's high-water mark."""
    log_start: int
    """The first number that the leader still has, or would give to the next message."""
    records: Buffer
    """The packed index records, with the leader's positions; empty: the push has only the fields above."""
    batches: Buffer
    """The batches, each with its length before it."""
    producers: Buffer = b""
    """A snapshot of the leader's memory of producers before the stretch, for a follower that begins its log
    with this stretch. Empty: there are no producers, or no follower may begin here."""

    def encode(self, number: int = 0, start: int = 0) -> list[Buffer]:
        """Encodes the stretch, in pieces; records and batches are not copied. `number`, `start`: the
        partition's number and the base number of the entry that carries it, for the checksum. Raises
        OutOfRange."""
        count, rest = divmod(len(self.records), RECORD_BYTES)
        memory = with_length(self.producers) if self.producers else b""
        length = HEAD_BYTES + CHECKSUM_BYTES + len(memory) + len(self.records) + len(self.batches)
        if rest or length >= _U32_END:
            raise OutOfRange(f"a stretch of {count} records and {len(self.batches)} bytes of batches")
        head = _HEAD.pack(*self[:5], count | (HAS_PRODUCERS if memory else 0))
        head += _length.pack(crc32c(covered(number, length, start, head)))
        return [head, memory, self.records, self.batches] if count else [head, memory]


def with_length(producers: Buffer) -> bytes:
    """The memory of producers with its length before it, as in a stretch."""
    return b"".join((_length.pack(len(producers)), producers))


def covered(number: int, length: int, start: int, head: Buffer) -> bytes:
    """The bytes that a head's checksum covers: the partition's number, the stretch's length, its base number,
    and the head itself."""
    return b"".join((_number(number), varint.encode(length), _start(start), head))


def check_head(entry: Buffer, payload: memoryview) -> None:
    """Checks a stretch's head. `entry`: the bytes that the checksum covers. Raises BadHead, Truncated."""
    if len(payload) < HEAD_BYTES + CHECKSUM_BYTES:
        raise Truncated(f"a stretch has {len(payload)} bytes; its head has {HEAD_BYTES + CHECKSUM_BYTES}")
    if crc32c(entry) != _length.unpack_from(payload, HEAD_BYTES)[0]:
        raise BadHead("the head of a pushed stretch doesn't match its checksum: it was changed on the way")


def decode(payload: memoryview) -> Stretch:
    """Decodes the stretch that fills `payload`; records and batches are slices, which keep the payload alive.

    Doesn't check the head (`check_head` does), nor records against batches (`record_run.placed` does). Raises
    Truncated, OutOfRange.
    """
    start, producers = HEAD_BYTES + CHECKSUM_BYTES, payload[:0]
    if len(payload) < start:
        raise Truncated(f"a stretch has {len(payload)} bytes; its head alone has {start}")
    topic_id, leader_epoch, previous_epoch, high_water_mark, log_start, count = _HEAD.unpack_from(payload, 0)
    if count & HAS_PRODUCERS:
        count -= HAS_PRODUCERS
        producers = _producers(payload, start)
        start += _length.size + len(producers)
    end = start + count * RECORD_BYTES
    if end > len(payload):
        raise Truncated(f"a stretch ends before its {count} records")
    if not count and end != len(payload):
        raise OutOfRange(f"a stretch without records has {len(payload) - end} bytes of batches")
    records, batches = payload[start:end], payload[end:]
    return Stretch(
        topic_id, leader_epoch, previous_epoch, high_water_mark, log_start, records, batches, producers
    )


def _producers(payload: memoryview, at: int) -> memoryview:
    start = at + _length.size
    if len(payload) < start:
        raise Truncated("a stretch ends before the memory of producers")
    (length,) = _length.unpack_from(payload, at)
    if len(payload) < start + length:
        raise Truncated(f"a stretch ends before its {length} bytes of memory of producers")
    if not length:
        raise OutOfRange("a stretch with the memory of producers has an empty one")
    return payload[start : start + length]
