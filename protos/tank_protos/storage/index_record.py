"""The layout of the 64-byte record that goes with every batch: in a log's index, and to replicas.

Little-endian: `u64 first, u32 span` (last - first), `u32 position, u32 length` (with its length prefix),
`u32 crc32c, u64 append_ms, u64 max_timestamp_ms, u64 producer_id, u32 producer_sequence, u32 leader_epoch,
u16 producer_epoch, u8 format, u8 flags, u32 messages`. The CRC covers the batch's bytes, then the record with
position and crc as zero, so that it is the same on every replica, at whatever position the batch is.
"""

from struct import Struct
from typing import Final

RECORD_BYTES: Final = 64
RECORD: Final = Struct("<QIIIIQQQIIHBBI")
assert RECORD.size == RECORD_BYTES

# The offsets of the two fields that the CRC takes as zero.
POSITION_AT: Final = 12
CRC_AT: Final = 20
