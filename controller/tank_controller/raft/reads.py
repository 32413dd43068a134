"""Linearizable reads without a log entry: the leader makes sure that it still leads. Pure.

A read gets the leader's commit index, and is confirmed once a majority has answered a heartbeat that was sent
after the read came. So no other leader had committed a later entry when the read came. No clock is trusted.
Reads that come while a round is under way share the next one.
"""

from tank_controller.raft.errors import NotLeaderError, OverloadedError
from tank_controller.raft.messages import Heartbeat, NodeId, RaftMessage, ReadAnswer, ReadRequest, ReadState
from tank_controller.raft.quorum import reached_by_majority
from tank_controller.raft.state import PendingRead, RaftRole, RaftState


def ask(raft: RaftState) -> int:
    """Begins a read; returns its id, which comes back in a ReadState. Raises NotLeaderError,
    OverloadedError.
    """
    if len(raft.reads) + len(raft.asked) >= raft.settings.pending_reads:
        raise OverloadedError("too many reads wait to be confirmed: ask again")
    if raft.leader is None:
        raise NotLeaderError(None)
    raft.last_read_id += 1
    read = PendingRead(raft.last_read_id, raft.own)
    if raft.role is RaftRole.LEADER:
        _take(raft, read)
    else:
        raft.asked[read.read_id] = read
        raft.send(raft.leader, ReadRequest(read.read_id))
    return read.read_id


def on_request(raft: RaftState, message: RaftMessage, request: ReadRequest) -> None:
    """Handles a follower's request for a read."""
    if raft.role is not RaftRole.LEADER or len(raft.reads) >= raft.settings.pending_reads:
        raft.send(message.sender, ReadAnswer(request.read_id, None))
        return
    _take(raft, PendingRead(request.read_id, message.sender))


def on_answer(raft: RaftState, answer: ReadAnswer) -> None:
    """Handles the leader's answer to a read. An answer to no waiting read is late, and ignored."""
    if raft.asked.pop(answer.read_id, None) is not None:
        raft.read_states.append(ReadState(answer.read_id, answer.index))


def _take(raft: RaftState, read: PendingRead) -> None:
    raft.reads.append(read)
    begin_round(raft)


def begin_round(raft: RaftState) -> None:
    """Sends heartbeats for the reads that wait, unless a round is under way or the leader has committed no
    entry of its term: before that it doesn't know what earlier leaders committed.
    """
    if not raft.reads or raft.reads[0].round or not raft.own_term_committed:
        return
    raft.read_round += 1
    for read in raft.reads:
        read.round, read.index = raft.read_round, raft.log.commit
    send_heartbeats(raft)
    confirm(raft)


def send_heartbeats(raft: RaftState) -> None:
    """Sends a heartbeat to every member."""
    for node, progress in raft.progress.items():
        raft.send(node, Heartbeat(min(progress.matched, raft.log.commit), raft.read_round, progress.start))


def confirm(raft: RaftState) -> None:
    """Answers the reads whose round a majority has answered, and begins the next one."""
    confirmed = reached_by_majority([acked(raft, voter) for voter in raft.configuration.voters])
    done = False
    while raft.reads and 0 < raft.reads[0].round <= confirmed:
        read = raft.reads.popleft()
        done = True
        if read.asker == raft.own:
            raft.read_states.append(ReadState(read.read_id, read.index))
        else:
            raft.send(read.asker, ReadAnswer(read.read_id, read.index))
    if done:
        begin_round(raft)


def acked(raft: RaftState, voter: NodeId) -> int:
    """The last round that this voter is known to have answered."""
    if voter == raft.own:
        return raft.read_round
    progress = raft.progress.get(voter)
    return progress.acked_round if progress else 0


def tick_asked(raft: RaftState) -> None:
    """Gives up a read whose question or answer was lost, after an election timeout."""
    for read in list(raft.asked.values()):
        read.ticks += 1
        if read.ticks >= raft.settings.election_ticks:
            del raft.asked[read.read_id]
            raft.read_states.append(ReadState(read.read_id, None))
