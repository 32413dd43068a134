"""What a node is at this moment, and the few steps that every part of the core takes. Pure."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tank_controller.raft.log import RaftLog
from tank_controller.raft.messages import (
    Body,
    Configuration,
    HardState,
    Message,
    NodeId,
    ReadAnswer,
    ReadState,
    Snapshot,
    SnapshotMeta,
)
from tank_controller.raft.progress import Progress
from tank_controller.raft.recollected import Recollection
from tank_controller.raft.settings import Settings

Random = Callable[[int], int]
"""A number from 0 up to, not including, the argument. Injected, so that a seed replays everything."""


class Role(Enum):
    """What a node does in its term."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    """Asks whether it would win, before it disturbs anybody with a higher term."""
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(slots=True)
class Incoming:
    """A snapshot of which the first part is here."""

    meta: SnapshotMeta
    data: bytearray


@dataclass(slots=True)
class PendingRead:
    """A read that waits, at the leader for its confirmation, at a follower for the leader's answer."""

    read_id: int
    asker: NodeId
    index: int = 0
    """The leader's commit when the read came: nothing later has to be seen."""
    round: int = 0
    """Confirmed when a majority has answered a heartbeat of this round: they were sent after it came."""
    ticks: int = 0


class RaftState:
    """The fields; `core.Raft` is what others call."""

    def __init__(
        self, own: NodeId, cluster_id: str, log: RaftLog, hard: HardState, settings: Settings, random: Random
    ) -> None:
        self.own = own
        self.cluster_id = cluster_id
        self.settings = settings
        self.random = random
        self.log = log
        self.term = hard.term
        """Never goes back; durable before any message that carries it leaves."""
        self.vote: NodeId | None = hard.vote
        """In this term; durable before the answer leaves, else a restart could give it twice."""
        self.role = Role.FOLLOWER
        self.leader: NodeId | None = None
        """Of this term, when it is known. In one term everybody who knows one knows the same."""
        self.votes: dict[NodeId, bool] = {}
        """Each node's first answer in this election: a repeat doesn't count twice."""
        self.progress: dict[NodeId, Progress] = {}
        """The leader's, of every other member."""
        self.election_elapsed = 0
        """Ticks since a leader was heard or a vote given; the leader's, since it last checked its quorum."""
        self.heartbeat_elapsed = 0
        self.election_timeout = 0
        self.gone_ticks = 0
        """Ticks until an election is asked for because the way from the leader broke; 0: it did not."""
        self.transfer_target: NodeId | None = None
        """Who is to lead next. While there is one, proposals are refused."""
        self.uncommitted_bytes = 0
        self.snapshot: Snapshot | None = None
        """The last one that is durable here: what a follower is sent that is too far behind."""
        self.installed: Snapshot | None = None
        """Received whole, for the next Ready."""
        self.incoming: Incoming | None = None
        self.outbox: list[Message] = []
        self.read_states: list[ReadState] = []
        self.reads: deque[PendingRead] = deque()
        """The leader's: those of the round under way first, then those of the next."""
        self.read_round = 0
        """The last round of heartbeats that was begun: who answers it was there after it began."""
        self.checked_round = 0
        """That of the last check of the quorum."""
        self.removals: dict[NodeId, int] = {}
        """Voters that the leader was asked to take away lately: the round that began then."""
        self.asked: dict[int, PendingRead] = {}
        """A follower's, forwarded to the leader."""
        self.recollection: Recollection | None = None
        """What the process before this one may have promised. None: this disk never goes back."""
        self.start = 0
        """Told to leaders, random: what they know of an earlier process doesn't hold for this one."""
        self.last_read_id = random(1 << 62)
        """Read ids begin at random: an answer to the process before this one fits no read of this one."""

    @property
    def configuration(self) -> Configuration:
        return self.log.configuration

    @property
    def own_term_committed(self) -> bool:
        """Whether an entry of this term is committed: only then does a leader know what else is."""
        return self.log.term(self.log.commit) == self.term

    @property
    def own_term_applied(self) -> bool:
        """Whether that entry was given to the state machine, too."""
        return self.log.term(self.log.applied) == self.term

    @property
    def in_lease(self) -> bool:
        """A leader was heard so lately that a majority cannot have given it up."""
        return self.leader is not None and self.election_elapsed < self.settings.election_ticks

    def send(self, target: NodeId, body: Body, term: int | None = None) -> None:
        """Puts a message into the next Ready."""
        message = Message(self.cluster_id, self.own, target, self.term if term is None else term, body)
        if len(self.outbox) >= self.settings.outbox_messages:
            del self.outbox[0]  # as if it were lost on its way
        self.outbox.append(message)

    def become_follower(self, term: int, leader: NodeId | None) -> None:
        """Of that leader, or of nobody yet. A term that is no news keeps its vote."""
        assert term >= self.term
        if term > self.term:
            self.term, self.vote = term, None
        self.role = Role.FOLLOWER
        self.leader = leader
        self.votes = {}
        self.progress = {}
        self.transfer_target = None
        self.removals = {}
        self.drop_reads()
        self.reset_timers()

    def reset_timers(self) -> None:
        """A new randomized election timeout: so two that failed together don't try together again."""
        self.election_elapsed = 0
        self.heartbeat_elapsed = 0
        self.gone_ticks = 0
        self.election_timeout = self.settings.election_ticks + self.random(self.settings.election_ticks)

    def drop_reads(self) -> None:
        """Reads of a leader that is none any more, and those asked of it, are told so."""
        for read in [*self.reads, *self.asked.values()]:
            if read.asker == self.own:
                self.read_states.append(ReadState(read.read_id, None))
            else:
                self.send(read.asker, ReadAnswer(read.read_id, None))
        self.reads.clear()
        self.asked.clear()
