"""The number of batches in a Produce request, read before the request is decoded: each becomes an object, and
a frame of many MiB has room for millions of empty ones."""

from struct import Struct
from struct import error as StructError
from typing import Final

from tank_protos.wire import varint
from tank_protos.wire.errors import Truncated

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_TRANSACTIONS_SINCE: Final = 3
_FLEXIBLE_SINCE: Final = 9
_IDS_SINCE: Final = 13
_ACKS_AND_TIMEOUT_BYTES: Final = 6
_ID_BYTES: Final = 16
LEAST_BATCH_BYTES: Final = 6
"""The bytes of a partition without records, in the shortest version."""


def count_batches(body: memoryview, version: int, most: int) -> int:
    """Returns the number of batches in a request, or a number above `most` as soon as there are more. Raises
    WireError for a body that ends too early; the decoder refuses others."""
    try:
        return _flexible(body, version, most) if version >= _FLEXIBLE_SINCE else _plain(body, version, most)
    except (StructError, IndexError):
        raise Truncated("ProduceRequest ends too early") from None


def _plain(body: memoryview, version: int, most: int) -> int:
    at = 0
    if version >= _TRANSACTIONS_SINCE:
        at = _I16.size + max(_I16.unpack_from(body, 0)[0], 0)
    at += _ACKS_AND_TIMEOUT_BYTES
    (topics,) = _I32.unpack_from(body, at)
    at += _I32.size
    count = 0
    while topics > 0 and count <= most:
        topics -= 1
        at += _I16.size + max(_I16.unpack_from(body, at)[0], 0)
        (partitions,) = _I32.unpack_from(body, at)
        at += _I32.size
        while partitions > 0 and count <= most:
            partitions -= 1
            count += 1
            at += _I32.size
            at += _I32.size + max(_I32.unpack_from(body, at)[0], 0)
    return count


def _flexible(body: memoryview, version: int, most: int) -> int:
    size, at = varint.read(body, 0)
    at += max(size - 1, 0) + _ACKS_AND_TIMEOUT_BYTES
    topics, at = varint.read(body, at)
    count = 0
    while topics > 1 and count <= most:
        topics -= 1
        if version >= _IDS_SINCE:
            at += _ID_BYTES
        else:
            size, at = varint.read(body, at)
            at += max(size - 1, 0)
        partitions, at = varint.read(body, at)
        while partitions > 1 and count <= most:
            partitions -= 1
            count += 1
            size, at = varint.read(body, at + _I32.size)
            at = _behind_tags(body, at + max(size - 1, 0))
        at = _behind_tags(body, at)
    return count


def _behind_tags(body: memoryview, at: int) -> int:
    tags, at = varint.read(body, at)
    for _ in range(tags):
        _, at = varint.read(body, at)
        size, at = varint.read(body, at)
        at += size
    return at
