"""Checksums of messages, and the hash by which a key chooses its partition."""

import zlib
from struct import Struct
from typing import Final

from xxhash import xxh3_64_intdigest, xxh32_intdigest

from tank_protos.wire.buffer import Buffer

BATCH_FIELDS: Final = Struct("<QQQQQI")
"""What a batch's checksum covers before the messages' checksums: partition, base offset, base timestamp,
origin timestamp, length, count."""


def xxh3(data: Buffer) -> int:
    """Returns XXH3-64 with seed 0."""
    return xxh3_64_intdigest(data)


def crc32(data: Buffer) -> int:
    """Returns CRC-32, as gzip has it."""
    return zlib.crc32(data)


def batch_checksum(fields: tuple[int, int, int, int, int, int], checksums: bytes) -> int:
    """Returns the checksum of a batch: XXH3-64 over the header's fields and its messages' checksums, which
    are eight bytes each."""
    return xxh3_64_intdigest(BATCH_FIELDS.pack(*fields) + checksums)


def key_partition(key: bytes, partitions: int) -> int:
    """Returns the number of the partition that a messages key chooses, among 0 to `partitions` - 1: the same
    for clients of all eras, and what newer SDKs compute by themselves."""
    return xxh32_intdigest(key) % partitions
