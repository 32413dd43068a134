"""What nodes tell each other, what they keep, and who they are. Pure.

One `Message` is an envelope (cluster, sender, target, term) around one of the bodies below. The names are
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

    The pair is the identity, never the ordinal alone: with an emptied disk the same ordinal is another node,
    which is in no configuration until it is added, and whose votes and acknowledgements count for nothing.
    """

    ordinal: int
    disk: bytes

    def __str__(self) -> str:
        return f"{self.ordinal}/{self.disk.hex()[:4]}"


@dataclass(slots=True, frozen=True)
class Configuration:
    """Who votes and who only learns; both sorted, so that equal ones have equal bytes."""

    voters: tuple[NodeId, ...] = ()
    learners: tuple[NodeId, ...] = ()

    @property
    def members(self) -> tuple[NodeId, ...]:
        """Everybody who is sent the log."""
        return self.voters + self.learners

    def member_with(self, ordinal: int) -> NodeId | None:
        """The member of this ordinal, whatever its disk."""
        return next((node for node in self.members if node.ordinal == ordinal), None)

    def encode(self) -> bytes:
        """The data of a configuration entry."""
        parts = [_COUNTS.pack(len(self.voters), len(self.learners))]
        for node in self.members:
            parts += (_NODE.pack(node.ordinal, len(node.disk)), node.disk)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> "Configuration":
        """Reads it back. ValueError when it isn't whole, or anything follows."""
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
    """The first of a leader's term: with it everything before it commits."""
    CONFIGURATION = 2


@dataclass(slots=True, frozen=True)
class Entry:
    """One place in the log. Index and term together name its content: no two different entries share them."""

    index: int
    term: int
    kind: EntryKind
    data: bytes

    @property
    def size(self) -> int:
        """About what it takes in a message."""
        return len(self.data) + 32


@dataclass(slots=True, frozen=True)
class HardState:
    """What a node must remember over a restart."""

    term: int = 0
    vote: NodeId | None = None
    """In `term`: once given it never changes before the term does, not by a restart either."""
    commit: int = 0


@dataclass(slots=True, frozen=True)
class SnapshotMeta:
    """What a snapshot stands for."""

    index: int
    term: int
    """Of the entry at `index`, the last that the snapshot holds."""
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
    """A candidate asks. `pre`: it only asks whether it would get the vote of `term`, not its own yet."""

    last_index: int
    last_term: int
    pre: bool = False
    force: bool = False
    """The leader asked for this election: having heard of it lately is no reason to refuse."""


@dataclass(slots=True, frozen=True)
class VoteAnswer:
    """Granted answers carry the request's term, the others the voter's."""

    granted: bool
    pre: bool = False


@dataclass(slots=True, frozen=True)
class Append:
    """Entries behind (prev_index, prev_term), none to tell `commit` alone or to look for agreement."""

    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...]
    commit: int


@dataclass(slots=True, frozen=True)
class AppendAnswer:
    """Accepted: everything up to `index` agrees and is durable. Rejected: `index` isn't there."""

    index: int
    rejected: bool = False
    hint_index: int = 0
    """The last place where the logs may agree, and the term there: one answer skips a whole term."""
    hint_term: int = 0
    start: int = 0
    """Of the answering process, as in HeartbeatAnswer."""


@dataclass(slots=True, frozen=True)
class Heartbeat:
    """The leader lives. `commit` is never above what this follower matched."""

    commit: int
    round: int
    """Rises with every round of reads to confirm."""
    start: int = 0
    """The process of the follower that matched it: to a later one, whose disk may be older, it says nothing.
    0: not known."""


@dataclass(slots=True, frozen=True)
class HeartbeatAnswer:
    """`round` is that of the heartbeat it answers."""

    round: int
    max_level: int = 0
    """As the answerer's settings have it; 0: of before there were levels."""
    start: int = 0
    """Random at each start of the answerer: what an earlier process matched may not be there any more.
    0: of a version that doesn't say."""


@dataclass(slots=True, frozen=True)
class SnapshotChunk:
    """A part of a snapshot; the next follows when this one is answered."""

    meta: SnapshotMeta
    offset: int
    data: bytes = field(repr=False)


@dataclass(slots=True, frozen=True)
class SnapshotAnswer:
    """How much of that snapshot is here, without a gap: where to go on."""

    index: int
    term: int
    received: int


@dataclass(slots=True, frozen=True)
class TimeoutNow:
    """Leadership is handed over: begin an election at once."""


@dataclass(slots=True, frozen=True)
class ReadRequest:
    """A follower asks up to which index it must have applied for a linearizable read."""

    read_id: int


@dataclass(slots=True, frozen=True)
class ReadAnswer:
    """`index` None: not here, not now."""

    read_id: int
    index: int | None


@dataclass(slots=True, frozen=True)
class EndRequest:
    """A node that has started asks where the log of another voter ends."""

    nonce: int


@dataclass(slots=True, frozen=True)
class EndAnswer:
    """Where it ends, durably; the envelope says the term."""

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
"""These count for something: they must come from the very member that the configuration names."""

SAY_SOMETHING_DURABLE = (VoteRequest, VoteAnswer, AppendAnswer, EndAnswer)
"""These promise what the disk must hold first."""


@dataclass(slots=True, frozen=True)
class Message:
    """A body on its way."""

    cluster_id: str
    sender: NodeId
    target: NodeId
    term: int
    body: Body


@dataclass(slots=True, frozen=True)
class ReadState:
    """A read's answer: linearizable once `index` is applied. None: it was not confirmed, ask again."""

    read_id: int
    index: int | None


@dataclass(slots=True)
class Ready:
    """What has to be done now, in this order: send `early`, persist, `advance`, send `late`, apply.

    Persist means: snapshot, then entries (the first one's index cuts what is stored from there on) and
    hard state, in one fsync.
    """

    hard_state: HardState | None = None
    snapshot: Snapshot | None = None
    entries: list[Entry] = field(default_factory=list)
    early: list[Message] = field(default_factory=list)
    """They promise nothing that is not on the disk already: they may go while it works."""
    late: list[Message] = field(default_factory=list)
    committed: list[Entry] = field(default_factory=list)
    reads: list[ReadState] = field(default_factory=list)

    @property
    def must_persist(self) -> bool:
        """Whether anything has to reach the disk before `late` may go."""
        return self.hard_state is not None or self.snapshot is not None or bool(self.entries)

    def __bool__(self) -> bool:
        return self.must_persist or bool(self.early or self.late or self.committed or self.reads)
