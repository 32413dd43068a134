"""The messages between nodes, the durable state of a node, and node ids. Pure.

A `RaftMessage` is an envelope (cluster, sender, target, term) around one of the bodies below. The names are
Raft's: Ongaro, "Consensus: Bridging Theory and Practice", 2014.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum

_NODE = struct.Struct("<IB")
_COUNTS = struct.Struct("<HH")


@dataclass(slots=True, frozen=True, order=True)
class NodeId:
    """A controller: its ordinal and the UUID of its disk.

    The pair is the identity: the same ordinal with an emptied disk is another node. That node is in no
    configuration until it is added, and its votes and acknowledgements don't count.
    """

    ordinal: int
    disk: bytes

    def __str__(self) -> str:
        return f"{self.ordinal}/{self.disk.hex()[:4]}"


@dataclass(slots=True, frozen=True)
class Configuration:
    """The voters and the learners; both sorted, so that equal configurations have equal bytes."""

    voters: tuple[NodeId, ...] = ()
    learners: tuple[NodeId, ...] = ()

    @property
    def members(self) -> tuple[NodeId, ...]:
        """Voters and learners: all nodes that get the log."""
        return self.voters + self.learners

    def member_with(self, ordinal: int) -> NodeId | None:
        """The member of this ordinal, with any disk."""
        return next((node for node in self.members if node.ordinal == ordinal), None)

    def encode(self) -> bytes:
        """The data of a configuration entry."""
        parts = [_COUNTS.pack(len(self.voters), len(self.learners))]
        for node in self.members:
            parts += (_NODE.pack(node.ordinal, len(node.disk)), node.disk)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> "Configuration":
        """Reads the data of a configuration entry. Raises ValueError when it ends too early, or more bytes
        follow.
        """
        try:
            voters, learners = _COUNTS.unpack_from(data)
            nodes: list[NodeId] = []
            at = _COUNTS.size
            for _ in range(voters + learners):
                ordinal, length = _NODE.unpack_from(data, at)
                at += _NODE.size
                if at + length > len(data):
                    raise ValueError("a configuration ends in the middle of a node")
                nodes.append(NodeId(ordinal, bytes(data[at : at + length])))
                at += length
        except struct.error as error:
            raise ValueError("a configuration ends too early") from error
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes follow a configuration")
        return cls(tuple(nodes[:voters]), tuple(nodes[voters:]))


class EntryKind(IntEnum):
    """What an entry is for."""

    COMMAND = 0
    NO_OP = 1
    """The first entry of a leader's term: its commitment commits all entries before it."""
    CONFIGURATION = 2


@dataclass(slots=True, frozen=True)
class LogEntry:
    """One entry of the log. Index and term identify its content: no two different entries share them."""

    index: int
    term: int
    kind: EntryKind
    data: bytes

    @property
    def size(self) -> int:
        """About how many bytes the entry takes in a message."""
        return len(self.data) + 32


@dataclass(slots=True, frozen=True)
class HardState:
    """What a node must remember over a restart."""

    term: int = 0
    vote: NodeId | None = None
    """The vote given in `term`. It never changes within the term, not by a restart either."""
    commit: int = 0


@dataclass(slots=True, frozen=True)
class SnapshotMeta:
    """What identifies a snapshot."""

    index: int
    term: int
    """The term of the entry at `index`, the last that the snapshot contains."""
    configuration: Configuration
    size: int
    checksum: int
    """CRC-32C of the data: chunks of two snapshots are never mixed into one."""


@dataclass(slots=True, frozen=True)
class Snapshot:
    """A state machine's state after an entry."""

    meta: SnapshotMeta
    data: bytes = field(repr=False)


@dataclass(slots=True, frozen=True)
class VoteRequest:
    """A candidate asks for a vote. `pre`: it asks only whether it would get the vote of `term`, and has not
    voted for itself.
    """

    last_index: int
    last_term: int
    pre: bool = False
    force: bool = False
    """The leader asked for this election: a voter that has heard the leader lately gives its vote all the
    same.
    """


@dataclass(slots=True, frozen=True)
class VoteAnswer:
    """The answer to a VoteRequest. A granted vote carries the request's term, a refusal the voter's."""

    granted: bool
    pre: bool = False


@dataclass(slots=True, frozen=True)
class Append:
    """Entries behind (prev_index, prev_term). Without entries it brings `commit`, or probes where the logs
    agree.
    """

    prev_index: int
    prev_term: int
    entries: tuple[LogEntry, ...]
    commit: int


@dataclass(slots=True, frozen=True)
class AppendAnswer:
    """Accepted: the logs agree up to `index`, durably. Rejected: the follower has no entry at `index` with
    that term.
    """

    index: int
    rejected: bool = False
    hint_index: int = 0
    """The last index where the logs may agree, and the term there: one answer skips a whole term."""
    hint_term: int = 0
    start: int = 0
    """The number of the answering process, as in HeartbeatAnswer."""


@dataclass(slots=True, frozen=True)
class Heartbeat:
    """Says that the leader lives. `commit` is never above the index that this follower is known to have."""

    commit: int
    round: int
    """Rises with every round of reads to confirm."""
    start: int = 0
    """The number of the follower's process for which `commit` holds: a later process ignores it, because its
    disk may be older. 0: not known.
    """


@dataclass(slots=True, frozen=True)
class HeartbeatAnswer:
    """The answer to a Heartbeat, with the heartbeat's `round`."""

    round: int
    max_level: int = 0
    """The newest feature level that the answering process knows, from its settings."""
    start: int = 0
    """A random number of the answering process: entries that an earlier process acknowledged may not be on
    the disk any more. 0: of a version that doesn't send it.
    """


@dataclass(slots=True, frozen=True)
class SnapshotChunk:
    """A part of a snapshot; the next follows when this one is answered."""

    meta: SnapshotMeta
    offset: int
    data: bytes = field(repr=False)


@dataclass(slots=True, frozen=True)
class SnapshotAnswer:
    """How much of the snapshot the follower has, without a gap: where the leader goes on."""

    index: int
    term: int
    received: int


@dataclass(slots=True, frozen=True)
class TimeoutNow:
    """The leader hands leadership over: the target begins an election at once."""


@dataclass(slots=True, frozen=True)
class ReadRequest:
    """A follower asks up to which index it must have applied for a linearizable read."""

    read_id: int


@dataclass(slots=True, frozen=True)
class ReadAnswer:
    """The index for a ReadRequest; None: this node can't confirm the read now."""

    read_id: int
    index: int | None


@dataclass(slots=True, frozen=True)
class EndRequest:
    """A node that has started asks where the log of another voter ends."""

    nonce: int


@dataclass(slots=True, frozen=True)
class EndAnswer:
    """The last durable entry of the answering node; the envelope has its term."""

    nonce: int
    last_index: int
    last_term: int


Body = (
    VoteRequest
    | VoteAnswer
    | Append
    | AppendAnswer
    | Heartbeat
    | HeartbeatAnswer
    | SnapshotChunk
    | SnapshotAnswer
    | TimeoutNow
    | ReadRequest
    | ReadAnswer
    | EndRequest
    | EndAnswer
)

FROM_A_LEADER = (Append, Heartbeat, SnapshotChunk)
"""Only the leader of the message's term sends these."""

FROM_A_MEMBER = (VoteAnswer, AppendAnswer, HeartbeatAnswer, SnapshotAnswer, EndAnswer)
"""The sender is counted (vote, acknowledgement), so it must be the very member that the configuration
names.
"""

SAY_SOMETHING_DURABLE = (VoteRequest, VoteAnswer, AppendAnswer, EndAnswer)
"""These promise something that must be on the disk before they leave."""


@dataclass(slots=True, frozen=True)
class RaftMessage:
    """A message between two nodes: a body in its envelope."""

    cluster_id: str
    sender: NodeId
    target: NodeId
    term: int
    body: Body


@dataclass(slots=True, frozen=True)
class ReadState:
    """The answer to a read: linearizable once `index` is applied. None: the read was not confirmed; ask
    again.
    """

    read_id: int
    index: int | None


@dataclass(slots=True)
class RaftReady:
    """What has to be done now, in this order: send `early`, persist, `advance`, send `late`, apply.

    Persist means: snapshot, then entries (the first one's index cuts what is stored from there on) and
    hard state, in one fsync.
    """

    hard_state: HardState | None = None
    snapshot: Snapshot | None = None
    entries: list[LogEntry] = field(default_factory=list)
    early: list[RaftMessage] = field(default_factory=list)
    """Messages that promise only what is on the disk already: they may leave while it works."""
    late: list[RaftMessage] = field(default_factory=list)
    committed: list[LogEntry] = field(default_factory=list)
    reads: list[ReadState] = field(default_factory=list)

    @property
    def must_persist(self) -> bool:
        """Whether anything has to reach the disk before `late` may go."""
        return self.hard_state is not None or self.snapshot is not None or bool(self.entries)

    def __bool__(self) -> bool:
        return self.must_persist or bool(self.early or self.late or self.committed or self.reads)
