"""The Raft log of one node: entries behind a base, and how far they are durable and committed. Pure."""

from collections.abc import Sequence

from tank_controller.raft.errors import MalformedMessageError
from tank_controller.raft.messages import Configuration, EntryKind, LogEntry, Snapshot


class RaftLog:
    """The log's entries. Indexes count from 1. Invariant: applied <= commit <= last, stable <= handed <=
    last.
    """

    def __init__(self, base_index: int, base_term: int, configuration: Configuration) -> None:
        self.base_index = base_index
        """The index and term of the entry before the first one here; all entries up to it are committed and
        in the snapshot.
        """
        self.base_term = base_term
        self.entries: list[LogEntry] = []
        """No gaps: entries[i].index == base_index + 1 + i. Committed entries never change."""
        self.stable = base_index
        """The last index that is durable here, in this very form. Only this counts as the node's own
        acknowledgement.
        """
        self.handed = base_index
        """The last index given to the disk; the next RaftReady hands over the entries behind it."""
        self.commit = base_index
        """A majority has the entries up to this index durably. Never goes back."""
        self.applied = base_index
        self._configurations: list[tuple[int, Configuration]] = [(base_index, configuration)]
        """(index of the entry that brought it, configuration), rising; the first is that of the base. The
        last one is in force.
        """

    @property
    def last_index(self) -> int:
        return self.base_index + len(self.entries)

    @property
    def last_term(self) -> int:
        return self.entries[-1].term if self.entries else self.base_term

    @property
    def configuration(self) -> Configuration:
        """The configuration in force: the last in the log, committed or not.

        So it is a function of the log alone: a restart, a truncation and a snapshot all find the right one,
        and the next leader knows of every change that could be committed.
        """
        return self._configurations[-1][1]

    @property
    def configuration_index(self) -> int:
        """The index of the entry that brought the configuration in force."""
        return self._configurations[-1][0]

    def configuration_at(self, index: int) -> Configuration:
        """The configuration that was in force at an index."""
        return next(found for at, found in reversed(self._configurations) if at <= index)

    def term(self, index: int) -> int | None:
        """The term of the entry at `index`; None when the entry isn't here, or not any more."""
        if index == self.base_index:
            return self.base_term
        if self.base_index < index <= self.last_index:
            return self.entries[index - self.base_index - 1].term
        return None

    def slice(self, first: int, last: int, max_bytes: int) -> list[LogEntry]:
        """Returns entries from `first` to `last`: as many as `max_bytes` allows, at least one."""
        found: list[LogEntry] = []
        size = 0
        start = first - self.base_index - 1
        for entry in self.entries[start : last - self.base_index]:
            size += entry.size
            if found and size > max_bytes:
                break
            found.append(entry)
        return found

    def unhanded(self) -> list[LogEntry]:
        """Returns the entries that have not been given to the disk yet."""
        return self.entries[self.handed - self.base_index :]

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Appends entries: a leader's own, or those that `accept` found missing."""
        for entry in entries:
            assert entry.index == self.last_index + 1, "a gap in the log"
            if entry.kind is EntryKind.CONFIGURATION:
                self._configurations.append((entry.index, Configuration.decode(entry.data)))
            self.entries.append(entry)

    def accept(self, prev_index: int, prev_term: int, entries: Sequence[LogEntry]) -> bool:
        """Takes a leader's entries; returns False when (prev_index, prev_term) isn't here.

        Cuts only where an entry here differs from a new one: a late or empty append finds everything here
        already, and cuts nothing. Raises MalformedMessageError when a committed entry would be cut.
        """
        if self.term(prev_index) != prev_term:
            return False
        for position, entry in enumerate(entries):
            if self.term(entry.index) == entry.term:
                continue
            if entry.index <= self.commit:
                raise MalformedMessageError(f"entry {entry.index} is committed here with another term")
            self._cut(entry.index)
            self.append(entries[position:])
            break
        return True

    def _cut(self, index: int) -> None:
        """Drops entries from `index` on."""
        assert index > self.commit, "a committed entry is never cut"
        del self.entries[index - self.base_index - 1 :]
        self.stable = min(self.stable, index - 1)
        self.handed = min(self.handed, index - 1)
        while self._configurations[-1][0] >= index:
            self._configurations.pop()

    def last_at_most(self, index: int, term: int) -> int:
        """Returns the greatest index up to `index` whose term is at most `term`: the logs agree there at the
        latest.
        """
        index = min(index, self.last_index)
        while index > self.base_index and (self.term(index) or 0) > term:
            index -= 1
        return index

    def commit_to(self, index: int) -> bool:
        """Raises the commit index; returns whether it rose."""
        assert index <= self.last_index, "nothing is committed that is not here"
        risen = index > self.commit
        self.commit = max(self.commit, index)
        return risen

    def persisted(self, index: int, term: int) -> None:
        """The disk has stored the entries up to `index`: they are stable, unless they were cut since."""
        if self.term(index) == term:
            self.stable = max(self.stable, index)

    def restore(self, snapshot: Snapshot) -> None:
        """Begins again behind a snapshot; no old entry is left."""
        meta = snapshot.meta
        assert meta.index > self.commit
        self.base_index, self.base_term = meta.index, meta.term
        self.entries = []
        self.handed = self.commit = self.applied = meta.index
        self.stable = min(self.stable, meta.index)
        self._configurations = [(meta.index, meta.configuration)]

    def compact(self, index: int) -> None:
        """Forgets the entries up to `index`, all of them applied."""
        if index <= self.base_index:
            return
        assert index <= self.applied
        assert index <= self.stable
        term = self.term(index)
        assert term is not None
        kept = [(at, found) for at, found in self._configurations if at > index]
        self._configurations = [(index, self.configuration_at(index)), *kept]
        del self.entries[: index - self.base_index]
        self.base_index, self.base_term = index, term
