"""What a controller's segments say, record by record, when they are read back; what may be wrong. Pure."""

from dataclasses import dataclass, field

from tank_controller.journal_format import JournalDamagedError
from tank_controller.raft.messages import Configuration, Entry, HardState, Snapshot
from tank_controller.raft_records import Base, Record


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
