"""The checkpoint: what the whole data folder knows of its partitions without reading them. Pure.

One file for all, because one for each would cost seconds at 10,000 partitions. Little-endian:
`8 bytes magic, u8 clean, u32 partitions`, then for each `u64 topic_id, u32 partition, u64 high_water_mark,
u64 recovery_point, u64 log_start, u64 compacted_through, u64 end_base, u32 end_log_bytes, u32 end_records,
u8 damaged, u16 epochs, {u32 epoch, u64 first}*`, and `u32 crc32c` over all before it.
"""

from dataclasses import dataclass, replace
from struct import Struct, error

from fastcrc.crc32 import iscsi as crc32c

_MAGIC = b"TANKCKP1"
_HEAD = Struct("<8sBI")
_ENTRY = Struct("<QIQQQQQII?H")
_EPOCH = Struct("<IQ")
MAX_EPOCHS = 65535
"""Of one partition; older ones are told by the records."""


@dataclass(slots=True, frozen=True)
class Entry:
    """One partition. All of it is true of the files as they were synced, or of earlier ones."""

    topic_id: int
    partition: int
    high_water_mark: int = 0
    recovery_point: int = 0
    """Every batch up to this number was synced: recovery looks only behind it."""
    log_start: int = 0
    compacted_through: int = 0
    end_base: int = 0
    """The last segment, and its two files' sizes: at a clean stop nothing needs to be read when they
    agree."""
    end_log_bytes: int = 0
    end_records: int = 0
    damaged: bool = False
    """Bad batches were found and not mended: no start may believe the files, however whole they look. The
    recovery point then says which numbers were given out."""
    epochs: tuple[tuple[int, int], ...] = ()
    """(leader epoch, first number), rising."""

    def pack(self) -> bytes:
        epochs = self.epochs[-MAX_EPOCHS:]
        head = _ENTRY.pack(
            self.topic_id,
            self.partition,
            self.high_water_mark,
            self.recovery_point,
            self.log_start,
            self.compacted_through,
            self.end_base,
            self.end_log_bytes,
            self.end_records,
            self.damaged,
            len(epochs),
        )
        return head + b"".join(_EPOCH.pack(*epoch) for epoch in epochs)


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """All partitions by (topic id, partition)."""

    clean: bool
    """Written at the end of an orderly stop, after everything was synced."""
    entries: dict[tuple[int, int], Entry]


def encode(clean: bool, entries: list[bytes]) -> bytes:
    """The file's content, from packed entries."""
    body = _HEAD.pack(_MAGIC, clean, len(entries)) + b"".join(entries)
    return body + crc32c(body).to_bytes(4, "little")


def decode(content: bytes) -> Checkpoint:
    """What a checkpoint says. Raises ValueError when it is torn, damaged or of an unknown format."""
    body = content[:-4]
    if len(content) < _HEAD.size + 4 or crc32c(body) != int.from_bytes(content[-4:], "little"):
        raise ValueError("the checkpoint does not match its checksum")
    try:
        magic, clean, count = _HEAD.unpack_from(body, 0)
        if magic != _MAGIC:
            raise ValueError("a checkpoint of a format that is not known here")
        at = _HEAD.size
        entries = {}
        for _ in range(count):
            entry, epochs = _unpack(body, at)
            at += _ENTRY.size
            end = at + epochs * _EPOCH.size
            entry = replace(entry, epochs=tuple(_EPOCH.iter_unpack(body[at:end])))
            at = end
            entries[entry.topic_id, entry.partition] = entry
    except error as broken:
        raise ValueError("the checkpoint is shorter than it says") from broken
    return Checkpoint(bool(clean), entries)


def _unpack(body: bytes, at: int) -> tuple[Entry, int]:
    """One entry without its epochs, and how many of them follow."""
    *fields, epochs = _ENTRY.unpack_from(body, at)
    return Entry(*fields), epochs
