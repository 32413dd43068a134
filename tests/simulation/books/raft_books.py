"""The guarantees of Raft, checked against books of all writes, votes, elections and commits.

The books are outside the processes, so no crash or emptied disk changes them. Each event is checked for the
state that it changed, so a violation is reported at the event that made it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tank_controller.raft.core import Raft
from tank_controller.raft.messages import (
    Append,
    EntryKind,
    HardState,
    LogEntry,
    NodeId,
    RaftMessage,
    Snapshot,
    VoteAnswer,
)
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.replay import StoredRaft
from tests.simulation.world.world import World, must


@dataclass(slots=True)
class Kept:
    """What one disk holds for sure."""

    base: int = 0
    """A snapshot, or nothing, stands for everything up to here."""
    terms: dict[int, int] = field(default_factory=dict)
    """By index, behind the base."""
    hard: HardState = field(default_factory=HardState)
    promised: set[tuple[int, int]] = field(default_factory=set)
    """(index, term) of what an earlier copy of this disk lacks: it was promised, and lies on others."""

    def has(self, index: int, term: int) -> bool:
        """Whether this entry is here."""
        return index <= self.base or self.terms.get(index) == term


DiskKey = tuple[int, bytes]
"""(ordinal, disk): whose it is, in the books' own words, whatever the code takes for the same node."""


def disk_key(node: NodeId) -> DiskKey:
    """Of a node's disk."""
    return node.ordinal, node.disk


class Node(Protocol):
    """A running controller, as far as these books look at it."""

    name: str
    own: NodeId
    seen_commit: int
    seen_term: int

    @property
    def raft(self) -> Raft: ...


class RaftBooks:
    """The books of one story."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.disks: dict[DiskKey, Kept] = {}
        """All that ever were, emptied ones too."""
        self.leaders: dict[int, NodeId] = {}
        """By term."""
        self.rewound: set[DiskKey] = set()
        """Disks that an earlier copy of themselves was put in the place of, until they are opened."""
        self.votes: dict[tuple[int, DiskKey], DiskKey] = {}
        """(term, voter): whom it voted for."""
        self.written: dict[tuple[int, int], tuple[bytes, int]] = {}
        """(index, term) of every entry that was ever sent or on a disk: its data, and the term before it."""
        self.committed: dict[int, LogEntry] = {}
        self.committed_in: dict[int, int] = {}
        """The term of whoever was the first to know an entry as committed. A leader of an earlier term, who
        learns of its election late, need not have it."""
        self.last_committed = 0

    # --- disks ---

    def opened(self, own: NodeId, stored: StoredRaft) -> None:
        """A process found this on its disk. What it had promised must be there."""
        before = self.disks.get(disk_key(own))
        base, term, _ = stored.base
        kept = Kept(base, {entry.index: entry.term for entry in stored.entries}, stored.hard)
        if before is not None and disk_key(own) in self.rewound:
            self.rewound.remove(disk_key(own))
            kept.promised = before.promised | set(before.terms.items())
        elif before is not None:
            kept.promised = before.promised
            must(
                stored.hard.term >= before.hard.term,
                "the disk of %s forgot term %s",
                own,
                before.hard.term,
            )
            same_term = stored.hard.term == before.hard.term
            must(
                not (same_term and before.hard.vote) or stored.hard.vote == before.hard.vote,
                "the disk of %s forgot its vote in term %s",
                own,
                before.hard.term,
            )
        self.disks[disk_key(own)] = kept
        self._match(term, stored.entries)

    def put_back(self, own: NodeId) -> None:
        """Its disk is an earlier copy of itself: what it promised since is not there any more."""
        self.rewound.add(disk_key(own))

    def persisted(
        self, own: NodeId, hard: HardState | None, snapshot: Snapshot | None, entries: Sequence[LogEntry]
    ) -> None:
        """A disk has said that it holds this."""
        kept = self.disks.setdefault(disk_key(own), Kept())
        if hard is not None:
            kept.hard = hard
        if snapshot is not None:
            self.world.counts["snapshots installed"] += 1
            kept.base = snapshot.meta.index
            kept.terms = {}
        if entries:
            first = entries[0].index
            if kept.terms and max(kept.terms) >= first:
                kept.terms = {index: term for index, term in kept.terms.items() if index < first}
            for entry in entries:
                kept.terms[entry.index] = entry.term
            self._match(self._term_before(first, kept), entries)

    def holds(self, node: NodeId, index: int, term: int) -> bool:
        """Whether this entry is on this disk for sure."""
        kept = self.disks.get(disk_key(node))
        return kept is not None and kept.has(index, term)

    def _term_before(self, index: int, kept: Kept) -> int | None:
        return kept.terms.get(index - 1)

    # --- messages ---

    def sent(self, message: RaftMessage) -> None:
        """A message leaves."""
        body = message.body
        if isinstance(body, VoteAnswer) and body.granted and not body.pre:
            target = disk_key(message.target)
            voted = self.votes.setdefault((message.term, disk_key(message.sender)), target)
            must(voted == target, "%s votes twice in term %s", message.sender, message.term)
        elif isinstance(body, Append) and body.entries:
            self._match(body.prev_term, body.entries)

    def _match(self, previous: int | None, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            if previous is not None:
                known = self.written.setdefault((entry.index, entry.term), (entry.data, previous))
                must(
                    known == (entry.data, previous),
                    "two different logs up to entry %s of term %s",
                    entry.index,
                    entry.term,
                )
            previous = entry.term

    # --- nodes ---

    def check(self, node: Node) -> None:
        """What has to hold at a node that something just happened to."""
        raft = node.raft
        log = raft.log
        must(log.commit >= node.seen_commit, "the commit of %s goes back", node.name)
        if raft.role is RaftRole.LEADER and raft.term > node.seen_term:
            self._check_leader(node)
        if log.commit > node.seen_commit:
            self._check_commit(node)

    def _check_leader(self, node: Node) -> None:
        raft = node.raft
        node.seen_term = raft.term
        self.world.counts["controller elections"] += 1
        self.world.say(node.name, "leads in term %s", raft.term)
        first = self.leaders.setdefault(raft.term, raft.own)
        must(first == raft.own, "term %s has two leaders, %s and %s", raft.term, first, raft.own)
        for index, entry in self.committed.items():
            if self.committed_in[index] > raft.term:
                continue
            there = index <= raft.log.base_index or raft.log.term(index) == entry.term
            must(
                there, "%s leads in term %s without entry %s, which is committed", node.name, raft.term, index
            )
        own, voters = disk_key(raft.own), [disk_key(voter) for voter in raft.configuration.voters]
        voted = sum(voter == own or self.votes.get((raft.term, voter)) == own for voter in voters)
        must(2 * voted > len(voters), "%s leads in term %s by %s votes", node.name, raft.term, voted)

    def began(self, node: Node) -> None:
        """A process has its log; before it does anything with it."""
        node.seen_commit = node.seen_term = 0
        self._check_commit(node)

    def _check_commit(self, node: Node) -> None:
        log = node.raft.log
        if node.raft.role is RaftRole.LEADER:
            of_own_term = log.term(log.commit) == node.raft.term
            must(of_own_term, "%s commits entry %s of an old term by counting", node.name, log.commit)
        for index in range(max(node.seen_commit, log.base_index) + 1, log.commit + 1):
            entry = log.entries[index - log.base_index - 1]
            known = self.committed.get(index)
            if known is None:
                self._check_durable(node, entry)
                self.committed[index] = known = entry
                self.committed_in[index] = node.raft.term
                self.last_committed = max(self.last_committed, index)
            must(
                (known.term, known.data) == (entry.term, entry.data),
                "%s commits another entry %s than others did",
                node.name,
                index,
            )
        node.seen_commit = log.commit

    def _check_durable(self, node: Node, entry: LogEntry) -> None:
        if entry.index == 1 and entry.kind is EntryKind.CONFIGURATION:
            return  # a cluster's founding is committed from the start
        voters = node.raft.configuration.voters
        holding = sum(
            self.holds(voter, entry.index, entry.term)
            or (entry.index, entry.term) in self.disks[disk_key(voter)].promised
            for voter in voters
            if disk_key(voter) in self.disks
        )
        must(
            2 * holding > len(voters),
            "entry %s is committed, and on %s of %s disks",
            entry.index,
            holding,
            len(voters),
        )
