"""The bytes of Raft's files, in the journal's frames (`frames`): a frame is one fsync. Pure.

A record begins with its kind: a segment's base, the hard state, or an entry. An entry replaces all entries
stored from its index on, so a truncation is as durable as the frame of that entry.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from tank_controller.raft.messages import (
    Configuration,
    EntryKind,
    HardState,
    LogEntry,
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
    """The kinds of records."""

    BASE = 1
    HARD_STATE = 2
    ENTRY = 3


@dataclass(slots=True, frozen=True)
class Base:
    """A segment's first record: the index, term and configuration before it."""

    index: int = 0
    term: int = 0
    configuration: Configuration = field(default_factory=Configuration)
    installed: bool = False
    """Whether a snapshot from the leader is before this segment, so that older segments don't count
    any more.
    """


Record = Base | HardState | LogEntry


def encode(record: Record) -> bytes:
    """Returns the record's bytes."""
    match record:
        case Base(index, term, configuration, installed):
            return _BASE.pack(RecordKind.BASE, index, term, installed) + configuration.encode()
        case HardState(term, vote, commit):
            ordinal, disk = (vote.ordinal, vote.disk) if vote else (0, b"")
            return (
                _HARD.pack(RecordKind.HARD_STATE, term, commit, vote is not None, ordinal, len(disk)) + disk
            )
        case LogEntry(index, term, kind, data):
            return _ENTRY.pack(RecordKind.ENTRY, index, term, kind) + data


def decode(data: bytes) -> Record:
    """Reads a record. Raises JournalDamagedError for bytes that are no record although the frame's checksum
    is right.
    """
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
                return LogEntry(index, term, EntryKind(kind), data[_ENTRY.size :])
    except (ValueError, IndexError, struct.error) as error:
        raise JournalDamagedError(
            f"a record can't be read ({error}): perhaps a newer version wrote it"
        ) from error


def encode_snapshot(cluster_id: str, snapshot: Snapshot, *, installed: bool) -> bytes:
    """Returns a snapshot file's bytes. `installed`: the snapshot came from a leader."""
    meta = snapshot.meta
    configuration = meta.configuration.encode()
    head = _SNAPSHOT.pack(meta.term, installed, len(configuration)) + configuration
    return snapshot_file(cluster_id, meta.index, head + snapshot.data)


def decode_snapshot(data: bytes) -> tuple[str, Snapshot, bool]:
    """Reads a snapshot file: (cluster id, snapshot, whether it came from a leader). Raises
    JournalDamagedError.
    """
    cluster_id, index, state = read_snapshot_file(data)
    try:
        term, installed, length = _SNAPSHOT.unpack_from(state)
        start = _SNAPSHOT.size + length
        configuration = Configuration.decode(state[_SNAPSHOT.size : start])
    except (ValueError, struct.error) as error:
        raise JournalDamagedError(f"it is no snapshot of this version ({error})") from error
    return cluster_id, make(index, term, configuration, state[start:]), bool(installed)
