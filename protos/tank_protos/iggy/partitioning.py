"""How the partition of a send is chosen: `u8 kind, u8 length, value`."""

from dataclasses import dataclass
from typing import Final

from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.kinds import PartitioningKind
from tank_protos.wire.errors import Truncated

_HEAD_BYTES: Final = 2
_ID_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A choice. Keys are not stored."""

    kind: PartitioningKind = PartitioningKind.BALANCED
    partition: int = 0
    """The partition's id on the wire, if it is given."""
    key: bytes = b""
    """1 to 255 bytes, if the partition follows from them."""

    def encode(self) -> bytes:
        """Returns the bytes on the wire."""
        value = self.key
        if self.kind == PartitioningKind.PARTITION:
            value = self.partition.to_bytes(_ID_BYTES, "little")
        return bytes((self.kind, len(value))) + value


BALANCED: Final = Partitioning()


def read(payload: memoryview, at: int) -> tuple[Partitioning, int]:
    """Returns the partitioning at place `at`, and the place behind it.

    Raises Truncated, and IggyRefusal for another kind or length (INVALID_COMMAND, INVALID_KEY_VALUE_LENGTH).
    """
    start = at + _HEAD_BYTES
    if start > len(payload):
        raise Truncated("the bytes end inside a partitioning")
    kind, size = payload[at], payload[at + 1]
    end = start + size
    if end > len(payload):
        raise Truncated("the bytes end inside a partitioning")
    if kind == PartitioningKind.BALANCED and not size:
        return BALANCED, end
    if kind == PartitioningKind.PARTITION and size == _ID_BYTES:
        partition = int.from_bytes(payload[start:end], "little")
        return Partitioning(PartitioningKind.PARTITION, partition), end
    if kind == PartitioningKind.KEY:
        if not size:
            raise IggyRefusal(IggyError.INVALID_KEY_VALUE_LENGTH, "a messages key without a byte")
        return Partitioning(PartitioningKind.KEY, key=bytes(payload[start:end])), end
    raise IggyRefusal(IggyError.INVALID_COMMAND, f"a partitioning of kind {kind} with {size} bytes")
