"""The state of a node, and the small steps that all parts of the core share. Pure."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tank_controller.raft.log import RaftLog
from tank_controller.raft.messages import (
    Body,
    Configuration,
    HardState,
    NodeId,
    RaftMessage,
    ReadAnswer,
    ReadState,
    Snapshot,
    SnapshotMeta,
)
from tank_controller.raft.progress import MemberProgress
from tank_controller.raft.recollected import Recollection
from tank_controller.raft.settings import Settings

Random = Callable[[int], int]
"""Returns a random number from 0 up to, not including, the argument. Injected, so that a seed reproduces a
run.
"""


class RaftRole(Enum):
    """What a node does in its term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    """Asks for pre-votes, before it disturbs the others with a higher term."""
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(slots=True)
class Incoming:
    """A snapshot of which the first part has arrived."""

    meta: SnapshotMeta
    data: bytearray


@dataclass(slots=True)
class PendingRead:
    """A read that waits: at the leader for its confirmation, at a follower for the leader's answer."""

    read_id: int
    asker: NodeId
    index: int = 0
    """The leader's commit index when the read came: the read needs no later entry."""
    round: int = 0
    """The read is confirmed when a majority has answered a heartbeat of this round, all sent after it
    came.
    """
    ticks: int = 0


class RaftState:
    """The fields of a node. Callers use its subclass, `core.Raft`."""

    def __init__(
        self, own: NodeId, cluster_id: str, log: RaftLog, hard: HardState, settings: Settings, random: Random
    ) -> None:
        self.own = own
        self.cluster_id = cluster_id
        self.settings = settings
        self.random = random
        self.log = log
        self.term = hard.term
        """Never falls; stored before a message leaves that carries it."""
        self.vote: NodeId | None = hard.vote
        """The vote in this term; stored before the answer leaves, else the node could vote twice after a
        restart.
        """
        self.role = RaftRole.FOLLOWER
        self.leader: NodeId | None = None
        """The leader of this term, or None when it is not known. A term has at most one."""
        self.votes: dict[NodeId, bool] = {}
        """Each node's first answer in this election: a repeated answer doesn't count twice."""
        self.progress: dict[NodeId, MemberProgress] = {}
        """At the leader: the progress record of every other member."""
        self.election_elapsed = 0
        """Ticks since a leader was heard or a vote given; at the leader, since it last checked its quorum."""
        self.heartbeat_elapsed = 0
        self.election_timeout = 0
        self.gone_ticks = 0
        """Ticks until this node asks for an election because the stream from the leader broke; 0: it did not
        break.
        """
        self.transfer_target: NodeId | None = None
        """The target of a transfer of leadership. While one is set, proposals are refused."""
        self.uncommitted_bytes = 0
        self.snapshot: Snapshot | None = None
        """The last snapshot that is durable here. The leader sends it to followers that are too far
        behind.
        """
        self.installed: Snapshot | None = None
        """A snapshot received whole, for the next RaftReady."""
        self.incoming: Incoming | None = None
        self.outbox: list[RaftMessage] = []
        self.read_states: list[ReadState] = []
        self.reads: deque[PendingRead] = deque()
        """At the leader: the reads of the round under way first, then those of the next round."""
        self.read_round = 0
        """The last round of heartbeats that was begun: an answer to it was sent after the round began."""
        self.checked_round = 0
        """The round of the last check of the quorum."""
        self.removals: dict[NodeId, int] = {}
        """Voters that the leader was lately asked to remove, and the round of heartbeats that began then."""
        self.asked: dict[int, PendingRead] = {}
        """At a follower: reads that were forwarded to the leader."""
        self.recollection: Recollection | None = None
        """Promises that an earlier process may have made. None: this disk never goes back."""
        self.start = 0
        """A random number for leaders: the progress of an earlier process doesn't hold for this one."""
        self.last_read_id = random(1 << 62)
        """Read ids begin at a random number: an answer to an earlier process fits no read of this one."""

    @property
    def configuration(self) -> Configuration:
        return self.log.configuration

    @property
    def own_term_committed(self) -> bool:
        """Whether an entry of this term is committed: only then does a leader know which earlier ones are."""
        return self.log.term(self.log.commit) == self.term

    @property
    def own_term_applied(self) -> bool:
        """Whether an entry of this term has been applied to the state machine."""
        return self.log.term(self.log.applied) == self.term

    @property
    def in_lease(self) -> bool:
        """Whether a leader was heard so lately that no majority can have elected another."""
        return self.leader is not None and self.election_elapsed < self.settings.election_ticks

    def send(self, target: NodeId, body: Body, term: int | None = None) -> None:
        """Puts a message into the next RaftReady."""
        message = RaftMessage(self.cluster_id, self.own, target, self.term if term is None else term, body)
        if len(self.outbox) >= self.settings.outbox_messages:
            del self.outbox[0]  # dropped, as a network may drop it
        self.outbox.append(message)

    def become_follower(self, term: int, leader: NodeId | None) -> None:
        """Becomes a follower of that leader; None: the leader is not known yet. The vote stays while the term
        does.
        """
        assert term >= self.term
        if term > self.term:
            self.term, self.vote = term, None
        self.role = RaftRole.FOLLOWER
        self.leader = leader
        self.votes = {}
        self.progress = {}
        self.transfer_target = None
        self.removals = {}
        self.drop_reads()
        self.reset_timers()

    def reset_timers(self) -> None:
        """Draws a new random election timeout, so that two failed candidates don't ask at the same time
        again.
        """
        self.election_elapsed = 0
        self.heartbeat_elapsed = 0
        self.gone_ticks = 0
        self.election_timeout = self.settings.election_ticks + self.random(self.settings.election_ticks)

    def drop_reads(self) -> None:
        """Fails the reads under way, because the leader has changed."""
        for read in [*self.reads, *self.asked.values()]:
            if read.asker == self.own:
                self.read_states.append(ReadState(read.read_id, None))
            else:
                self.send(read.asker, ReadAnswer(read.read_id, None))
        self.reads.clear()
        self.asked.clear()
