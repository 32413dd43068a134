"""A record of a group, as it is stored: the key and the value begin with the version of their message."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import WireError

StoredRecord: TypeAlias = tuple[bytes, bytes | None]
"""A record's key and value; without a value it deletes what is stored under its key."""

_VERSION: Final = Struct(">h")


def split(data: bytes) -> tuple[int, memoryview]:
    """The version at the beginning, and the message behind it. Raises WireError."""
    if len(data) < _VERSION.size:
        raise WireError(f"{len(data)} bytes have no version")
    return _VERSION.unpack_from(data)[0], memoryview(data)[_VERSION.size :]


def joined(version: int, message: Sequence[Buffer]) -> bytes:
    """A message behind its version."""
    return b"".join((_VERSION.pack(version), *message))
