"""Elections: how a node becomes leader, and how a leader finds out that it no longer leads. Pure."""

from tank_controller.raft import reads, recollection
from tank_controller.raft.errors import MalformedMessageError
from tank_controller.raft.messages import EntryKind, LogEntry, NodeId, RaftMessage, VoteAnswer, VoteRequest
from tank_controller.raft.progress import MemberProgress
from tank_controller.raft.quorum import Vote, majority, tally
from tank_controller.raft.state import RaftRole, RaftState


def may_campaign(raft: RaftState) -> bool:
    """Whether the node may ask for votes: it is a voter, has a log, and doesn't wait for entries that it may
    have acknowledged and lost (`recollection`).
    """
    votes = raft.own in raft.configuration.voters and raft.installed is None
    return votes and recollection.may_vote(raft, recollection.end_of(raft))


def campaign(raft: RaftState, *, pre: bool, force: bool = False) -> None:
    """Asks the other voters for their votes. With `pre`, only whether they would vote for this node; else in
    a new term.
    """
    if pre:
        raft.role = RaftRole.PRE_CANDIDATE
        raft.leader = None
        raft.drop_reads()
        raft.reset_timers()
    else:
        raft.become_follower(raft.term + 1, None)
        raft.role = RaftRole.CANDIDATE
        raft.vote = raft.own
    raft.votes = {raft.own: True}
    request = VoteRequest(raft.log.last_index, raft.log.last_term, pre, force)
    for voter in raft.configuration.voters:
        if voter != raft.own:
            raft.send(voter, request, raft.term + 1 if pre else raft.term)
    _count(raft)


def _count(raft: RaftState) -> None:
    match tally(raft.configuration.voters, raft.votes):
        case Vote.WON if raft.role is RaftRole.PRE_CANDIDATE:
            campaign(raft, pre=False)
        case Vote.WON:
            become_leader(raft)
        case Vote.LOST:
            raft.become_follower(raft.term, None)
        case _:
            pass


def on_vote_request(raft: RaftState, message: RaftMessage, request: VoteRequest) -> None:
    """Gives or refuses the vote. The request's term is this node's or, in a pre-vote, the next one.

    A node without a log, new or emptied, never votes.
    """
    log = raft.log
    up_to_date = (request.last_term, request.last_index) >= (log.last_term, log.last_index)
    free = raft.vote == message.sender or (raft.vote is None and raft.leader is None)
    free = free or (request.pre and message.term > raft.term)
    free = free and recollection.may_vote(raft, (request.last_term, request.last_index))
    granted = free and up_to_date and log.last_index > 0
    if granted and not request.pre:
        raft.vote = message.sender
        raft.election_elapsed = 0
    raft.send(message.sender, VoteAnswer(granted, request.pre), message.term if granted else raft.term)


def on_vote_answer(raft: RaftState, message: RaftMessage, answer: VoteAnswer) -> None:
    """Counts the answer, if it belongs to the election under way."""
    if raft.role is not (RaftRole.PRE_CANDIDATE if answer.pre else RaftRole.CANDIDATE):
        return
    if answer.pre and answer.granted and message.term != raft.term + 1:
        return
    raft.votes.setdefault(message.sender, answer.granted)
    _count(raft)


def become_leader(raft: RaftState) -> None:
    """Begins to lead: appends a no-op, whose commitment commits the entries of earlier terms."""
    assert raft.role is RaftRole.CANDIDATE
    log = raft.log
    raft.role = RaftRole.LEADER
    raft.leader = raft.own
    raft.reset_timers()
    raft.progress = {
        node: MemberProgress(log.last_index + 1, active=node in raft.votes)
        for node in raft.configuration.members
        if node != raft.own
    }
    raft.uncommitted_bytes = sum(
        entry.size for entry in log.entries[log.commit - log.base_index : log.last_index - log.base_index]
    )
    no_op = LogEntry(log.last_index + 1, raft.term, EntryKind.NO_OP, b"")
    log.append([no_op])
    raft.uncommitted_bytes += no_op.size


def on_timeout_now(raft: RaftState, message: RaftMessage) -> None:
    """The leader hands leadership over: this node skips the pre-vote, and voters ignore their leases."""
    if message.sender != raft.leader:
        raise MalformedMessageError(f"{message.sender} hands leadership over, but doesn't lead")
    if may_campaign(raft):
        campaign(raft, pre=False, force=True)


def check_quorum(raft: RaftState) -> None:
    """A leader steps down when no majority has answered it for an election timeout: another leader may
    exist.
    """
    active = {raft.own} | {node for node, progress in raft.progress.items() if progress.active}
    for progress in raft.progress.values():
        progress.active = False
    # Each check counts only answers that came after the check before it.
    raft.removals = {node: began for node, began in raft.removals.items() if began > raft.checked_round}
    raft.checked_round = raft.read_round
    voters = raft.configuration.voters
    if sum(voter in active for voter in voters) < majority(len(voters)):
        raft.become_follower(raft.term, None)


def on_broken(raft: RaftState, sender: NodeId) -> None:
    """Notes that the stream of messages from this node broke. If the node led, its process has most likely
    ended.

    This is a hint: the leader's lease counts no more, so this node answers the pre-votes of others that
    noticed it, too. This node asks for an election itself, unless the leader is heard again. A leader that
    lives, and is heard by a majority, stays leader, because that majority refuses.
    """
    if sender in raft.progress:
        raft.progress[sender].max_level = 0  # the node's next process may be of another version
    if raft.role is RaftRole.FOLLOWER and raft.leader == sender:
        raft.leader = None
        others = sorted(voter for voter in raft.configuration.voters if voter != sender)
        turn = others.index(raft.own) if raft.own in others else len(others)
        raft.gone_ticks = raft.settings.gone_ticks + turn * raft.settings.gone_apart_ticks


def tick(raft: RaftState) -> None:
    """Lets one tick pass at a node that doesn't lead.

    A node that may not campaign goes on counting, and forgets a silent leader after the time in which others
    would campaign: it must neither refuse them its vote nor count as a node that has a leader.
    """
    raft.election_elapsed += 1
    recollection.tick(raft)
    is_gone = raft.gone_ticks == 1
    raft.gone_ticks = max(0, raft.gone_ticks - 1)
    is_silent = raft.election_elapsed >= raft.election_timeout
    if (is_gone or is_silent) and may_campaign(raft):
        campaign(raft, pre=True)
    elif is_silent:
        raft.leader = None
    reads.tick_asked(raft)
