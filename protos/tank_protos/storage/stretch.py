"""A stretch of a partition's log, as its leader pushes it to a follower: index records and their batches.

It stands in the place of the bundle in a ProduceWithBaseSeqNumRequest of version 0x100. Little-endian:
`u64 topic_id, u32 leader_epoch, u32 previous_epoch, u64 high_water_mark, u64 log_start, u32 batches`, in a
stretch with the memory of producers `u32 n` and n bytes of that (`batches` has its highest bit set then), as
many records of 64 bytes as `batches` says (`index_record`), and the batches that they describe, back to back,
byte for byte as the leader stores them. Nothing of them is parsed here.

With version 0x103 a CRC-32C follows those six numbers: `u32`, of the entry from its partition's number on
(`covered`). Records have checksums of their own, and so have the memory of producers and the batches.
"""

from struct import Struct
from typing import ClassVar, Final, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from tank_protos.storage.index_record import RECORD_BYTES
from tank_protos.wire import varint
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import OutOfRange, Truncated, WireError

PUSH_VERSION: Final = 0x100
"""The client version of a ProduceWithBaseSeqNumRequest that carries stretches."""
PUSH_WITH_PRODUCERS: Final = 0x102
"""The same, where they may have the memory of producers. 0x101 is of what brokers forward."""

PUSH_WITH_CHECKSUM: Final = 0x103
"""The same, where each stretch's head has a checksum."""

_HEAD = Struct("<QIIQQI")
HEAD_BYTES: Final = _HEAD.size
_U32_END: Final = 2**32
_length = Struct("<I")
_number, _start = Struct("<H").pack, Struct("<Q").pack
CHECKSUM_BYTES: Final = 4
HAS_PRODUCERS: Final = 2**31
"""Of the number of batches: the memory of producers comes before their records."""


class BadHead(WireError):
    """The numbers of a stretch don't match their checksum: none of them is believed."""

    reason: ClassVar[str] = "push_head_checksum"


class Stretch(NamedTuple):
    """Where it begins (the log's end before it + 1) is the base number of the entry that carries it."""

    topic_id: int
    leader_epoch: int
    """Of the leader that pushes; none of the records has a higher one."""
    previous_epoch: int
    """Of the number before the stretch, in the leader's log; 0: there is none."""
    high_water_mark: int
    """The leader's."""
    log_start: int
    """The first number that the leader still has, or would give to the next message."""
    records: Buffer
    """The packed index records, with the leader's positions; empty: only the numbers above are news."""
    batches: Buffer
    """The batches, each with its length before it."""
    producers: Buffer = b""
    """What the leader's log remembers of producers before the stretch, as a snapshot: for a follower that has
    nothing of what was there. Empty: nothing, or the stretch begins where such a follower can't."""

    def encode(self, number: int = 0, start: int = 0, *, checked: bool = False) -> list[Buffer]:
        """The bytes, in pieces; records and batches are not copied. `number`, `start`: of the entry that
        carries it, for its checksum. Raises OutOfRange."""
        count, rest = divmod(len(self.records), RECORD_BYTES)
        memory = with_length(self.producers) if self.producers else b""
        if rest or HEAD_BYTES + len(memory) + len(self.records) + len(self.batches) >= _U32_END:
            raise OutOfRange(f"a stretch of {count} records and {len(self.batches)} bytes of batches")
        head = _HEAD.pack(*self[:5], count | (HAS_PRODUCERS if memory else 0))
        if checked:
            length = HEAD_BYTES + CHECKSUM_BYTES + len(memory) + len(self.records) + len(self.batches)
            head += _length.pack(crc32c(covered(number, length, start, head)))
        return [head, memory, self.records, self.batches] if count else [head, memory]


def with_length(producers: Buffer) -> bytes:
    """The memory of producers as it stands before a stretch's records."""
    return b"".join((_length.pack(len(producers)), producers))


def covered(number: int, length: int, start: int, head: Buffer) -> bytes:
    """What a head's checksum is of: its entry's bytes up to there, which are the partition's number, the
    stretch's length, its base number, and the head itself."""
    return b"".join((_number(number), varint.encode(length), _start(start), head))


def check_head(entry: Buffer, payload: memoryview) -> None:
    """Of a stretch with a checksum: `entry` is what that covers. Raises BadHead, Truncated."""
    if len(payload) < HEAD_BYTES + CHECKSUM_BYTES:
        raise Truncated(f"a stretch has {len(payload)} bytes; its head has {HEAD_BYTES + CHECKSUM_BYTES}")
    if crc32c(entry) != _length.unpack_from(payload, HEAD_BYTES)[0]:
        raise BadHead("the head of a pushed stretch doesn't match its checksum: it was changed on its way")


def decode(payload: memoryview, *, checked: bool = False) -> Stretch:
    """The stretch that fills `payload`: records and batches are slices of it, which keep it alive.

    Whether they belong together is the follower's to check. `checked`: its head has a checksum, which
    `check_head` has looked at. Raises Truncated, OutOfRange.
    """
    if len(payload) < HEAD_BYTES:
        raise Truncated(f"a stretch has {len(payload)} bytes; its head alone has {HEAD_BYTES}")
    topic_id, leader_epoch, previous_epoch, high_water_mark, log_start, count = _HEAD.unpack_from(payload, 0)
    start, producers = HEAD_BYTES + CHECKSUM_BYTES if checked else HEAD_BYTES, payload[:0]
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
        raise OutOfRange("a stretch says that it remembers producers, and remembers none")
    return payload[start : start + length]
