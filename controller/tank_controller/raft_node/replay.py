"""What a controller's segments say, record by record, when they are read back; what may be wrong. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tank_controller.raft.messages import Configuration, Entry, HardState, Snapshot
from tank_controller.raft_node.frames import JournalDamagedError
from tank_controller.raft_node.records import Base, Record


class RaftStorageError(Exception):
    """The controller's files can't be used; the message says why and what to do."""


class StorageDamagedError(RaftStorageError):
    """Bytes that were once right are not any more, or files are missing."""


class StorageFullError(RaftStorageError):
    """The disk is full; nothing of this was stored, and the same may be tried again."""


class StorageFailedError(RaftStorageError):
    """What is on the disk is not known any more: the process has to end, and read it anew."""


@dataclass(slots=True, frozen=True)
class Stored:
    """What a controller finds of itself."""

    cluster_id: str
    hard: HardState
    snapshot: Snapshot | None
    base: tuple[int, int, Configuration]
    entries: list[Entry]
    cut_bytes: int
    warnings: list[str]


@dataclass(slots=True)
class Replay:
    """The segments, read so far, record by record."""

    base: Base | None = None
    hard: HardState = field(default_factory=HardState)
    entries: list[Entry] = field(default_factory=list)

    def last(self) -> tuple[int, int]:
        """(index, term) of the log's end."""
        assert self.base is not None
        if self.entries:
            return self.entries[-1].index, self.entries[-1].term
        return self.base.index, self.base.term

    def term(self, index: int) -> int | None:
        """Of an entry; None when it isn't there."""
        assert self.base is not None
        if index == self.base.index:
            return self.base.term
        at = index - self.base.index - 1
        return self.entries[at].term if 0 <= at < len(self.entries) else None

    def take(self, record: Record) -> None:
        """The next record. JournalDamagedError when it doesn't follow."""
        if isinstance(record, Base):
            if self.base is None or record.installed:
                self.base, self.entries = record, []
            elif self.last() != (record.index, record.term):
                raise JournalDamagedError(f"entries before {record.index + 1} are missing")
        elif self.base is None:
            raise JournalDamagedError("it doesn't say where it begins")
        elif isinstance(record, HardState):
            self.hard = record
        else:
            if not self.base.index < record.index <= self.last()[0] + 1:
                raise JournalDamagedError(f"entry {record.index} follows {self.last()[0]}")
            del self.entries[record.index - self.base.index - 1 :]
            self.entries.append(record)


@dataclass(slots=True)
class Segment:
    """A file of the log."""

    number: int
    base: int
    """The end of the log when it was begun."""
    lowest: int
    """The first entry that it holds; at or below the base when it cut what was before it, and then the log
    can't be read from here on without that."""


def needless(segments: Sequence[Segment], kept: int) -> list[Segment]:
    """The first ones, as many as aren't needed while a snapshot holds everything up to entry `kept`."""
    for at in reversed(range(len(segments))):
        base = segments[at].base
        if base <= kept and all(segment.lowest > base for segment in segments[at:]):
            return list(segments[:at])
    return []


def numbers_of(names: list[str], suffix: str) -> list[int]:
    """The numbers in the files' names that end so, rising."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit())
