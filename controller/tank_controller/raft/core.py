"""Raft, without clock, disk, network or chance: `step`, `tick` and `propose` in, `RaftReady` out. Pure.

After each of these calls, `ready()` returns what is to be done. The caller does it in the order that
RaftReady names, and calls `advance` once it is on the disk. One RaftReady is under way at a time; what
happens meanwhile gathers for the next one, so one fsync serves many proposals. `early()` may be called in
between.

Parts: `log`, `quorum`, `progress` (of one follower), `election`, `replication`, `snapshots`, `reads`,
`membership`; `state` has the fields that they share.
"""

from collections.abc import Sequence

from tank_controller.raft import election, membership, reads, recollection, replication, snapshots
from tank_controller.raft.errors import (
    DiskChangedError,
    MessageRefusedError,
    NotForThisNodeError,
    NotLeaderError,
    OverloadedError,
    TooLargeError,
    TransferUnderWayError,
    UnknownMemberError,
    WrongClusterError,
)
from tank_controller.raft.log import RaftLog
from tank_controller.raft.membership import Change
from tank_controller.raft.messages import (
    FROM_A_LEADER,
    FROM_A_MEMBER,
    SAY_SOMETHING_DURABLE,
    Append,
    AppendAnswer,
    Configuration,
    EndAnswer,
    EndRequest,
    EntryKind,
    HardState,
    Heartbeat,
    HeartbeatAnswer,
    LogEntry,
    NodeId,
    RaftMessage,
    RaftReady,
    ReadAnswer,
    ReadRequest,
    Snapshot,
    SnapshotAnswer,
    SnapshotChunk,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from tank_controller.raft.settings import Settings
from tank_controller.raft.state import RaftRole, RaftState, Random


class Raft(RaftState):
    """One node of the Raft cluster. Made at each start from what its storage holds."""

    def __init__(
        self,
        own: NodeId,
        cluster_id: str,
        hard: HardState,
        snapshot: Snapshot | None,
        entries: Sequence[LogEntry],
        random: Random,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        base: tuple[int, int, Configuration] = (0, 0, Configuration()),
        *,
        recollects: bool = False,
    ) -> None:
        """`entries` are those stored behind `base` (index, term and configuration at the base). The base is
        at or before the snapshot; committed entries behind the snapshot come again in a RaftReady.
        `recollects`: the disk may be an older copy of itself, so the node asks the others before it votes.
        """
        super().__init__(own, cluster_id, RaftLog(*base), hard, settings, random)
        self.log.append(entries)
        self.log.stable = self.log.handed = self.log.last_index
        self.snapshot = snapshot
        if snapshot is not None:
            assert self.log.term(snapshot.meta.index) == snapshot.meta.term
            self.log.commit_to(snapshot.meta.index)
            self.log.applied = snapshot.meta.index
        self.log.commit_to(min(hard.commit, self.log.last_index))
        self._persisted = HardState(hard.term, hard.vote, self.log.commit)
        """The hard state on the disk. A message with a later term or vote waits until that is stored."""
        self._under_way: RaftReady | None = None
        self.reset_timers()
        if recollects:
            self.start = 1 + random((1 << 62) - 1)
            recollection.begin(self)

    # --- In ---

    def tick(self) -> None:
        """Lets one tick of time pass."""
        if self.role is not RaftRole.LEADER:
            election.tick(self)
            return
        self.election_elapsed += 1
        self.heartbeat_elapsed += 1
        snapshots.tick(self)
        if self.election_elapsed >= self.settings.election_ticks:
            self.election_elapsed = 0
            self.transfer_target = None
            election.check_quorum(self)
        if self.role is RaftRole.LEADER and self.heartbeat_elapsed >= self.settings.heartbeat_ticks:
            self.heartbeat_elapsed = 0
            reads.send_heartbeats(self)

    def campaign_alone(self) -> None:
        """Called at the start: a node that is the only voter becomes leader at once."""
        if self.configuration.voters == (self.own,) and self.role is RaftRole.FOLLOWER:
            election.campaign(self, pre=False)

    def propose(self, data: bytes) -> tuple[int, int]:
        """Appends a command; returns the entry's (index, term). The command is committed when that entry
        comes in a RaftReady. Raises NotLeaderError, TransferUnderWayError, TooLargeError or OverloadedError:
        then nothing was appended.
        """
        return self._append(EntryKind.COMMAND, data)

    def propose_change(self, change: Change) -> tuple[int, int]:
        """Appends a membership change. As `propose`; also raises ChangeRefusedError."""
        self._must_lead()
        index_and_term = self._append(EntryKind.CONFIGURATION, membership.changed(self, change).encode())
        membership.follow(self)
        return index_and_term

    def transfer_leadership(self, target: NodeId) -> None:
        """Begins to hand leadership over to `target`. Raises NotLeaderError, ChangeRefusedError."""
        self._must_lead()
        membership.transfer(self, target)

    def read(self) -> int:
        """Begins a linearizable read; returns its id, with which a ReadState follows. Raises NotLeaderError,
        OverloadedError.
        """
        return reads.ask(self)

    def snapshot_point(self) -> tuple[int, int, Configuration]:
        """Returns (index, term, configuration) for a snapshot of the state applied so far. Call `compacted`
        when the snapshot is durable.
        """
        index = self.log.applied
        term = self.log.term(index)
        assert term is not None
        return index, term, self.log.configuration_at(index)

    def compacted(self, snapshot: Snapshot) -> None:
        """The snapshot is durable: forgets old entries, except those that late followers may need."""
        if self.snapshot is None or snapshot.meta.index > self.snapshot.meta.index:
            self.snapshot = snapshot
        self.log.compact(snapshot.meta.index - self.settings.trailing_entries)

    def step(self, message: RaftMessage) -> None:
        """Takes a message from another node. Raises MessageRefusedError: the message changed nothing, and
        deserves a log line.
        """
        self._check_identity(message)
        if isinstance(message.body, EndRequest):
            recollection.on_request(self, message, message.body)
            return
        if isinstance(message.body, EndAnswer):
            self._take_end(message, message.body)
            return
        if message.term > self.term:
            if not self._take_higher_term(message):
                return
        elif message.term < self.term:
            self._answer_lower_term(message)
            return
        self._dispatch(message)

    def _take_end(self, message: RaftMessage, answer: EndAnswer) -> None:
        if message.term > self.term:
            self.become_follower(message.term, None)
        recollection.on_answer(self, message, answer)

    def broken(self, sender: NodeId) -> None:
        """Notes that the stream of messages from this node broke."""
        election.on_broken(self, sender)

    def _must_lead(self) -> None:
        if self.role is not RaftRole.LEADER:
            raise NotLeaderError(self.leader)

    def _append(self, kind: EntryKind, data: bytes) -> tuple[int, int]:
        self._must_lead()
        if self.transfer_target is not None:
            raise TransferUnderWayError(f"leadership goes to {self.transfer_target}: ask again")
        entry = LogEntry(self.log.last_index + 1, self.term, kind, data)
        if entry.size > self.settings.max_entry_bytes:
            raise TooLargeError(
                f"an entry has at most {self.settings.max_entry_bytes} bytes: send it in parts"
            )
        if self.uncommitted_bytes + entry.size > self.settings.uncommitted_bytes:
            raise OverloadedError("too much waits for a majority of the controllers: ask again")
        self.log.append([entry])
        self.uncommitted_bytes += entry.size
        return entry.index, entry.term

    def _check_identity(self, message: RaftMessage) -> None:
        if message.cluster_id != self.cluster_id:
            raise WrongClusterError(f"{message.sender} belongs to cluster {message.cluster_id}")
        if message.target != self.own:
            raise NotForThisNodeError(f"{message.sender} means {message.target}, this is {self.own}")
        if not isinstance(message.body, FROM_A_MEMBER) or message.sender in self.configuration.members:
            return
        known = self.configuration.member_with(message.sender.ordinal)
        if known is not None:
            raise DiskChangedError(
                f"{message.sender} was {known}: with another disk it has to be added anew before it counts"
            )
        raise UnknownMemberError(f"{message.sender} is no member of the cluster")

    def _take_higher_term(self, message: RaftMessage) -> bool:
        """Compares the message's term with this node's. Returns whether the message is to be handled
        further.
        """
        body = message.body
        if isinstance(body, VoteRequest):
            if self.in_lease and not body.force:
                return False  # the leader lives: a node that was cut off must not end its term
            if body.pre:
                return True
        if isinstance(body, VoteAnswer) and body.pre and body.granted:
            return True  # the term that this node would have
        self.become_follower(message.term, message.sender if isinstance(body, FROM_A_LEADER) else None)
        return True

    def _answer_lower_term(self, message: RaftMessage) -> None:
        """Answers just enough that a leader or candidate of an old term learns the new term."""
        if isinstance(message.body, FROM_A_LEADER):
            self.send(message.sender, AppendAnswer(0, True))
        elif isinstance(message.body, VoteRequest) and message.body.pre:
            self.send(message.sender, VoteAnswer(False, True))

    def _dispatch(self, message: RaftMessage) -> None:
        body = message.body
        match body:
            case VoteRequest():
                election.on_vote_request(self, message, body)
            case VoteAnswer():
                election.on_vote_answer(self, message, body)
            case TimeoutNow():
                election.on_timeout_now(self, message)
            case ReadRequest():
                reads.on_request(self, message, body)
            case ReadAnswer():
                reads.on_answer(self, body)
            case Append() | Heartbeat() | SnapshotChunk():
                self._from_leader(message)
            case AppendAnswer() | HeartbeatAnswer() | SnapshotAnswer():
                self._from_follower(message)

    def _from_leader(self, message: RaftMessage) -> None:
        if self.role is RaftRole.LEADER:
            raise MessageRefusedError(f"{message.sender} leads in term {message.term}, as this node does")
        if self.role is not RaftRole.FOLLOWER:
            self.become_follower(message.term, message.sender)
        self.leader = message.sender
        self.election_elapsed = self.gone_ticks = 0
        match message.body:
            case Append() as append:
                replication.on_append(self, message, append)
            case Heartbeat() as heartbeat:
                replication.on_heartbeat(self, message, heartbeat)
            case SnapshotChunk() as chunk:
                snapshots.on_chunk(self, message, chunk)

    def _from_follower(self, message: RaftMessage) -> None:
        if self.role is not RaftRole.LEADER or message.sender not in self.progress:
            return
        match message.body:
            case AppendAnswer() as answer:
                replication.on_append_answer(self, message, answer)
            case HeartbeatAnswer() as answer:
                replication.on_heartbeat_answer(self, message, answer)
            case SnapshotAnswer() as answer:
                snapshots.on_answer(self, message, answer)

    # --- Out ---

    def ready(self) -> RaftReady:
        """Returns what is to be done; false when there is nothing. `advance` must follow before the next
        call.
        """
        assert self._under_way is None, "one Ready at a time"
        replication.flush(self)
        early = self._take_early()
        ready = RaftReady(
            snapshot=self.installed,
            entries=self.log.unhanded(),
            early=early,
            late=self.outbox,
            committed=self._committed(),
            reads=self.read_states,
        )
        hard = HardState(self.term, self.vote, self.log.commit)
        moved = (hard.term, hard.vote) != (self._persisted.term, self._persisted.vote)
        if moved or ready.must_persist:
            # the commit index alone isn't worth an fsync: after a restart, the leader sends it again
            ready.hard_state = hard
        self.outbox = []
        self.read_states = []
        self.installed = None
        self.log.handed = self.log.last_index
        if ready:
            self._under_way = ready
        return ready

    def early(self) -> list[RaftMessage]:
        """Returns messages that needn't wait for the RaftReady under way, because the disk holds all that
        they promise.
        """
        replication.flush(self)
        return self._take_early()

    def _take_early(self) -> list[RaftMessage]:
        if (self.term, self.vote) != (self._persisted.term, self._persisted.vote):
            return []  # a term or vote that a crash would forget must not be sent
        early = [m for m in self.outbox if not isinstance(m.body, SAY_SOMETHING_DURABLE)]
        self.outbox = [m for m in self.outbox if isinstance(m.body, SAY_SOMETHING_DURABLE)]
        return early

    def _committed(self) -> list[LogEntry]:
        log = self.log
        if log.applied >= log.commit:
            return []
        return log.slice(log.applied + 1, log.commit, self.settings.ready_bytes)

    def advance(self, ready: RaftReady) -> None:
        """The RaftReady is on the disk. From here on, the entries that it names as committed count as
        applied.
        """
        assert ready is self._under_way
        self._under_way = None
        if ready.hard_state is not None:
            self._persisted = ready.hard_state
        if ready.snapshot is not None:
            self.log.persisted(ready.snapshot.meta.index, ready.snapshot.meta.term)
        if ready.entries:
            self.log.persisted(ready.entries[-1].index, ready.entries[-1].term)
        if ready.committed:
            self.log.applied = max(self.log.applied, ready.committed[-1].index)
        if self.role is RaftRole.LEADER:
            replication.advance_commit(self)
