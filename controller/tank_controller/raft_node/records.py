"""The bytes of Raft's files, in the journal's frames (`frames`): a frame is one fsync. Pure.

Records, each with its kind before it: where a segment begins, the hard state, an entry. An entry cuts
whatever was stored from its index on: so a truncation is as durable as the frame that brings it.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from tank_controller.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    NodeId,
    Snapshot,
)
from tank_controller.raft.snapshots import make
from tank_controller.raft_node.frames import JournalDamagedError, read_snapshot_file, snapshot_file

_BASE = struct.Struct("<BQQB")
_HARD = struct.Struct("<BQQBIB")
_ENTRY = struct.Struct("<BQQB")
_SNAPSHOT = struct.Struct("<QBI")


class RecordKind(IntEnum):
    """What a record is."""

    BASE = 1
    HARD_STATE = 2
    ENTRY = 3


@dataclass(slots=True, frozen=True)
class Base:
    """A segment's first record: what came before it."""

    index: int = 0
    term: int = 0
    configuration: Configuration = field(default_factory=Configuration)
    installed: bool = False
    """A snapshot from the leader is before it: what older segments hold doesn't count any more."""


Record = Base | HardState | Entry


def encode(record: Record) -> bytes:
    """A record's bytes."""
    match record:
        case Base(index, term, configuration, installed):
            return _BASE.pack(RecordKind.BASE, index, term, installed) + configuration.encode()
        case HardState(term, vote, commit):
            ordinal, disk = (vote.ordinal, vote.disk) if vote else (0, b"")
            return (
                _HARD.pack(RecordKind.HARD_STATE, term, commit, vote is not None, ordinal, len(disk)) + disk
            )
        case Entry(index, term, kind, data):
            return _ENTRY.pack(RecordKind.ENTRY, index, term, kind) + data


def decode(data: bytes) -> Record:
    """Reads it back. JournalDamagedError: the frame's checksum was right, but not what is in it."""
    try:
        match RecordKind(data[0]):
            case RecordKind.BASE:
                _, index, term, installed = _BASE.unpack_from(data)
                return Base(index, term, Configuration.decode(data[_BASE.size :]), bool(installed))
            case RecordKind.HARD_STATE:
                _, term, commit, voted, ordinal, length = _HARD.unpack_from(data)
                if len(data) != _HARD.size + length:
                    raise ValueError("a hard state of another length")
                return HardState(term, NodeId(ordinal, data[_HARD.size :]) if voted else None, commit)
            case RecordKind.ENTRY:
                _, index, term, kind = _ENTRY.unpack_from(data)
                return Entry(index, term, EntryKind(kind), data[_ENTRY.size :])
    except (ValueError, IndexError, struct.error) as error:
        raise JournalDamagedError(f"a record can't be read ({error}): was it a newer version's?") from error


def encode_snapshot(cluster_id: str, snapshot: Snapshot, *, installed: bool) -> bytes:
    """A snapshot file's bytes."""
    meta = snapshot.meta
    configuration = meta.configuration.encode()
    head = _SNAPSHOT.pack(meta.term, installed, len(configuration)) + configuration
    return snapshot_file(cluster_id, meta.index, head + snapshot.data)


def decode_snapshot(data: bytes) -> tuple[str, Snapshot, bool]:
    """(cluster id, snapshot, whether it came from a leader). JournalDamagedError."""
    cluster_id, index, state = read_snapshot_file(data)
    try:
        term, installed, length = _SNAPSHOT.unpack_from(state)
        start = _SNAPSHOT.size + length
        configuration = Configuration.decode(state[_SNAPSHOT.size : start])
    except (ValueError, struct.error) as error:
        raise JournalDamagedError(f"it is no snapshot of this version ({error})") from error
    return cluster_id, make(index, term, configuration, state[start:]), bool(installed)
