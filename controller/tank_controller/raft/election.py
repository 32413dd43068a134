"""How a leader comes to be, and how it finds out that it is none any more. Pure."""

from tank_controller.raft import reads, recollection
from tank_controller.raft.errors import MalformedMessageError
from tank_controller.raft.messages import Entry, EntryKind, Message, NodeId, VoteAnswer, VoteRequest
from tank_controller.raft.progress import Progress
from tank_controller.raft.quorum import Vote, majority, tally
from tank_controller.raft.state import RaftState, Role


def may_campaign(raft: RaftState) -> bool:
    """Voters alone do; so neither a learner nor a node without a log does. Nor one that may lack entries."""
    votes = raft.own in raft.configuration.voters and raft.installed is None
    return votes and recollection.may_vote(raft, recollection.end_of(raft))


def campaign(raft: RaftState, *, pre: bool, force: bool = False) -> None:
    """Asks the others. `pre`: whether it would win; else for real, in a new term."""
    if pre:
        raft.role = Role.PRE_CANDIDATE
        raft.leader = None
        raft.drop_reads()
        raft.reset_timers()
    else:
        raft.become_follower(raft.term + 1, None)
        raft.role = Role.CANDIDATE
        raft.vote = raft.own
    raft.votes = {raft.own: True}
    request = VoteRequest(raft.log.last_index, raft.log.last_term, pre, force)
    for voter in raft.configuration.voters:
        if voter != raft.own:
            raft.send(voter, request, raft.term + 1 if pre else raft.term)
    _count(raft)


def _count(raft: RaftState) -> None:
    match tally(raft.configuration.voters, raft.votes):
        case Vote.WON if raft.role is Role.PRE_CANDIDATE:
            campaign(raft, pre=False)
        case Vote.WON:
            become_leader(raft)
        case Vote.LOST:
            raft.become_follower(raft.term, None)
        case _:
            pass


def on_vote_request(raft: RaftState, message: Message, request: VoteRequest) -> None:
    """Gives or refuses the vote. The term is this node's, or, asked in advance, one above it.

    A node without a log, which has just been made or emptied, never votes.
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


def on_vote_answer(raft: RaftState, message: Message, answer: VoteAnswer) -> None:
    """Counts it, if it answers the election that is under way."""
    if raft.role is not (Role.PRE_CANDIDATE if answer.pre else Role.CANDIDATE):
        return
    if answer.pre and answer.granted and message.term != raft.term + 1:
        return
    raft.votes.setdefault(message.sender, answer.granted)
    _count(raft)


def become_leader(raft: RaftState) -> None:
    """Knows of the others only who answered; its no-op will commit whatever the terms before have left."""
    assert raft.role is Role.CANDIDATE
    log = raft.log
    raft.role = Role.LEADER
    raft.leader = raft.own
    raft.reset_timers()
    raft.progress = {
        node: Progress(log.last_index + 1, active=node in raft.votes)
        for node in raft.configuration.members
        if node != raft.own
    }
    raft.uncommitted_bytes = sum(
        entry.size for entry in log.entries[log.commit - log.base_index : log.last_index - log.base_index]
    )
    no_op = Entry(log.last_index + 1, raft.term, EntryKind.NO_OP, b"")
    log.append([no_op])
    raft.uncommitted_bytes += no_op.size


def on_timeout_now(raft: RaftState, message: Message) -> None:
    """The leader hands over: no asking in advance, and nobody's lease counts."""
    if message.sender != raft.leader:
        raise MalformedMessageError(f"{message.sender} hands over a leadership that it doesn't have")
    if may_campaign(raft):
        campaign(raft, pre=False, force=True)


def check_quorum(raft: RaftState) -> None:
    """A leader that a majority hasn't answered for an election timeout steps down: there may be another."""
    active = {raft.own} | {node for node, progress in raft.progress.items() if progress.active}
    for progress in raft.progress.values():
        progress.active = False
    # Who asks again later than this has to hear anew who is there; a slow answer takes no longer.
    raft.removals = {node: began for node, began in raft.removals.items() if began > raft.checked_round}
    raft.checked_round = raft.read_round
    voters = raft.configuration.voters
    if sum(voter in active for voter in voters) < majority(len(voters)):
        raft.become_follower(raft.term, None)


def on_broken(raft: RaftState, sender: NodeId) -> None:
    """The stream of messages from that node broke. Where it led, its process has most often ended.

    A hint, as a broker's broken stream is: its lease counts no more, so that others who noticed it, too, get
    this node's answer when they ask whether they would win; and this one asks, unless the leader is heard
    again. A leader that lives, and that others hear, stays: they refuse.
    """
    if sender in raft.progress:
        raft.progress[sender].max_level = 0  # the next process may be another version
    if raft.role is Role.FOLLOWER and raft.leader == sender:
        raft.leader = None
        others = sorted(voter for voter in raft.configuration.voters if voter != sender)
        turn = others.index(raft.own) if raft.own in others else len(others)
        raft.gone_ticks = raft.settings.gone_ticks + turn * raft.settings.gone_apart_ticks


def tick(raft: RaftState) -> None:
    """Time passes for one that doesn't lead.

    A node that may not campaign goes on counting, and forgets a leader that is silent for as long as others
    wait before they campaign: it must neither refuse others its vote nor count as led.
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
