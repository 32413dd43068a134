"""The checkpoint: the ends of all logs in a data folder, so that a start need not read the logs. Pure.

It is one file, because one for each of 10,000 partitions would take seconds to write. Little-endian:
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
"""The most epochs of one partition in the checkpoint; older ones are in the records."""


@dataclass(slots=True, frozen=True)
class CheckpointEntry:
    """One partition. Its fields hold for the files as they were when synced, or for an earlier state."""

    topic_id: int
    partition: int
    high_water_mark: int = 0
    recovery_point: int = 0
    """Every batch up to this number was synced: recovery checks only the batches behind it."""
    log_start: int = 0
    compacted_through: int = 0
    end_base: int = 0
    """The base of the last segment, whose file sizes follow: after a clean stop nothing is checked when they
    agree."""
    end_log_bytes: int = 0
    end_records: int = 0
    damaged: bool = False
    """Whether the log is damaged or being refilled: no start may trust its files, even if they look whole.
    The recovery point is the last number given out then."""
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
    """Whether it was written at the end of an orderly stop, after all logs were synced."""
    entries: dict[tuple[int, int], CheckpointEntry]


def encode(clean: bool, entries: list[bytes]) -> bytes:
    """Encodes the file's content, from packed entries."""
    body = _HEAD.pack(_MAGIC, clean, len(entries)) + b"".join(entries)
    return body + crc32c(body).to_bytes(4, "little")


def decode(content: bytes) -> Checkpoint:
    """Decodes a checkpoint. Raises ValueError when it is torn, damaged or of an unknown format."""
    body = content[:-4]
    if len(content) < _HEAD.size + 4 or crc32c(body) != int.from_bytes(content[-4:], "little"):
        raise ValueError("the checkpoint does not match its checksum")
    try:
        magic, clean, count = _HEAD.unpack_from(body, 0)
        if magic != _MAGIC:
            raise ValueError("the checkpoint has a format that this version doesn't know")
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


def _unpack(body: bytes, at: int) -> tuple[CheckpointEntry, int]:
    """Unpacks one entry without its epochs, and the number of epochs that follow."""
    *fields, epochs = _ENTRY.unpack_from(body, at)
    return CheckpointEntry(*fields), epochs
