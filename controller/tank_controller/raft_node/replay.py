"""Reads a controller's segments record by record at a start, and finds what is wrong with them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tank_controller.raft.messages import Configuration, HardState, LogEntry, Snapshot
from tank_controller.raft_node.frames import JournalDamagedError
from tank_controller.raft_node.records import Base, Record


class RaftStorageError(Exception):
    """The controller's files can't be used; the message says why and what to do."""


class StorageDamagedError(RaftStorageError):
    """Bytes on the disk have changed since they were written, or files are missing."""


class StorageFullError(RaftStorageError):
    """The disk is full; nothing was stored, and the same call may be tried again."""


class StorageFailedError(RaftStorageError):
    """The content of the disk is not known any more: the process has to end and read it again."""


@dataclass(slots=True, frozen=True)
class StoredRaft:
    """What a controller reads from its disk at a start."""

    cluster_id: str
    hard: HardState
    snapshot: Snapshot | None
    base: tuple[int, int, Configuration]
    entries: list[LogEntry]
    cut_bytes: int
    warnings: list[str]


@dataclass(slots=True)
class Replay:
    """The records of the segments read so far."""

    base: Base | None = None
    hard: HardState = field(default_factory=HardState)
    entries: list[LogEntry] = field(default_factory=list)

    def last(self) -> tuple[int, int]:
        """(index, term) of the last entry."""
        assert self.base is not None
        if self.entries:
            return self.entries[-1].index, self.entries[-1].term
        return self.base.index, self.base.term

    def term(self, index: int) -> int | None:
        """The term of an entry; None when it isn't here."""
        assert self.base is not None
        if index == self.base.index:
            return self.base.term
        at = index - self.base.index - 1
        return self.entries[at].term if 0 <= at < len(self.entries) else None

    def take(self, record: Record) -> None:
        """Takes the next record. Raises JournalDamagedError when it doesn't follow on the last one."""
        if isinstance(record, Base):
            if self.base is None or record.installed:
                self.base, self.entries = record, []
            elif self.last() != (record.index, record.term):
                raise JournalDamagedError(f"entries before {record.index + 1} are missing")
        elif self.base is None:
            raise JournalDamagedError("its first record, which says where it begins, is missing")
        elif isinstance(record, HardState):
            self.hard = record
        else:
            if not self.base.index < record.index <= self.last()[0] + 1:
                raise JournalDamagedError(f"entry {record.index} follows {self.last()[0]}")
            del self.entries[record.index - self.base.index - 1 :]
            self.entries.append(record)


@dataclass(slots=True)
class RaftSegment:
    """A file of the log."""

    number: int
    base: int
    """The index of the log's last entry when the segment was begun."""
    lowest: int
    """The first entry in the segment. At or below the base when the segment replaced earlier entries; then
    the log can't be read from this segment alone.
    """


def needless(segments: Sequence[RaftSegment], kept: int) -> list[RaftSegment]:
    """The first segments, as many as aren't needed while a snapshot holds everything up to entry `kept`."""
    for at in reversed(range(len(segments))):
        base = segments[at].base
        if base <= kept and all(segment.lowest > base for segment in segments[at:]):
            return list(segments[:at])
    return []


def numbers_of(names: list[str], suffix: str) -> list[int]:
    """The numbers in the names of files with this suffix, rising."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit())
